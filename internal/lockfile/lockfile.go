// Package lockfile makes files that say whether their maker is still alive: the kernel drops the lock when the process
// ends, however it ends.
package lockfile

import "errors"

// ErrHeld is returned by Take when another process, or another part of this one, has the lock.
var ErrHeld = errors.New("it is held")

// Making is the suffix of a lock file's name until it is locked.
const Making = ".new"
