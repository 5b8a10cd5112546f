package run

import (
	"time"

	"github.com/silk-sandbox/silk/alert"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/watch"
)

// Kind names how a run ended. It is one word, the same in the API, the record, the log and the documentation.
type Kind string

const (
	OK       Kind = "ok"       // the program exited 0
	Failed   Kind = "failed"   // the program exited with another status, or died by a signal of its own
	Timeout  Kind = "timeout"  // the wall clock limit ended the sandbox
	OOM      Kind = "oom"      // the memory limit ended the sandbox
	Violated Kind = "violated" // policy ended the sandbox
	Denied   Kind = "denied"   // refused before the start by profile, plan or owner
	Canceled Kind = "canceled" // the user or the client ended it
	Error    Kind = "error"    // silk or the host failed, or the request cannot be read
)

// Reason says whose fault an Error is.
type Reason string

const (
	ReasonHost    Reason = "host"    // silk or the host failed: disk full, state not writable, sandbox kernel lost
	ReasonUsage   Reason = "usage"   // the request cannot be read: unknown profile, flag or key
	ReasonMissing Reason = "missing" // an image, file or driver is not there
)

// Outcome is the end of one run. Its JSON form is what `silk run --json` prints.
type Outcome struct {
	Kind     Kind   `json:"outcome"`
	Reason   Reason `json:"reason,omitempty"` // for Error
	Message  string `json:"message,omitempty"`
	ExitCode *int   `json:"exit_code"` // null after a signal and when no program ran
	Signal   int    `json:"signal,omitempty"`
	Phase    string `json:"phase,omitempty"` // "compile" when the compiler failed

	Rule     string `json:"rule,omitempty"` // of a violation or denial
	Syscall  string `json:"syscall,omitempty"`
	Argument string `json:"argument,omitempty"`

	Stdout    Channel          `json:"stdout"`
	Stderr    Channel          `json:"stderr"`
	Artifacts []Artifact       `json:"artifacts"`
	Flags     map[string]int64 `json:"flags"` // limits that were hit: output_truncated, disk_full, pids_limit_hit, tmp_full, ...

	Refused map[string]int64 `json:"refused,omitempty"` // calls that a rule refused while the run went on, by rule of driver/rules

	// What the sandbox reached and was kept from, where it has a way out; EgressMore counts attempts beyond what is listed.
	Egress     []Destination `json:"egress,omitempty"`
	EgressMore int           `json:"egress_more,omitempty"`

	Watched map[watch.Kind]int64 `json:"watched,omitempty"` // what was seen, by kind
	Dropped int64                `json:"dropped,omitempty"` // events that were seen and not delivered; audited

	// Of a violation: what was seen before it, the newest last, and the time from the attempt to the moment when the
	// sandbox was known to be gone, in microseconds. The attempt itself had no effect.
	Events      []watch.Event `json:"events,omitempty"`
	DeadAfterUs int64         `json:"dead_after_us,omitempty"`

	WallMs int64  `json:"wall_ms"`
	Usage  Usage  `json:"usage"`
	Run    string `json:"run"` // run id
	Driver string `json:"driver,omitempty"`
	Image  string `json:"image,omitempty"` // digest
}

// Channel is what was kept of stdout or stderr.
type Channel struct {
	Bytes     int64   `json:"bytes"` // everything that the program wrote
	Truncated bool    `json:"truncated"`
	Text      *string `json:"text,omitempty"` // the first Limits.OutputBytes, if they are valid UTF-8 and not long and full of control characters
	B64       *string `json:"b64,omitempty"`  // otherwise
	TailB64   string  `json:"tail_b64,omitempty"`
	SHA256    string  `json:"sha256"` // of everything that was written
}

// Artifact is one file that the run made or changed under /workspace.
type Artifact struct {
	Path    string `json:"path"`
	PathB64 string `json:"path_b64,omitempty"` // when the name is not UTF-8; Path then has U+FFFD in it
	Type    string `json:"type"`               // file, link, fifo, socket, device
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256,omitempty"`
	MIME    string `json:"mime,omitempty"`
	Display string `json:"display,omitempty"` // type of the result that the program shows by it: package display
	Omitted string `json:"omitted,omitempty"` // why the content was not kept
}

// Usage is what the run used.
type Usage struct {
	CPUMs           int64 `json:"cpu_ms"`
	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
	Processes       int64 `json:"processes"`
}

// ExitStatus is the status with which `silk run` itself exits for o.
func (o Outcome) ExitStatus() int {
	switch o.Kind {
	case OK:
		return 0
	case Failed:
		if o.Signal != 0 {
			return 128 + o.Signal
		}
		if o.ExitCode != nil && *o.ExitCode != 0 {
			return *o.ExitCode
		}
		return 125 // a failure without a status is our own fault
	case Timeout:
		return 124
	case OOM:
		return 137
	case Violated:
		return 159
	case Denied:
		return 126
	case Canceled:
		return 130
	}
	return 125
}

// Alert is what is raised for an outcome that is [Violated].
func (o Outcome) Alert(profile string) alert.Alert {
	a := alert.Alert{
		Run: o.Run, At: time.Now(), Rule: o.Rule, Syscall: o.Syscall, Argument: o.Argument, Profile: profile, Outcome: string(o.Kind),
		DeadAfter: time.Duration(o.DeadAfterUs) * time.Microsecond,
	}
	if n := len(o.Events); n > 0 {
		a.At = o.Events[n-1].At
	}
	return a
}

// Started is what is about to run.
type Started struct {
	Run     string         `json:"run"` // run id
	Profile string         `json:"profile"`
	Driver  string         `json:"driver"`
	Image   string         `json:"image"` // digest
	Limits  profile.Limits `json:"limits"`
}

// Frame is one piece of output as it arrives.
type Frame struct {
	Seq     uint64        // common to both channels, from 1
	At      time.Duration // since the sandbox started
	Channel string        // "stdout" or "stderr"; a terminal has only stdout
	Offset  int64         // of Data in the channel
	Data    []byte        // valid during the call only
}
