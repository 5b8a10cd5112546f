package pipe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// grow sets the capacity of a pipe. It may be refused: an ordinary user has fs.pipe-max-size for each pipe and
// fs.pipe-user-pages-soft for all (pipe(7)); a smaller pipe only costs more wake-ups.
func grow(w *os.File, size int) {
	conn, err := w.SyscallConn()
	if err != nil {
		return
	}
	conn.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) })
}

// Interruptible returns a reader of f whose Read returns [os.ErrClosed] once stop was called, also one that waits. f may
// be of any kind and in any mode; it is neither closed nor changed. stop must be called, once or more often.
func Interruptible(f *os.File) (r io.Reader, stop func(), err error) {
	wakeR, wakeW, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	i := &interruptible{f: f, wake: wakeR}
	var once sync.Once
	return i, func() {
		once.Do(func() {
			wakeW.Close() // seen by poll(2) as POLLHUP on the other end
			i.mu.Lock()   // no Read is using wakeR any more
			defer i.mu.Unlock()
			i.stopped = true
			wakeR.Close()
		})
	}, nil
}

type interruptible struct {
	f       *os.File
	wake    *os.File
	mu      sync.Mutex
	stopped bool
}

func (i *interruptible) Read(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return 0, os.ErrClosed
	}
	source, err := i.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	wake, err := i.wake.SyscallConn()
	if err != nil {
		return 0, err
	}
	var fds [2]unix.PollFd
	var polled error
	err = source.Control(func(sourceFD uintptr) {
		err := wake.Control(func(wakeFD uintptr) {
			fds = [2]unix.PollFd{{Fd: int32(sourceFD), Events: unix.POLLIN}, {Fd: int32(wakeFD), Events: unix.POLLIN}}
			for {
				_, polled = unix.Poll(fds[:], -1)
				if !errors.Is(polled, unix.EINTR) {
					return
				}
			}
		})
		if err != nil {
			polled = err
		}
	})
	if err := errors.Join(err, polled); err != nil {
		return 0, fmt.Errorf("wait for input: %w", err)
	}
	if fds[1].Revents != 0 {
		return 0, os.ErrClosed
	}
	return i.f.Read(p)
}
