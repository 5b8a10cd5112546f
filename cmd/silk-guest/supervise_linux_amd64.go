package main

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/watch"
)

// seen makes an event of a call that the filter has asked about.
func (e *events) seen(s confine.Seen) {
	v := watch.Event{At: time.Now(), Origin: watch.Guest, Kind: kindOf(s.Call), Process: s.Caller.Self, Thread: s.Caller.Number, Argument: s.Argument}
	if string(v.Kind) != s.Call {
		v.Syscall = s.Call
	}
	switch {
	case s.Rule.Action == rules.Kill:
		v.Result = "killed"
	case s.Rule.Name != "":
		v.Result = unix.ErrnoName(confine.Errno(s.Rule))
	case v.Kind == watch.Denied, v.Kind == watch.Connect && s.Argument == "": // it is nothing that one would want to know
		return
	}
	e.add(v)
}

// kindOf is the kind of event that a call is.
func kindOf(name string) watch.Kind {
	switch name {
	case "open", "openat", "creat":
		return watch.OpenAt
	case "execve", "execveat":
		return watch.Execve
	case "socket":
		return watch.Socket
	case "connect", "sendto", "sendmsg", "sendmmsg":
		return watch.Connect
	case "clone", "fork", "vfork":
		return watch.Clone
	case "setuid", "setgid", "setfsuid", "setfsgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups":
		return watch.SetUID
	case "capset":
		return watch.CapSet
	case "mount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree", "move_mount", "mount_setattr":
		return watch.Mount
	}
	return watch.Denied
}
