// Package profile holds named ceilings: which image, which limits, which network a kind of code gets, and which
// interpreter runs which language.
//
// The built-in profiles (lab:text, lab:python, lab:node, lab:repo) are embedded YAML; an owner adds or overrides
// profiles in the configuration file with the same syntax. Decoding is strict: an unknown key is an error that names
// its line. The package starts nothing and decides nothing; policy.Decide does, with a Profile as one argument.
package profile

import "time"

// Profile is a named set of defaults and ceilings.
type Profile struct {
	Name    string // "lab:python"
	Summary string // one line for `silk profile ls`
	Image   string // tag in the image store, usually the profile's own name
	Network string // default mode: "deny" or "loopback" (others come with the egress gateway)
	Limits  Limits // what a run gets if it asks for nothing
	Max     Limits // what a run may ask for without a grant; a zero field means the same as Limits
	Env     map[string]string
	Ignore  []string // base names that are never artifacts, besides the common ones
}

// Limits are the numbers of a run. A zero field means "not said".
type Limits struct {
	Timeout        time.Duration // wall clock
	MemoryBytes    int64
	CPUs           float64
	Processes      int
	WorkspaceBytes int64
	TmpBytes       int64
	ShmBytes       int64
	OutputBytes    int64 // kept per channel
}

// Language says how a piece of code is run.
type Language struct {
	Name       string   // "python"
	Profile    string   // profile used when the request names none
	File       string   // name given to code that has none: "main.py"
	Extensions []string // ".py"
	Fences     []string // info strings of Markdown fences: "python", "py"
	Shebangs   []string // base names of interpreters: "python3"
	Compile    []string // command run first, in the same sandbox; {file} and {out} are replaced; nil: interpreted
	Command    []string // command; {file} and {out} are replaced, arguments are appended
}
