// Package profile holds named ceilings: which image, which limits, which network a kind of code gets, and which
// interpreter runs which language.
//
// The built-in profiles (lab:text, lab:python, ...) are embedded YAML, one file each; an owner adds or
// overrides profiles in the configuration file with the same syntax ([Read]), and a [Set] looks both up. Decoding is
// strict: an unknown key is an error that names its line and the nearest known key. The package starts nothing and
// decides nothing; policy.Decide does, with a Profile as one argument.
package profile

import "time"

// Network modes, from the narrowest to the widest.
const (
	NetworkDeny      = "deny"       // no INET socket can be created
	NetworkLoopback  = "loopback"   // 127.0.0.0/8 and ::1 inside the sandbox
	NetworkLocalFork = "local-fork" // loopback, for a chain that was forked into the sandbox
	NetworkAllowlist = "allowlist"  // named host:port pairs
	NetworkAllow     = "allow"      // the public internet
)

// What an attempt to reach something that is not allowed does, besides that it comes to nothing.
const (
	RefusedGoesOn = "deny" // the run goes on
	RefusedKills  = "kill" // the run ends as violated
)

// Service is an endpoint of the owner's that programs find in a variable.
type Service struct {
	Variable string `json:"variable"` // of the environment: "API_URL"
	URL      string `json:"url"`      // http or https; at a loopback or private address too, since the owner names it
}

// Profile is a named set of defaults and ceilings. Profiles are values; nobody changes the maps and slices in one.
type Profile struct {
	Name      string            `json:"name"`                 // "lab:python"
	Summary   string            `json:"summary"`              // one line for `silk profile ls`
	Image     string            `json:"image"`                // tag in the image store, usually the profile's own name
	Language  string            `json:"language"`             // name of the Language that code has if nothing else says so
	Network   string            `json:"network"`              // default mode and ceiling
	Hosts     []string          `json:"hosts,omitempty"`      // of NetworkAllowlist, as egress.ParseRule reads them
	OnRefused string            `json:"on_refused,omitempty"` // where there is a way out; empty: RefusedGoesOn
	Service   *Service          `json:"service,omitempty"`    // of NetworkDeny: the one thing that is reached nevertheless
	Limits    Limits            `json:"limits"`               // what a run gets if it asks for nothing; every field set
	Max       Limits            `json:"max"`                  // what a run may ask for without a grant; a zero field means the same as Limits
	Env       map[string]string `json:"env"`
	Dirs      []string          `json:"dirs"`   // directories under /workspace that exist before the start; never artifacts
	Ignore    []string          `json:"ignore"` // base names that are never artifacts, CommonIgnore included

	// Of profiles that silk makes itself, for skills. In a file there is neither.
	NoSpawn  bool `json:"no_spawn,omitempty"`  // every run is as if it had asked for that
	ReadOnly bool `json:"read_only,omitempty"` // /workspace cannot be written, and there is no /dev/shm
}

// Limits are the numbers of a run. A zero field means "not said".
type Limits struct {
	Timeout        time.Duration // wall clock
	MemoryBytes    int64         // anonymous memory and the pages of /tmp and /dev/shm
	CPUs           float64       // processors' worth of time; 0.5 is half of one
	Processes      int           // processes and threads
	WorkspaceBytes int64         // size of /workspace
	TmpBytes       int64         // size of /tmp
	ShmBytes       int64         // size of /dev/shm
	OutputBytes    int64         // kept per channel
}

// What no run gets more of, whoever asks.
const (
	MaxCPUs      = 1024  // more than any machine that we know; it keeps infinity out
	MaxProcesses = 32768 // the usual pid_max, proc(5)
)

// Defaults are the limits of a profile that says nothing.
var Defaults = Limits{
	Timeout:        120 * time.Second,
	MemoryBytes:    512 << 20,
	CPUs:           1,
	Processes:      64,
	WorkspaceBytes: 256 << 20,
	TmpBytes:       64 << 20,
	ShmBytes:       64 << 20,
	OutputBytes:    10 << 20,
}

// DefaultEnv is the environment of a profile that says nothing. A profile's own is laid over it, entry by entry.
var DefaultEnv = map[string]string{
	"HOME": "/workspace", "TMPDIR": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache",
	"USER": "silk", "LOGNAME": "silk", "SHELL": "/bin/sh", "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC",
}

// CommonIgnore are base names that are never artifacts under any profile: caches, what interactive programs remember, and
// the directory that silk uses. It is sorted.
var CommonIgnore = []string{
	".bash_history", ".cache", ".git", ".node_repl_history", ".python_history", ".silk", ".sqlite_history", "__pycache__", "node_modules",
}
