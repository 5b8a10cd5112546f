package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
)

// Refusal says why something cannot be replayed. It is an answer, not a malfunction.
type Refusal struct{ Why []string }

func (r *Refusal) Error() string { return "it cannot be replayed: " + strings.Join(r.Why, "; ") }

func refuse(format string, args ...any) error {
	return &Refusal{[]string{fmt.Sprintf(format, args...)}}
}

// Kept is a run that was kept: its record and what lies beside it.
type Kept struct {
	Record    record.Record
	Request   []byte // as [Keep] made it
	Workspace []byte // a tar stream
	Stdin     []byte
}

// Read decodes the request, and holds it and the bytes beside it against the record, which was verified before or is the store's own.
// Errors: [*Refusal], [*ChangedError].
func (k Kept) Read() (Request, error) {
	var r Request
	switch {
	case k.Record.Outcome.Kind == "":
		return r, refuse("it has not ended")
	case k.Record.Replay == nil && k.Record.PolicySHA256 == "":
		return r, refuse("nothing ran: it was refused, or could not be read")
	case k.Record.Replay == nil:
		return r, refuse("nothing of its request is kept: it did not start, silk was ended before it, or it is of an earlier version")
	}
	if k.Request == nil {
		return r, refuse("its request is not there: retention has removed it, or it is not in the file")
	}
	if got := hashOf(k.Request); got != k.Record.Replay.RequestSHA256 {
		return r, &ChangedError{"request", got, k.Record.Replay.RequestSHA256}
	}
	if err := json.Unmarshal(k.Request, &r); err != nil {
		return r, fmt.Errorf("decode the request of run %s: %w", k.Record.Run, err)
	}
	if r.Schema != Schema || r.Run != k.Record.Run {
		return r, fmt.Errorf("decode the request of run %s: it is a %q of run %q", k.Record.Run, r.Schema, r.Run)
	}
	changed, missing := k.against(r)
	switch {
	case len(changed) > 0:
		return r, changed[0]
	case len(r.Obstacles) > 0:
		return r, &Refusal{r.Obstacles}
	case len(missing) > 0:
		return r, refuse("its %s is not there: retention has removed it, or it is not in the file", missing[0])
	}
	return r, nil
}

// parts are what a request names beside itself.
func (k Kept) parts(r Request) map[string]struct {
	is   Part
	text []byte
} {
	return map[string]struct {
		is   Part
		text []byte
	}{"workspace": {r.Workspace, k.Workspace}, "stdin": {r.Stdin, k.Stdin}}
}

// against holds what lies beside a request against it, and says what is another or does not belong there, and what is missing.
func (k Kept) against(r Request) (changed []*ChangedError, missing []string) {
	for name, part := range k.parts(r) {
		switch {
		case part.is.Present && part.text == nil:
			missing = append(missing, name)
		case part.is.Present && hashOf(part.text) != part.is.SHA256:
			changed = append(changed, &ChangedError{name, hashOf(part.text), part.is.SHA256})
		case !part.is.Present && part.text != nil:
			changed = append(changed, &ChangedError{name, hashOf(part.text), ""})
		}
	}
	slices.SortFunc(changed, func(a, b *ChangedError) int { return strings.Compare(a.What, b.What) })
	slices.Sort(missing)
	return changed, missing
}

// ChangedError says which part of what was kept is not as it was. Want is empty if there was none.
type ChangedError struct{ What, Got, Want string }

func (e *ChangedError) Error() string {
	if e.Want == "" {
		return fmt.Sprintf("%s was put there: the run had none that was kept", e.What)
	}
	return fmt.Sprintf("%s was changed: its SHA-256 is %s, in the record it is %s", e.What, e.Got, e.Want)
}

// Again makes the request once more, for the local command line. env are the variables whose values are not kept, KEY=VALUE: those of the
// first run, with the same values. Errors: [*Refusal].
func (r Request) Again(workspace []byte, env []string) (policy.Request, error) {
	if err := r.variables(env); err != nil {
		return policy.Request{}, err
	}
	req := policy.Request{
		Client: policy.ClientCLI, Profile: r.Profile, Language: r.Language, Cwd: string(r.Cwd), Hostname: r.Name, HasStdin: r.Stdin.Present, Env: env,
		Limits: r.Limits, Network: r.Network, Hosts: r.Hosts, Secrets: r.Secrets, NoSpawn: r.NoSpawn, Deterministic: r.Deterministic, Held: r.Held,
		Driver: r.Driver, Isolation: r.Isolation, RequireWatch: r.RequireWatch, Image: r.Image,
		Kept: &policy.Kept{Tar: workspace, SHA256: r.Workspace.SHA256},
	}
	for _, arg := range r.Args {
		req.Args = append(req.Args, string(arg))
	}
	if r.Code != nil {
		req.Code = &policy.Code{Name: r.Code.Name, SHA256: r.Code.SHA256, Given: r.Code.Given}
	}
	return req, nil
}

// variables holds the variables that are given again against those of the first run.
func (r Request) variables(env []string) error {
	var why []string
	given := map[string]bool{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		given[name] = true
		switch i := slices.IndexFunc(r.Env, func(v Variable) bool { return v.Name == name }); {
		case i < 0:
			why = append(why, fmt.Sprintf("it had no variable %s of the invoker's", name))
		case r.Env[i].SHA256 != valueHash(r.Run, name, value):
			why = append(why, fmt.Sprintf("%s had another value", name))
		}
	}
	for _, v := range r.Env {
		if !given[v.Name] {
			why = append(why, fmt.Sprintf("the value of %s is not kept, since it may be a secret; give it again with --env %s=VALUE", v.Name, v.Name))
		}
	}
	if why != nil {
		return &Refusal{why}
	}
	return nil
}
