package stage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// birthTimeout bounds the wait for the stage's first process, which makes two system calls.
var birthTimeout = unix.Timeval{Sec: 10}

// Start starts the stage that is attr.Files[SelfFD], with args and attr, and returns the process that it makes, a child of this
// one, which outside of its user namespace is uid and gid. attr.Files has room for every descriptor that a stage knows. The process
// is killed when the calling thread ends, so the caller locks it. After an error with a process, that one gets no further, and the caller
// waits for its end as for any other's; after one without, nothing is left.
//
// Package os is not used before the process runs: it makes another process first, to see whether it can (os.checkPidfd),
// and beside work of this one on another processor that can wait 3 ms for its turn.
func Start(args []string, attr *os.ProcAttr, uid, gid int) (_ *os.Process, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := pair[0], os.NewFile(uintptr(pair[1]), "birth")
	defer unix.Close(ours)
	attr.Files[BirthFD] = theirs
	before := children()
	first, err := fork("/proc/self/fd/"+strconv.Itoa(SelfFD), args, attr)
	if err = errors.Join(err, theirs.Close()); err != nil {
		return nil, err
	}
	pid, err := hear(ours)
	if err != nil {
		_ = unix.Kill(first, unix.SIGKILL) // still ours: nobody has waited for it
		status, waitErr := wait(first)
		return nil, fmt.Errorf("the stage ended with status %#x before it said what it had made: %w", status, errors.Join(err, waitErr, reap(before)))
	}
	if pid < 0 {
		_, err := wait(first)
		return nil, errors.Join(os.NewSyscallError("clone", syscall.Errno(-pid)), err)
	}
	if err = mapIDs(pid, uid, gid); err == nil {
		err = os.NewSyscallError("write", unix.Sendto(ours, []byte{0}, unix.MSG_NOSIGNAL, nil))
	}
	_, waitErr := wait(first)
	p, findErr := os.FindProcess(pid) // it is the right one, since nobody but us can reap it
	if findErr != nil {
		return nil, errors.Join(err, waitErr, findErr, reap(before))
	}
	return p, errors.Join(err, waitErr)
}

// fork is os.StartProcess for what a stage needs.
func fork(path string, args []string, attr *os.ProcAttr) (pid int, err error) {
	files := make([]uintptr, len(attr.Files))
	for i, f := range attr.Files {
		files[i] = ^uintptr(0) // closed
		if f != nil {
			files[i] = f.Fd()
		}
	}
	pid, err = syscall.ForkExec(path, args, &syscall.ProcAttr{Dir: attr.Dir, Env: attr.Env, Files: files, Sys: attr.Sys})
	runtime.KeepAlive(attr)
	if err != nil {
		return 0, &os.PathError{Op: "fork/exec", Path: path, Err: err}
	}
	return pid, nil
}

// hear reads from its socket which process a stage has made, or a negative errno. A stage that has ended without having made
// one is io.ErrUnexpectedEOF; one that says nothing is waited for, but not for ever.
func hear(sock int) (pid int, err error) {
	if err := unix.SetsockoptTimeval(sock, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &birthTimeout); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	var said [4]byte
	for {
		n, err := unix.Read(sock, said[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n != len(said):
			return 0, io.ErrUnexpectedEOF
		}
		return int(int32(binary.NativeEndian.Uint32(said[:]))), nil
	}
}

// wait reaps a child of ours.
func wait(pid int) (status unix.WaitStatus, err error) {
	for {
		if _, err = unix.Wait4(pid, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			return status, os.NewSyscallError("wait4", err)
		}
	}
}

// children are the child processes of the calling thread, which is locked; nil where the kernel does not list them (proc_pid_children(5)).
func children() []int {
	text, err := os.ReadFile("/proc/thread-self/children")
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// reap ends the child of this thread that nobody has told of: what was not there before.
func reap(before []int) error {
	var faults []error
	for _, pid := range children() {
		if slices.Contains(before, pid) {
			continue
		}
		faults = append(faults, unix.Kill(pid, unix.SIGKILL))
		_, err := wait(pid)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// mapIDs makes Nobody in the user namespace of process pid, a child of ours, uid and gid outside.
func mapIDs(pid, uid, gid int) error {
	groups := "allow"
	if os.Getuid() != 0 {
		groups = "deny" // an ordinary user may map no group else, user_namespaces(7)
	}
	for _, f := range []struct{ name, text string }{
		{"uid_map", fmt.Sprintf("%d %d 1\n", Nobody, uid)}, {"setgroups", groups}, {"gid_map", fmt.Sprintf("%d %d 1\n", Nobody, gid)},
	} {
		if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/"+f.name, []byte(f.text), 0); err != nil { //nolint:forbidigo // the kernel's file
			return err
		}
	}
	return nil
}
