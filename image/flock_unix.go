//go:build linux || darwin

package image

import (
	"errors"
	"os"
	"syscall"
)

// errBusy says that somebody else holds a lock.
var errBusy = errors.New("locked by another process")

// flock locks an open file until it is closed, flock(2). Two descriptors of one process count as two holders.
func flock(file *os.File, mode lockMode) error {
	how := map[lockMode]int{shared: syscall.LOCK_SH, exclusive: syscall.LOCK_EX, try: syscall.LOCK_EX | syscall.LOCK_NB}[mode]
	for {
		err := syscall.Flock(int(file.Fd()), how)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errBusy
		case err != nil:
			return os.NewSyscallError("flock", err)
		}
		return nil
	}
}
