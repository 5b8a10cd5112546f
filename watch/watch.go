// Package watch is the one vocabulary for what was seen to happen in a sandbox, whoever saw it: the sandbox's own kernel
// (a record of its ring), or the host's (package watch/bpf).
//
// An [Event] is a plain value. It says what was asked for, and how it ended if that is known; it decides nothing. Text in
// it came from the program that is watched and is hostile: sources make it printable with [Printable] before it leaves
// them. The package does no I/O.
package watch

import (
	"time"
	"unicode"
	"unicode/utf8"
)

// Kind is what happened. Calls that do the same thing share a kind: execve covers execveat.
type Kind string

// Kinds. The comment says what Event.Argument holds.
const (
	Socket  Kind = "socket"  // family, type and protocol: "AF_INET SOCK_STREAM 6"
	Connect Kind = "connect" // "192.0.2.1:443", "[2001:db8::1]:443", "unix:/path", "unix:@name" or the family
	OpenAt  Kind = "openat"  // path
	Execve  Kind = "execve"  // path
	SetUID  Kind = "setuid"  // the new ids in the call's order; -1 stays
	CapSet  Kind = "capset"  // nothing
	Mount   Kind = "mount"   // target, or what the call has instead
	Clone   Kind = "clone"   // "thread" or "process", and the number of the new one
	Exit    Kind = "exit"    // exit status, or the signal that ended it: "0", "SIGKILL"
	SigSys  Kind = "sigsys"  // a seccomp filter ended the thread or process; Syscall is what was tried
	Denied  Kind = "denied"  // another call that was refused; Syscall names it
	Blind   Kind = "blind"   // a call after which the observer no longer sees everything; Syscall names it
)

// Origin is who saw an event.
type Origin string

// Origins.
const (
	Sentry Origin = "sentry" // the sandbox's own kernel: paths are resolved, numbers are the sandbox's
	Host   Origin = "host"   // the host's kernel: paths are as the call spelled them, numbers are the host's
	Guest  Origin = "guest"  // the agent in a virtual machine: paths are resolved, numbers are the machine's
)

// Event is one thing that was seen.
type Event struct {
	At     time.Time `json:"at"`
	Origin Origin    `json:"origin"`
	Kind   Kind      `json:"kind"`

	// Syscall is the name of the call as in syscalls(2), where it is not that of Kind.
	Syscall string `json:"syscall,omitempty"`

	Process int `json:"pid"` // as Origin numbers processes
	Thread  int `json:"tid"` // the same as Process for its first thread

	// Argument is printable and at most MaxArgument bytes long; see the kinds. Empty if it could not be read.
	Argument string `json:"argument,omitempty"`

	// Result is the errno's name if the call was refused, such as "EACCES"; "killed" if the observer ended the process
	// for it. Empty means that the call was seen at its entry and went on: how it ended is not in this event.
	Result string `json:"result,omitempty"`
}

// MaxArgument is the length of Event.Argument in bytes at most: PATH_MAX (limits.h).
const MaxArgument = 4096

// Printable makes text from a sandbox fit for a record or a terminal: what is not printable, or not UTF-8, becomes
// U+FFFD, and what is beyond MaxArgument bytes is cut off between characters.
func Printable(s string) string {
	out := make([]byte, 0, min(len(s), MaxArgument))
	for _, r := range s {
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		if len(out)+utf8.RuneLen(r) > MaxArgument {
			break
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}
