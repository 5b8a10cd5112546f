//go:build unix

package workspace

import (
	"os"
	"syscall"
)

const (
	// openNonblock keeps an open from waiting for the writer of a FIFO that took the place of a file since it was
	// looked at.
	openNonblock = syscall.O_NONBLOCK

	// openFlags keep it from following a link at the last element besides.
	openFlags = syscall.O_NOFOLLOW | openNonblock
)

// lockFile locks a file until it is closed, or its process is gone. It fails if another has it.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
