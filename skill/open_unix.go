//go:build unix

package skill

import "syscall"

// openFlags keep an open from following a link that took the place of a file since it was looked at, and from waiting for the writer
// of a FIFO that did.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
