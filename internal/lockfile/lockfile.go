// Package lockfile makes files that say whether their maker is still alive: the kernel drops the lock when the process
// ends, however it ends.
package lockfile

// Making is the suffix of a lock file's name until it is locked.
const Making = ".new"
