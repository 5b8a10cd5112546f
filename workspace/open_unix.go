//go:build unix

package workspace

import "syscall"

// openFlags keep an open from following a link at the last element and from waiting for the writer of a FIFO that took
// the place of a file since it was looked at.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
