//go:build unix

package workspace

import "syscall"

const (
	// openNonblock keeps an open from waiting for the writer of a FIFO that took the place of a file since it was
	// looked at.
	openNonblock = syscall.O_NONBLOCK

	// openFlags keep it from following a link at the last element besides.
	openFlags = syscall.O_NOFOLLOW | openNonblock
)
