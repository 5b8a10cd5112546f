//go:build unix

package audit

import "syscall"

// openFlags keep a link from being followed, and a fifo in place of a file from holding us until somebody writes to it.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
