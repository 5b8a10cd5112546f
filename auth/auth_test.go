package auth

import (
	"context"
	"testing"
)

func TestRoles(t *testing.T) {
	want := map[Role]map[Action]bool{
		Owner: {
			ActRun: true, ActView: true, ActViewAll: true, ActControl: true, ActControlAll: true, ActDecide: true, ActTokens: true, ActAudit: true, ActSkills: true,
		},
		Runner:  {ActRun: true, ActView: true, ActControl: true},
		Viewer:  {ActView: true, ActViewAll: true},
		"":      {},
		"admin": {},
		"Owner": {},
	}
	actions := append([]Action{0, -1, ActSkills + 1}, Actions...)
	for role, may := range want {
		for _, a := range actions {
			if got := role.Can(a); got != may[a] {
				t.Errorf("%q may %s: %t", role, a, got)
			}
			if got := (Identity{Token: "t", Role: role}).Can(a); got != may[a] {
				t.Errorf("an identity with role %q may %s: %t", role, a, got)
			}
			if (Identity{Role: role}).Can(a) {
				t.Errorf("an identity without a token may %s", a)
			}
		}
	}
	named := map[string]bool{}
	for _, a := range Actions {
		named[a.String()] = true
	}
	if len(named) != len(Actions) || named["unknown action"] || len(Actions) != int(ActSkills) {
		t.Errorf("actions are named %v", named)
	}
	for _, r := range Roles {
		if !r.Valid() {
			t.Errorf("%q is not valid", r)
		}
	}
	if Role("").Valid() || Role("root").Valid() {
		t.Error("an unknown role is valid")
	}
}

func TestWhoseRun(t *testing.T) {
	for _, test := range []struct {
		name           string
		id             Identity
		belongs        string
		sees, controls bool
	}{
		{"an owner, its own", Identity{Token: "a", Role: Owner}, "a", true, true},
		{"an owner, another's", Identity{Token: "a", Role: Owner}, "b", true, true},
		{"the local owner, another's", LocalOwner, "b", true, true},
		{"a runner, its own", Identity{Token: "a", Role: Runner}, "a", true, true},
		{"a runner, another's", Identity{Token: "a", Role: Runner}, "b", false, false},
		{"a runner, the local owner's", Identity{Token: "a", Role: Runner}, LocalToken, false, false},
		{"a viewer, another's", Identity{Token: "a", Role: Viewer}, "b", true, false},
		{"a viewer, its own", Identity{Token: "a", Role: Viewer}, "a", true, false},
		{"nobody, nobody's", Identity{}, "", false, false},
		{"nobody with a role, nobody's", Identity{Role: Runner}, "", false, false},
	} {
		if got := test.id.Sees(test.belongs); got != test.sees {
			t.Errorf("%s: sees %t", test.name, got)
		}
		if got := test.id.Controls(test.belongs); got != test.controls {
			t.Errorf("%s: controls %t", test.name, got)
		}
	}
}

func TestContext(t *testing.T) {
	if id, ok := FromContext(t.Context()); ok || id != (Identity{}) {
		t.Errorf("of an empty context: %v, %t", id, ok)
	}
	want := Identity{Token: "t", Name: "n", Role: Viewer, MaxRunning: 1, MaxQueued: 2}
	ctx, cancel := context.WithCancel(NewContext(t.Context(), want))
	defer cancel()
	if got, ok := FromContext(ctx); !ok || got != want {
		t.Errorf("got %v, %t", got, ok)
	}
}
