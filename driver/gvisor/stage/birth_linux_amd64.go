package stage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start starts the stage that is attr.Files[SelfFD], with args and attr, and returns the process that it makes, a child of this
// one, which outside of its user namespace is uid and gid. attr.Files has room for every descriptor that a stage knows. The process
// is killed when the calling thread ends, so the caller locks it. After an error with a process, that one gets no further, and the caller
// waits for its end as for any other's.
func Start(args []string, attr *os.ProcAttr, uid, gid int) (_ *os.Process, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "birth"), os.NewFile(uintptr(pair[1]), "birth")
	defer ours.Close()
	attr.Files[BirthFD] = theirs
	first, err := os.StartProcess("/proc/self/fd/"+strconv.Itoa(SelfFD), args, attr)
	if err = errors.Join(err, theirs.Close()); err != nil {
		return nil, err
	}
	var said [4]byte
	n, err := ours.Read(said[:])
	if _, waitErr := first.Wait(); err != nil || n != len(said) || waitErr != nil {
		return nil, fmt.Errorf("the stage has not begun: %w", errors.Join(err, waitErr))
	}
	pid := int(int32(binary.NativeEndian.Uint32(said[:])))
	if pid < 0 {
		return nil, os.NewSyscallError("clone", syscall.Errno(-pid))
	}
	p, err := os.FindProcess(pid) // it is the right one, since nobody but us can reap it
	if err != nil {
		return nil, err
	}
	if err := mapIDs(pid, uid, gid); err != nil {
		return p, err
	}
	_, err = ours.Write([]byte{0})
	return p, err
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
