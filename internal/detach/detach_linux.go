package detach

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Network gives the calling thread a network namespace of its own, with nothing in it. Called on the first thread of the
// process, locked to its goroutine, it is what others see as that of the process (/proc/PID/ns/net), while all other threads and what
// they start stay in the host's. Container engines put interfaces, addresses and routes into that namespace, wherever it is.
func Network() error {
	if unix.Gettid() != os.Getpid() {
		return errors.New("make network namespace: this is not the first thread of the process")
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	return nil
}

// Gone waits until process pid has ended, or ctx has: the error is then that of ctx. A process that is not there has ended.
func Gone(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	process := os.NewFile(uintptr(fd), "pidfd")
	defer process.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { w.Close() })
	defer func() {
		if stop() {
			w.Close()
		}
	}()
	wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(r.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(wait, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("watch process %d: %w", pid, err)
		case wait[0].Revents != 0:
			return nil
		}
		return context.Cause(ctx)
	}
}

// Kill sends SIGKILL to process pid if certain says, when nobody else can have been given the number, that it is the right one.
func Kill(pid int, certain func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if !certain() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}
