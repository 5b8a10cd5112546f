// Package wire is the conversation between the engine and one sandbox kernel process (silk-sentry): one SOCK_SEQPACKET
// pair, one JSON message a packet, descriptors beside it (SCM_RIGHTS).
//
//	sentry -> engine   hello                       the process lives, and has seen nothing yet
//	engine -> sentry   Placed                      it is in its control group, and may have children
//	engine -> sentry   Request + descriptors       exactly one
//	sentry -> engine   armed                       the policy is in force; the engine now fills the workspace
//	sentry -> engine   started                     the program is about to run
//	engine -> sentry   Control                    any number
//	sentry -> engine   violation | exit | error    the last message; then end of file
//
// A peer that closes its end ends the run: the sentry exits when the engine is gone, and the engine treats an end of
// file without an exit message as a failure of the sandbox, never as success. The guest cannot reach the socket: it is
// a descriptor of the sentry process, not of a task in it.
package wire

import (
	"net/netip"

	"github.com/silk-sandbox/silk/driver"
)

// Version is checked in hello: an engine talks only to a sentry of its own build.
const Version = 4

// Placed is the first message of an engine. A child that is born before its parent was moved would stay outside the
// group and its limits.
type Placed struct{}

// Request is the one run of a sentry. The descriptors beside it are, in this order: image; stdin, stdout, stderr or,
// with Terminal, the replica three times; the read end of the tar to fill /workspace with; the memory of
// the event ring and the write end of the pipe that wakes its reader; if Drain, the write
// end of the tar that comes back; one image for each of Mounts.
type Request struct {
	ID       string   `json:"id"`
	Args     []string `json:"args"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir"`
	Hostname string   `json:"hostname"`

	Network driver.Network `json:"network"`
	Link    *Link          `json:"link,omitempty"` // with it the socket is the last descriptor but for Mounts
	Files   []driver.File  `json:"files,omitempty"`
	NoSpawn bool           `json:"no_spawn,omitempty"`

	ReadOnly bool         `json:"read_only,omitempty"` // see driver.Spec
	Held     *driver.Held `json:"held,omitempty"`
	Trees    []string     `json:"trees"` // of the image, which programs may read

	MemoryBytes    int64 `json:"memory_bytes"`
	WorkspaceBytes int64 `json:"workspace_bytes"`
	TmpBytes       int64 `json:"tmp_bytes"`
	ShmBytes       int64 `json:"shm_bytes"`
	Processes      int   `json:"processes"`

	Terminal bool     `json:"terminal,omitempty"`
	Drain    bool     `json:"drain,omitempty"`
	Mounts   []string `json:"mounts,omitempty"` // targets

	FileCapBytes  int64 `json:"file_cap_bytes"`  // a larger file is drained without its content
	TotalCapBytes int64 `json:"total_cap_bytes"` // past this no content is drained
	MaxEntries    int   `json:"max_entries"`     // entries drained at most
}

// Link is what a sandbox knows of its way out.
type Link struct {
	Addrs []netip.Addr `json:"addrs"`
	MTU   int          `json:"mtu"`
}

// Kinds of a Message.
const (
	Hello     = "hello"
	Armed     = "armed" // what is in force; the engine sends no workspace, without which nothing runs, before it has heard this
	Started   = "started"
	Violation = "violation"
	Exit      = "exit"
	Error     = "error"
)

// Message is what a sentry says.
type Message struct {
	Kind    string `json:"kind"`
	Version int    `json:"version,omitempty"`
	Error   string `json:"error,omitempty"`

	Status    uint32            `json:"status,omitempty"` // wait status as in wait(2)
	OOM       bool              `json:"oom,omitempty"`
	Killed    bool              `json:"killed,omitempty"`
	NotFound  string            `json:"not_found,omitempty"` // why the command could not be started
	Code      int               `json:"code,omitempty"`      // with NotFound: 126 or 127
	Violation *driver.Violation `json:"violation,omitempty"`
	Flags     driver.Flags      `json:"flags"`
	Refused   []driver.Refusal  `json:"refused,omitempty"`
	PeakBytes int64             `json:"peak_bytes,omitempty"`
	Processes int64             `json:"processes,omitempty"`
	DrainErr  string            `json:"drain_err,omitempty"`

	Rules  []string `json:"rules,omitempty"`  // with armed: the rules that are in force
	Points []string `json:"points,omitempty"` // with armed: the kinds of events that are reported

	Steps []Step `json:"steps,omitempty"` // of the start, with hello and started
}

// Step is one step of a start.
type Step struct {
	Name string `json:"name"`
	At   int64  `json:"at"` // nanoseconds since the epoch
}

// Control is what an engine says after the request.
type Control struct {
	Kill   bool  `json:"kill,omitempty"`   // end every process, then drain and exit
	Signal int32 `json:"signal,omitempty"` // send the program this signal
}
