package pty

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Open makes a pseudo-terminal and returns its two sides, both closed by the caller. Reads of the main side can be
// interrupted by closing it; after the last copy of the replica is closed they return EIO. See pts(4).
func Open() (main, replica *os.File, err error) {
	// O_NONBLOCK puts the main side under Go's poller, so that Close ends a Read.
	main, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open pseudo-terminal: %w", err)
	}
	var fd uintptr
	err = control(main, func(ptm uintptr) error {
		if err := unix.IoctlSetPointerInt(int(ptm), unix.TIOCSPTLCK, 0); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		// TIOCGPTPEER needs no /dev/pts in our mount namespace and cannot be raced: ioctl_tty(2).
		var errno unix.Errno
		fd, _, errno = unix.Syscall(unix.SYS_IOCTL, ptm, unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			return fmt.Errorf("open replica: %w", errno)
		}
		return nil
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open pseudo-terminal: %w", err), main.Close())
	}
	return main, os.NewFile(fd, "pty replica"), nil
}

// Resize sets the size of the terminal in character cells; side may be either one. It signals only processes that have
// the terminal as a controlling terminal of this kernel.
func Resize(side *os.File, columns, rows uint16) error {
	return control(side, func(fd uintptr) error {
		if err := unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
			return fmt.Errorf("set terminal size: %w", err)
		}
		return nil
	})
}

// Own makes the terminal the calling process's controlling terminal, which it leads a session without one for: from then on it hears of
// changes of the size (SIGWINCH) and of the end of the main side (SIGHUP). See ioctl_tty(2).
func Own(replica *os.File) error {
	return control(replica, func(fd uintptr) error {
		if err := unix.IoctlSetInt(int(fd), unix.TIOCSCTTY, 0); err != nil {
			return fmt.Errorf("take terminal: %w", err)
		}
		return nil
	})
}

// Hand passes one side to whoever listens on a unix socket, with its name beside it, as container engines want it. The caller still
// closes its own.
func Hand(socket string, side *os.File) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return fmt.Errorf("hand terminal over: %w", err)
	}
	err = control(side, func(fd uintptr) error {
		_, _, err := conn.WriteMsgUnix([]byte(side.Name()), unix.UnixRights(int(fd)), nil)
		return err
	})
	if err = errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("hand terminal over: %w", err)
	}
	return nil
}

// control calls f with the descriptor of file without taking it out of the poller, as file.Fd would.
func control(file *os.File, f func(fd uintptr) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = f(fd) }); err != nil {
		return err
	}
	return inner
}
