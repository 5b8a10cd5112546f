package wire

import (
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/watch"
)

// EventKind is a [watch.Kind] as a record has it: its place in the list of kinds that a sandbox kernel reports.
type EventKind uint8

// Call is the name of a system call as a record has it: its place in a list.
type Call uint8

// eventKinds are the kinds that a sandbox kernel reports, its event points. Records have their places in this list.
var eventKinds = []watch.Kind{watch.Socket, watch.Connect, watch.OpenAt, watch.Execve, watch.SetUID, watch.CapSet, watch.Mount, watch.Clone, watch.Exit, watch.Denied}

// eventCalls are the calls that have an event, and those that a rule may refuse. Records have their places in this list.
var eventCalls = func() []string {
	calls := eventful
	for _, r := range rules.All() {
		for _, name := range r.Calls {
			if !slices.Contains(calls, name) {
				calls = append(calls, name)
			}
		}
	}
	return calls
}()

// eventful begins with what is no call.
var eventful = []string{
	"", "socket", "connect", "sendto", "sendmsg", "sendmmsg", "open", "openat", "creat", "execve", "execveat", "setuid", "setgid", "setfsuid", "setfsgid",
	"setreuid", "setregid", "setresuid", "setresgid", "setgroups", "capset", "mount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount",
	"fspick", "open_tree", "move_mount", "mount_setattr", "clone", "fork", "vfork",
}

// Killed is the Errno of a call that ended the sandbox.
const Killed = 0xffff

// Points are the event points that a sandbox kernel must confirm.
func Points() []string {
	points := make([]string, len(eventKinds))
	for i, k := range eventKinds {
		points[i] = string(k)
	}
	return points
}

// KindOf is the place of a kind. It panics if there is none: a mistake in a constant.
func KindOf(kind watch.Kind) EventKind {
	i := slices.Index(eventKinds, kind)
	if i < 0 {
		panic("wire: event kind " + string(kind) + " is not in the list")
	}
	return EventKind(i)
}

// CallOf is the place of a call, 0 if it has none.
func CallOf(name string) Call {
	return Call(max(0, slices.Index(eventCalls, name)))
}

// Name is the kind, or false if there is none at this place.
func (k EventKind) Name() (watch.Kind, bool) {
	if int(k) >= len(eventKinds) {
		return "", false
	}
	return eventKinds[k], true
}

// Watched is e as others read it, or false if it is no event that this package knows.
func (e Event) Watched() (watch.Event, bool) {
	kind, ok := e.Kind.Name()
	if !ok || int(e.Call) >= len(eventCalls) {
		return watch.Event{}, false
	}
	w := watch.Event{
		At: time.Unix(0, e.At), Origin: watch.Sentry, Kind: kind, Process: int(e.Process), Thread: int(e.Thread), Argument: watch.Printable(string(e.Argument)),
	}
	if name := eventCalls[e.Call]; name != string(kind) {
		w.Syscall = name
	}
	switch e.Errno {
	case 0:
	case Killed:
		w.Result = "killed"
	default:
		w.Result = errnoName(syscall.Errno(e.Errno))
	}
	return w, true
}

// errnoName is the name of the errors that policy and kernel answer with most, else the number.
func errnoName(e syscall.Errno) string {
	names := map[syscall.Errno]string{
		1: "EPERM", 2: "ENOENT", 4: "EINTR", 9: "EBADF", 11: "EAGAIN", 12: "ENOMEM", 13: "EACCES", 14: "EFAULT", 17: "EEXIST", 20: "ENOTDIR",
		21: "EISDIR", 22: "EINVAL", 24: "EMFILE", 28: "ENOSPC", 30: "EROFS", 36: "ENAMETOOLONG", 38: "ENOSYS", 40: "ELOOP", 97: "EAFNOSUPPORT",
		101: "ENETUNREACH", 111: "ECONNREFUSED", 115: "EINPROGRESS",
	}
	if name, ok := names[e]; ok {
		return name
	}
	return "errno " + strconv.Itoa(int(e))
}
