package confine

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
)

// Every call that a rule is about is asked about.
func TestAsked(t *testing.T) {
	program, err := Policy{Network: driver.NetworkLoopback}.Asking()
	if err != nil {
		t.Fatal(err)
	}
	run := answers(t, program)
	for _, r := range rules.All() {
		for _, name := range r.Calls {
			kept := r.Name != rules.ResourceFallocate && r.Name != rules.ResourceMincore
			if asked := run(name) == ask; asked != kept {
				t.Errorf("rule %s: call %s is asked about: %t", r.Name, name, asked)
			}
		}
	}
}

// TestAsking: the filter, as the kernel would run it.
func TestAsking(t *testing.T) {
	program, err := Policy{Network: driver.NetworkDeny}.Asking()
	if err != nil {
		t.Fatal(err)
	}
	run := execute(t, program)
	absent := answer(unix.ENOSYS)
	for _, test := range []struct {
		name         string
		arch, number uint32
		want         uint32
	}{
		{"an ordinary call", auditX8664, unix.SYS_READ, permitted},
		{"opening", auditX8664, unix.SYS_OPENAT, ask},
		{"executing", auditX8664, unix.SYS_EXECVE, ask},
		{"a socket", auditX8664, unix.SYS_SOCKET, ask},
		{"a connection, where there are no sockets", auditX8664, unix.SYS_CONNECT, permitted},
		{"a file without a name", auditX8664, unix.SYS_MEMFD_CREATE, absent},
		{"a call that nobody names", auditX8664, unix.SYS_USELIB, absent},
		{"a call by way of a descriptor that nobody names", auditX8664, unix.SYS_QUOTACTL_FD, absent},
		{"a call that is younger than this", auditX8664, callNumbers - 1, absent},
		{"a call beyond all", auditX8664, callNumbers, absent},
		{"another convention", 0x40000003, unix.SYS_READ, absent},
		{"another convention, by a bit", auditX8664, 0x40000000 | unix.SYS_READ, absent}, // __X32_SYSCALL_BIT
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := run(test.arch, test.number); got != test.want {
				t.Errorf("answer %#x, want %#x", got, test.want)
			}
		})
	}
	if got := run(auditX8664, unix.SYS_KILL, 1, 9); got != answer(unix.EPERM) {
		t.Errorf("ending process 1: answer %#x", got)
	}
}
