//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/auth"
)

// TestRemoteSkills: a server's skills look like those of this host, and their files are in one of its stores.
func TestRemoteSkills(t *testing.T) {
	s := newRemoteStand(t)
	inside := filepath.Join(s.dir, "hello")
	if err := os.CopyFS(inside, os.DirFS("../../examples/skills/totals-node")); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "hello")
	if err := os.CopyFS(outside, os.DirFS(inside)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name   string
		role   auth.Role
		args   string
		status int
		out    string // a part
		err    string // a part
	}{
		{"nothing yet", auth.Viewer, "ls --json", 0, "[]", ""},
		{"outside of its stores", auth.Owner, "register " + outside, 1, "/basePath lies in no store", "schema_validation_failed"},
		{"not the owner", auth.Runner, "register " + inside, 125, "", "the role does not allow this"},
		{"registered", auth.Owner, "register " + inside, 0, "", "registered totals-node; its manifest is 0x"},
		{"twice", auth.Owner, "register --json " + inside, 1, `"error": "duplicate_skill"`, "duplicate_skill"},
		{"listed", auth.Runner, "ls", 0, "totals-node  silk examples  0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266  active", ""},
		{"shown", auth.Viewer, "show totals-node", 0, "index.mjs", ""},
		{"all of them", auth.Viewer, "ls --all", 125, "", "leave --all out"},
		{"of another name", auth.Viewer, "show other", 125, "", "the server has no active skill other"},
		{"revoked by a runner", auth.Runner, "revoke totals-node", 125, "", "the role does not allow this"},
		{"revoked", auth.Owner, "revoke totals-node --json", 0, `"revoked": true`, ""},
		{"revoked twice", auth.Owner, "revoke totals-node", 125, "", "the server has no active skill totals-node"},
		{"listed no more", auth.Viewer, "ls --json", 0, "[]", ""},
		{"run there", auth.Owner, "run totals-node", 125, "", "a skill runs on the host that has it"},
	} {
		got := s.start(step.role, "", append([]string{"skill"}, strings.Fields(step.args)...)...).wait()
		if got.status != step.status || !strings.Contains(got.out, step.out) || !strings.Contains(got.err, step.err) || strings.Contains(got.out+got.err, s.tokens[step.role]) {
			t.Errorf("%s: %d %q %q\nwant %d %q %q", step.name, got.status, got.out, got.err, step.status, step.out, step.err)
		}
	}
}

func TestSkillDir(t *testing.T) {
	store, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{store, other} {
		if err := os.Mkdir(filepath.Join(dir, "a"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(other, "a"), filepath.Join(store, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(store, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h := &host{}
	if dir, ok := h.skillDir(filepath.Join(store, "a")); ok {
		t.Errorf("without a store: %s", dir)
	}
	h.config.grants.Stores = []string{store}
	for path, want := range map[string]bool{
		filepath.Join(store, "a"): true, store: true, filepath.Join(other, "a"): false, filepath.Join(store, "link"): false, filepath.Join(store, "file"): false,
		filepath.Join(store, "no"): false, store + "/../" + filepath.Base(other) + "/a": false, "a": false, "": false, store + "-evil": false,
	} {
		if dir, ok := h.skillDir(path); ok != want {
			t.Errorf("%s: %s, %t", path, dir, ok)
		}
	}
}
