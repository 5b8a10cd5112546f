package confine

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/internal/calltable"
)

// Answers of a filter, besides the errnos.
const (
	ask       = uint32(unix.SECCOMP_RET_USER_NOTIF)
	permitted = uint32(unix.SECCOMP_RET_ALLOW)
)

func answer(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

var (
	opening   = []string{"open", "openat", "creat"}
	executing = []string{"execve", "execveat"}
)

// Asking is a filter that decides nothing that a rule is about: it asks a [Supervisor]. [Listen] sets it.
func (p Policy) Asking() ([]unix.SockFilter, error) {
	t := newTable()
	for _, name := range slices.Concat(opening, executing) {
		if err := t.add(name, clause{answer: ask}); err != nil {
			return nil, err
		}
	}
	for _, r := range rules.All() {
		for _, name := range r.Calls {
			if t.has(name) || p.never(name) {
				continue
			}
			if err := t.add(name, clause{answer: ask}); err != nil {
				return nil, err
			}
		}
	}
	return t.program()
}

// never says whether a call breaks no rule whatever its arguments are.
func (p Policy) never(name string) bool {
	switch name {
	case "connect", "sendto", "sendmsg", "sendmmsg": // where the network is denied there are no sockets but of AF_UNIX; and whoever has a link's other end decides
		return p.Network != driver.NetworkLoopback
	case "fallocate", "mincore": // rules about a kernel in user space; this one has its own limits
		return true
	}
	return false
}

// table is what a filter says about each call.
type table struct {
	calls []call
	at    map[string]int // in calls, by name
}

func newTable() *table { return &table{at: map[string]int{}} }

func (t *table) has(name string) bool { _, ok := t.at[name]; return ok }

// add says more about a call: the first clause that has an answer counts.
func (t *table) add(name string, clauses ...clause) error {
	if at, ok := t.at[name]; ok {
		t.calls[at].clauses = append(t.calls[at].clauses, clauses...)
		return nil
	}
	number, ok := calltable.Number(name)
	if !ok {
		return fmt.Errorf("filter: there is no system call %q", name)
	}
	t.at[name] = len(t.calls)
	t.calls = append(t.calls, call{number, clauses})
	return nil
}

// callNumbers is above every system call that there is: what has a higher number, or another convention, is not there.
const callNumbers = 512

// program is the filter, with what holds for every program: calls that nobody has named are not there, nobody touches process 1, and nobody types
// into a terminal that somebody else reads.
func (t *table) program() ([]unix.SockFilter, error) {
	for _, name := range []string{"prlimit64", "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open"} {
		if err := t.add(name, clause{[]cond{{arg: 0, op: is32, value: 1}}, answer(unix.EPERM)}); err != nil {
			return nil, err
		}
	}
	for _, request := range []uint64{unix.TIOCSTI, unix.TIOCLINUX} {
		if err := t.add("ioctl", clause{[]cond{{arg: 1, op: is32, value: request}}, answer(unix.EPERM)}); err != nil {
			return nil, err
		}
	}
	known := map[string]bool{}
	for name := range Ordinary() {
		known[name] = true
	}
	for number := range callNumbers {
		if name := calltable.Name(number); name == "" || !known[name] && !t.has(name) {
			t.calls = append(t.calls, call{number, []clause{{answer: answer(unix.ENOSYS)}}})
		}
	}
	return assemble(t.calls, answer(unix.ENOSYS))
}
