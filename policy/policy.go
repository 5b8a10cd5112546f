// Package policy decides. [Decide] turns a [Request] - what somebody wants - into a complete [Plan] - what will happen -
// or refuses it with a [Denial].
//
// It is the only place that says what is allowed, and it is pure: no I/O, no clock, no environment, so the same
// arguments always give the same answer. It does not enforce anything: drivers do, from the Spec that the engine makes
// of a Plan.
package policy

import (
	"time"

	"github.com/silk-sandbox/silk/profile"
)

// Client says through which door a request came; doors differ in what their invoker may grant.
type Client string

const (
	ClientCLI  Client = "cli"  // the invoker's own flags are grants (but for network "allow")
	ClientAPI  Client = "api"  // beyond a ceiling an approval is needed
	ClientNote Client = "note" // as ClientAPI
	ClientMCP  Client = "mcp"  // beyond a ceiling is refused
)

// Request is what somebody wants. The zero value of a field means "not said".
type Request struct {
	Client   Client
	Profile  string // decided by language if empty
	Language string // name of a profile.Language, if the code has one

	Code     *Code    // a program to put in /workspace and run; nil: Args is the whole command
	Args     []string // arguments of Code, or the command
	Dir      string   // host directory copied into /workspace
	Files    []string // host files copied into /workspace under their base names
	Mounts   []Mount
	HasStdin bool // the invoker sends bytes; otherwise stdin is at end of file
	Terminal bool
	Env      []string // KEY=VALUE, added to the profile's

	Limits        profile.Limits // what is asked for; zero fields: the profile's
	Network       string         // "", "deny", "loopback", "allow", "allowlist"
	Hosts         []string       // host:port, for allowlist
	NoSpawn       bool
	Deterministic bool

	Driver       string // "", "auto", "gvisor", ...
	Isolation    string // "", "microvm": gVisor is not enough
	RequireWatch bool
	Approve      string // hash of an approved plan, for network "allow"
}

// Code is the program of a request.
type Code struct {
	Name   string // path under /workspace, local (filepath.IsLocal)
	Bytes  []byte // nil when the file is already part of Request.Dir
	SHA256 string // of the bytes, lower-case hex
}

// Mount is a read-only bind of a directory or file that lies inside a store listed by the owner.
type Mount struct{ Source, Target string }

// Grants is what the owner allows beyond the ceilings of profiles: config `grants:`.
type Grants struct {
	Max    profile.Limits // zero field: nothing beyond the profile
	Hosts  []string       // host:port that allowlist may name
	Stores []string       // directories below which --mount sources may lie
}

// Plan is what will happen, complete: the engine adds nothing to it. It marshals to stable JSON.
type Plan struct {
	Profile  string
	Image    string // tag; the engine resolves it to a digest
	Driver   string // "auto" or a name
	Args     []string
	Env      []string // whole, sorted
	Dir      string   // working directory: /workspace
	Code     *Code
	HostDir  string
	Files    []string
	Mounts   []Mount
	Stdin    bool
	Terminal bool

	Limits        profile.Limits // every field set
	Network       string
	Hosts         []string
	NoSpawn       bool
	Deterministic bool
	RequireWatch  bool
	Isolation     string

	Compile bool     // Args[0] is the compile driver: see CompileExit
	Ignore  []string // base names that are never artifacts
	Grants  []string // what was granted and by whom: "memory 2 GiB (invoker)"
}

// Denial is a refusal: an outcome, not a malfunction.
type Denial struct {
	Rule   string // "timeout", "memory", "network", "mount", ...
	Detail string // what was asked and what would be allowed, in one sentence
	Fix    string // what the user can do
}

func (d *Denial) Error() string {
	s := "denied by rule " + d.Rule + ": " + d.Detail
	if d.Fix != "" {
		s += "; " + d.Fix
	}
	return s
}

var _ = time.Second
