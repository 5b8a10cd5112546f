package stage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stageTimeout bounds the life of the stage's first process, which makes two system calls.
const stageTimeout = 10 * time.Second

// Start starts the stage that is attr.Files[SelfFD], with args and attr, and returns the process that it makes, a child of this
// one, which outside of its user namespace is uid and gid. attr.Files has room for every descriptor that a stage knows. The process
// is killed when the calling thread ends, so the caller locks it. After an error with a process, that one gets no further, and the caller
// waits for its end as for any other's; after one without, nothing is left.
func Start(args []string, attr *os.ProcAttr, uid, gid int) (_ *os.Process, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := pair[0], os.NewFile(uintptr(pair[1]), "birth")
	defer unix.Close(ours)
	attr.Files[BirthFD] = theirs
	before := children()
	first, err := os.StartProcess("/proc/self/fd/"+strconv.Itoa(SelfFD), args, attr)
	if err = errors.Join(err, theirs.Close()); err != nil {
		return nil, err
	}
	bound := time.AfterFunc(stageTimeout, func() { _ = first.Kill() })
	state, err := first.Wait()
	bound.Stop()
	// What it had to say it has said by now. There is no end of the socket to wait for: the process that it made has it, too.
	var said [4]byte
	n, _, recvErr := unix.Recvfrom(ours, said[:], unix.MSG_DONTWAIT)
	if recvErr == nil && n != len(said) {
		recvErr = io.ErrUnexpectedEOF
	}
	if err != nil || recvErr != nil {
		return nil, fmt.Errorf("the stage ended with %v before it said what it had made: %w", state, errors.Join(err, recvErr, reap(before)))
	}
	pid := int(int32(binary.NativeEndian.Uint32(said[:])))
	if pid < 0 {
		return nil, os.NewSyscallError("clone", syscall.Errno(-pid))
	}
	p, err := os.FindProcess(pid) // it is the right one, since nobody but us can reap it
	if err != nil {
		return nil, errors.Join(err, reap(before))
	}
	if err := mapIDs(pid, uid, gid); err != nil {
		return p, err
	}
	return p, os.NewSyscallError("write", unix.Sendto(ours, []byte{0}, unix.MSG_NOSIGNAL, nil))
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
		_, err := unix.Wait4(pid, nil, 0, nil)
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
