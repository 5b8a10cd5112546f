// Package policy decides. [Decide] turns a [Request] - what somebody wants - into a complete [Plan] - what will happen -
// or refuses it with a [Denial].
//
// It is the only place that says what is allowed, and it is pure: no I/O, no clock, no environment, so the same
// arguments always give the same answer. It does not enforce anything: drivers do, from the Spec that the engine makes
// of a Plan.
package policy

import (
	"strings"

	"github.com/silk-sandbox/silk/profile"
)

// Client says through which door a request came; doors differ in what their invoker may grant.
type Client string

const (
	ClientCLI  Client = "cli"  // the invoker's own flags are grants (but for network "allow")
	ClientAPI  Client = "api"  // beyond a ceiling an approval is needed
	ClientNote Client = "note" // as ClientAPI
	ClientMCP  Client = "mcp"  // beyond a ceiling is refused

	ClientRuntime Client = "runtime" // a container engine, through package oci; as ClientMCP
)

// Request is what somebody wants. The zero value of a field means "not said".
type Request struct {
	Client   Client
	Foreign  bool   `json:",omitempty"` // somebody else wrote it, and the invoker passes it on: his own rights are not its, and what is beyond the profile takes an approval
	Profile  string // decided by language if empty
	Language string // name of a profile.Language, if the code has one

	Code     *Code    // a program to put in /workspace and run; nil: Args is the whole command
	Args     []string // arguments of Code, or the command
	Dir      string   // host directory copied into /workspace
	Files    []string // host files copied into /workspace under their base names
	Uploads  []Upload `json:",omitempty"` // files that the invoker sent along
	Mounts   []Mount
	Overlays []Overlay `json:",omitempty"` // files laid over the image
	HasStdin bool      // the invoker sends bytes; otherwise stdin is at end of file
	Terminal bool
	Env      []string // KEY=VALUE, added to the profile's
	Cwd      string   `json:",omitempty"` // working directory, of the image or [Workspace], which it is if empty
	Hostname string   `json:",omitempty"` // the sandbox's name for itself; empty: the same for all

	Limits        profile.Limits // what is asked for; zero fields: the profile's
	Network       string         // "", "deny", "loopback", "allow", "allowlist"
	Hosts         []string       // host:port, for allowlist
	Secrets       []string       `json:",omitempty"` // NAME@HOST:PORT/Header: credentials that the program never has
	NoSpawn       bool
	Deterministic bool

	Driver       string // "", "auto", "gvisor", ...
	Isolation    string // "", "microvm": gVisor is not enough
	RequireWatch bool
	Approve      string // hash of an approved plan, for network "allow"

	Skill *Skill `json:",omitempty"` // Code and Uploads are the files of one

	Kept  *Kept  `json:",omitempty"` // in place of what Code, Dir, Files and Uploads bring
	Image string `json:",omitempty"` // digest of an image in place of the profile's
	Held  *Held  `json:",omitempty"` // what a deterministic run starts from; nil: [Usual]
}

// Kept is the workspace that another run had at its start, whole. Code is then a file in it.
type Kept struct {
	Tar    []byte `json:"-"`      // as workspace.Fill wrote it
	SHA256 string `json:"sha256"` // of Tar, lower-case hex
}

// Held is what a deterministic run starts from: equal runs that hold the same see the same times and the same random numbers.
type Held struct {
	ClockMs int64 `json:"clock_ms"` // the time at the start, Unix milliseconds
	StepNs  int64 `json:"step_ns"`  // by which clocks move on whenever a program looks
	Seed    int64 `json:"seed"`     // of random numbers, and PYTHONHASHSEED
}

// Usual is what deterministic runs start from that do not say otherwise: the beginning of 2025 UTC, and a microsecond each time, which is
// more than a float64 of seconds since 1970 can lose.
var Usual = Held{ClockMs: 1735689600000, StepNs: 1000}

// Code is the program of a request.
type Code struct {
	Name   string `json:"name"`   // path under /workspace, local (filepath.IsLocal)
	Bytes  []byte `json:"-"`      // nil when the file is already part of Request.Dir
	SHA256 string `json:"sha256"` // of the bytes, lower-case hex
	Given  string `json:"-"`      // how it came when it is no file of the invoker's: "-c" or "-"; for people, it decides nothing
}

// Upload is one file, link or directory that came with a request over the network.
type Upload struct {
	Name       string `json:"name"`   // path under /workspace, plain and local
	Bytes      []byte `json:"-"`      // its content; nil is an empty file
	SHA256     string `json:"sha256"` // of the bytes, lower-case hex
	Executable bool   `json:"executable,omitempty"`
	Mode       uint32 `json:"mode,omitempty"` // permissions; 0: 0755 of a directory and what is executable, else 0644
	Link       string `json:"link,omitempty"` // it is a symbolic link to this, which is not followed here
	Dir        bool   `json:"dir,omitempty"`
}

// maxUploads bounds the files of one request: each is an entry of a tar stream and of the record's manifest.
const maxUploads = 10_000

// Mount is a read-only bind of a directory or file that lies inside a store listed by the owner.
type Mount struct {
	Source string `json:"source"` // absolute host path
	Target string `json:"target"` // absolute, below /workspace; empty in a Request: /workspace/<base of Source>
}

// Overlay is a file that is read-only and lies over the one of its name in the image, or over none.
type Overlay struct {
	Path   string `json:"path"` // absolute, below /etc
	Bytes  []byte `json:"-"`
	SHA256 string `json:"sha256"` // of the bytes, lower-case hex
}

// Grants is what the owner allows beyond the ceilings of profiles: config `grants:`.
type Grants struct {
	Max    profile.Limits // zero field: nothing beyond the profile
	Hosts  []string       // host:port that allowlist may name
	Stores []string       // directories below which --mount sources may lie

	// Where names lead, and what is not of the public internet and may be reached: config `egress:`.
	Addrs   map[string]string // name to address
	Targets []string          // CIDR:port

	// Machine is the driver that isolation microvm leads to where none is named; empty: this host has none. It is the host's, not the owner's, to grant.
	Machine string `json:"-" yaml:"-"`

	Secrets []string // names that have a value in the owner's configuration; the invoker of the local command line may use others, of his own
}

// Plan is what will happen, complete: the engine adds nothing to it. It marshals to stable JSON.
type Plan struct {
	Profile  string    `json:"profile"`
	Language string    `json:"language,omitempty"`
	Image    string    `json:"image"`  // tag; the engine resolves it to a digest
	Driver   string    `json:"driver"` // "auto" or a name
	Args     []string  `json:"args"`
	Env      []string  `json:"env"` // whole, sorted
	Dir      string    `json:"dir"` // working directory
	Hostname string    `json:"hostname,omitempty"`
	Code     *Code     `json:"code,omitempty"`
	HostDir  string    `json:"host_dir,omitempty"`
	Files    []string  `json:"files"`
	Uploads  []Upload  `json:"uploads,omitempty"`
	Mounts   []Mount   `json:"mounts"`
	Overlays []Overlay `json:"overlays,omitempty"`
	MakeDirs []string  `json:"make_dirs"` // directories made under /workspace before the start, mode 0755; local names
	Stdin    bool      `json:"stdin"`
	Terminal bool      `json:"terminal"`

	Limits        profile.Limits `json:"limits"` // every field set; with ReadOnly all but ShmBytes
	Network       string         `json:"network"`
	Hosts         []string       `json:"hosts"`            // as egress.ParseRule reads them
	Egress        *Egress        `json:"egress,omitempty"` // nil: nothing leads out
	NoSpawn       bool           `json:"no_spawn"`
	Deterministic bool           `json:"deterministic"`
	RequireWatch  bool           `json:"require_watch"`
	Isolation     string         `json:"isolation,omitempty"`
	ReadOnly      bool           `json:"read_only,omitempty"` // only /tmp can be written: /workspace cannot, and there is no /dev/shm
	Skill         *Skill         `json:"skill,omitempty"`
	Kept          *Kept          `json:"kept,omitempty"`
	Held          *Held          `json:"held,omitempty"` // with Deterministic

	Compile bool     `json:"compile"` // Args compile first: see CompileFailed
	Ignore  []string `json:"ignore"`  // base names that are never artifacts
	Grants  []string `json:"grants"`  // what was granted and by whom: "memory 2GiB (invoker)"
}

// Egress is what a plan that leads out of its sandbox says besides its hosts.
type Egress struct {
	Addrs     map[string]string `json:"addrs"`             // where names lead, by the owner; all others are looked up
	Targets   []string          `json:"targets"`           // CIDR:port that may be reached though they are not of the public internet
	Secrets   []string          `json:"secrets,omitempty"` // NAME@HOST:PORT/Header, without their values; the program has a placeholder in NAME
	OnRefused string            `json:"on_refused"`        // what an attempt to reach something else does: profile.RefusedGoesOn, RefusedKills
}

// CompileFailed is the file, relative to /workspace, that a plan with Compile leaves behind when the compiler failed, so
// that nobody takes the compiler's exit status for the program's. A program can make it too: it says only which phase
// the exit status belongs to, and nothing rests on it.
const CompileFailed = ".silk/compile-failed"

// Denial is a refusal: an outcome, not a malfunction.
type Denial struct {
	Rule   string    `json:"rule"`           // "timeout", "memory", "network", "mount", ...
	Detail string    `json:"detail"`         // what was asked and what would be allowed, in one sentence
	Fix    string    `json:"fix,omitempty"`  // what the user can do
	Also   []*Denial `json:"also,omitempty"` // further refusals of the same request
}

func (d *Denial) Error() string {
	s := "denied by rule " + d.Rule + ": " + d.Detail
	if d.Fix != "" {
		s += "; " + d.Fix
	}
	for _, more := range d.Also {
		s += "; also " + more.Error()
	}
	return s
}

// RequestError says that a request cannot be read: names, values and combinations that make no sense whoever asks.
// Decide returns it instead of a Denial, and the run ends as a usage error.
type RequestError struct {
	Faults []string
	Field  string // of the request as clients write it, if all faults are in one
}

func (e *RequestError) Error() string { return strings.Join(e.Faults, "; ") }
