package launch

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reaper is a process of a run's own that outlives silk: if silk dies, it ends the process that it was told to watch, asks an engine for
// something if there is one, and ends. It takes 100 KiB.
type Reaper struct {
	sock *os.File
	proc *os.Process
}

// File is [Program] as a file to execute, which has no name. The caller closes it.
func File() (*os.File, error) {
	fd, err := unix.MemfdCreate("silk-reaper", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file of the launcher: %w", err)
	}
	f := os.NewFile(uintptr(fd), "silk-reaper")
	if _, err := f.Write(Program); err != nil {
		return nil, errors.Join(fmt.Errorf("make a file of the launcher: %w", err), f.Close())
	}
	return f, nil
}

// StartReaper starts one. program is a [File], which stays the caller's. If silk dies, request is sent to the
// Unix socket of that path; both may be empty. The caller dismisses it.
func StartReaper(program *os.File, socket, request string) (*Reaper, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start reaper: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "reaper"), os.NewFile(uintptr(pair[1]), "silk")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start reaper: %w", err), ours.Close(), theirs.Close())
	}
	proc, err := os.StartProcess("/proc/self/fd/3", []string{Reap, socket, request}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{theirs, null, null, program}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	err = errors.Join(err, theirs.Close(), null.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start reaper: %w", err), ours.Close())
	}
	return &Reaper{ours, proc}, nil
}

// Watch tells it which process it is about. The number is that of a process that was not waited for.
func (r *Reaper) Watch(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("hand process to its reaper: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendmsg(int(r.sock.Fd()), Watch, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("hand process to its reaper: %w", err)
	}
	return nil
}

// Dismiss ends it when nothing of the run is left.
func (r *Reaper) Dismiss() error {
	err := unix.Sendto(int(r.sock.Fd()), Well, unix.MSG_NOSIGNAL, nil)
	if errors.Is(err, unix.EPIPE) { // it was killed
		err = nil
	}
	closeErr := r.sock.Close()
	_, waitErr := r.proc.Wait()
	return errors.Join(err, closeErr, waitErr)
}
