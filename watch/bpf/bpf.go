// Package bpf watches processes from the host's kernel, with eBPF programs that [Open] loads: no module, no daemon, nothing
// pinned. Whatever ends the process that opened a [Watcher] also takes its programs away.
//
// It watches; it prevents nothing but INET sockets in a control group that belongs to one sandbox. A call is seen at its
// entry, so an alarm is raised, and with Config.Kill the process ended, while the call may already have its effect. What
// must not happen is prevented elsewhere: by the sandbox's own kernel, seccomp, namespaces.
//
// There are two uses. [Watcher.Watch] is the alarm around a sandbox with a kernel of its own, whose host process has no
// business with sockets, programs or mounts once it has started: after [Scope.Arm] any such call means that somebody has
// broken out of that kernel. [Watcher.Guest] is for sandboxes that share the host's kernel: every call of the guest that
// package watch has a kind for becomes an event.
//
// A [Scope] is a process and all that come from it. Every task in it carries a tag that its children inherit before they
// run, so that neither a new session nor a new namespace nor another control group leads out of it. A control group is a
// second way into a scope, for what is started there by others.
//
// It takes root, Linux 5.15 with BTF, and the host's PID namespace; [Probe] says what is missing.
package bpf

import (
	"errors"
	"log/slog"
	"syscall"
)

//go:generate go run ./generate

// ErrUnavailable is returned by [Open] where this host does not let us watch; the text says why.
var ErrUnavailable = errors.New("this host cannot be watched with eBPF")

// Forbidden is an errno that no kernel knows, 4090 of the 4095 that seccomp can let a system call fail with. A filter
// gives it for a call that a guest must not even try; see Config.Guarded.
const Forbidden = syscall.Errno(4090)

// ErrFull is returned when a watcher has as many scopes as Config.Scopes allows.
var ErrFull = errors.New("too many sandboxes are watched at once")

// ErrClosed is returned by what needs a watcher or a scope that has been closed, or has stopped for another reason.
var ErrClosed = errors.New("the watcher has stopped")

// Config is what a watcher needs to know. Its zero value works.
type Config struct {
	Logger *slog.Logger // nil: silent

	// Scopes is how many sandboxes can be watched at once; 0 is 256. Each takes about 600 bytes and 16 for each
	// processor.
	Scopes int

	// Kill ends the process that raises an alarm at once, from the program that saw it. The rest of the sandbox is the
	// caller's to end.
	Kill bool

	// Guarded makes [Forbidden] the end of a guest: of the process that gets it from a call at once, of the others of its scope at the end
	// of their next call, all from the program that sees it, whether or not anybody reads the events. The first one is
	// what [Scope.Alarms] returns. Of a guest that is guarded, what the kernel says it does not have (ENOSYS, EAFNOSUPPORT) or has no room
	// for (ENOSPC) is a refusal as well.
	Guarded bool

	// GuestBytes is the size of the ring of one [Watcher.Guest]: a power of two, at least the size of a page; 0 is 1 MiB.
	// An event takes 328 bytes, one with a path of 256 bytes and more 4,496. What finds no room is counted as lost.
	GuestBytes int
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Scopes == 0 {
		c.Scopes = 256
	}
	if c.GuestBytes == 0 {
		c.GuestBytes = 1 << 20
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Scopes < 0 || c.Scopes > 1<<16 {
		errs = append(errs, errors.New("bpf.Config: Scopes is not between 1 and 65536"))
	}
	if n := c.GuestBytes; n < 4096 || n > 1<<30 || n&(n-1) != 0 {
		errs = append(errs, errors.New("bpf.Config: GuestBytes is not a power of two between 4096 and 1 GiB"))
	}
	return errors.Join(errs...)
}

// Counts are numbers of events of a scope.
type Counts struct {
	Delivered uint64 // handed to the kernel's ring
	Lost      uint64 // found no room in the ring, or in the channel of a reader that was too slow: exact
}

// Answer is what a probe found.
type Answer string

// Answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown" // the probe itself went wrong: Reason says how
)

// Check is one thing that was probed.
type Check struct {
	Name     string `json:"name"` // "bpf", "btf", "tracepoints", "task_storage", "processes", "pid_namespace" or "cgroup2"
	Answer   Answer `json:"answer"`
	Reason   string `json:"reason,omitempty"`   // one sentence; for Yes, what was found
	Optional bool   `json:"optional,omitempty"` // a watcher does without it
}

// Report is what [Probe] found, in a fixed order.
type Report []Check

// Usable is the answer for all that a watcher cannot do without, and the reason if it is not [Yes].
func (r Report) Usable() (Answer, string) {
	answer, reason := Yes, ""
	for _, c := range r {
		if c.Optional || c.Answer == Yes {
			continue
		}
		if answer == Yes || answer == Unknown && c.Answer == No {
			answer, reason = c.Answer, c.Reason
		}
	}
	if len(r) == 0 {
		return Unknown, "nothing was probed"
	}
	return answer, reason
}
