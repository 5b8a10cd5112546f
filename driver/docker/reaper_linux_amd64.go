package docker

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver/docker/launch"
)

// reaper is a process of a run's own that outlives silk: if silk dies, it ends process 1 of the container, with which the kernel ends
// all others of its PID namespace, tells the engine to remove the container, and ends. It takes 100 KiB.
type reaper struct {
	sock *os.File
	proc *os.Process
}

func startReaper(program *os.File, socket, container string) (*reaper, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start reaper: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "reaper"), os.NewFile(uintptr(pair[1]), "silk")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start reaper: %w", err), ours.Close(), theirs.Close())
	}
	proc, err := os.StartProcess("/proc/self/fd/3", []string{launch.Reap, socket, removal(container)}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{theirs, null, null, program}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	err = errors.Join(err, theirs.Close(), null.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start reaper: %w", err), ours.Close())
	}
	return &reaper{ours, proc}, nil
}

// watch tells it which process is the container's first.
func (r *reaper) watch(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("hand the container to its reaper: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendmsg(int(r.sock.Fd()), launch.Watch, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("hand the container to its reaper: %w", err)
	}
	return nil
}

// dismiss ends it when nothing of the run is left.
func (r *reaper) dismiss() error {
	err := unix.Sendto(int(r.sock.Fd()), launch.Well, unix.MSG_NOSIGNAL, nil)
	if errors.Is(err, unix.EPIPE) { // it was killed
		err = nil
	}
	closeErr := r.sock.Close()
	_, waitErr := r.proc.Wait()
	return errors.Join(err, closeErr, waitErr)
}
