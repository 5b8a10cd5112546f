package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gowebpki/jcs"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

// DefaultBytes is what is kept of the workspace and of the input of one run, each, where the owner says nothing else. A run whose
// input is longer has no replay.
const DefaultBytes = 16 << 20

// Run is what is known of a run besides its request and its plan when it has ended.
type Run struct {
	ID        string
	Driver    string
	Image     string // digest
	Workspace Part   // Bytes without Present: there were as many, and they were not kept
	Stdin     Part   // as Workspace
	StdinLost bool   // what of the input was handed over is not known
	Missing   string // why something could not be kept; "": nothing was in the way
}

// Keep decides what is kept of a request that was run: one JSON object, canonical (RFC 8785), and its parsed form.
func Keep(req policy.Request, plan policy.Plan, run Run) (Request, []byte, error) {
	r := Request{
		Schema: Schema, Run: run.ID, Profile: plan.Profile, Language: plan.Language, Args: texts(req.Args), Cwd: Text(req.Cwd), Name: req.Hostname,
		Env: []Variable{}, Limits: plan.Limits, Network: plan.Network, Hosts: append([]string{}, plan.Hosts...), NoSpawn: plan.NoSpawn,
		Deterministic: plan.Deterministic, Held: plan.Held, Isolation: plan.Isolation, RequireWatch: plan.RequireWatch,
		Driver: run.Driver, Tag: plan.Image, Image: run.Image, Workspace: run.Workspace, Stdin: run.Stdin,
	}
	if plan.Egress != nil {
		r.Secrets = plan.Egress.Secrets
	}
	if c := plan.Code; c != nil {
		r.Code = &Code{Name: c.Name, SHA256: c.SHA256, Given: c.Given}
	}
	for _, entry := range req.Env {
		name, value, _ := strings.Cut(entry, "=")
		r.Env = append(r.Env, Variable{name, valueHash(run.ID, name, value)})
	}
	r.Obstacles = obstacles(req, plan, run)
	text, err := json.Marshal(r)
	if err == nil {
		text, err = jcs.Transform(text)
	}
	if err != nil {
		return Request{}, nil, fmt.Errorf("encode the request of run %s: %w", run.ID, err)
	}
	return r, text, nil
}

// obstacles says what keeps a request from being run again, in words that go on after "it cannot be replayed:".
func obstacles(req policy.Request, plan policy.Plan, run Run) (list []string) {
	add := func(is bool, format string, args ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	add(req.Client == policy.ClientRuntime, "it was a container engine's: the files of the container are not kept")
	add(plan.Skill != nil, "it was a skill's, which runs with silk skill run")
	add(plan.Terminal, "it had a terminal, and what was typed when is not kept")
	for _, m := range plan.Mounts {
		list = append(list, fmt.Sprintf("what was mounted on %s is not kept", m.Target))
	}
	add(len(plan.Overlays) > 0, "files lay over its image, which are not kept")
	add(run.Missing != "", "%s", run.Missing)
	add(run.Missing == "" && !run.Workspace.Present, "its workspace is not kept: it had %s, more than the configuration keeps", profile.FormatBytes(run.Workspace.Bytes))
	add(run.StdinLost, "how much of its input was handed over is not known")
	add(!run.StdinLost && !run.Stdin.Present && run.Stdin.Bytes > 0, "its input is not kept: it had %s, more than the configuration keeps", profile.FormatBytes(run.Stdin.Bytes))
	return list
}

// valueHash is the hash of a variable's value, which is another for each run: equal values do not show as such. Whoever has it can still try
// values, one after the other.
func valueHash(run, name, value string) string {
	return hashOf([]byte(run + "\x00" + name + "\x00" + value))
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
