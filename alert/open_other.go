//go:build !unix

package alert

import "io/fs"

// No sandbox runs on such a system, so no alert is raised on it.
const noFollow = 0

func ownedByUs(fs.FileInfo) bool { return true }
func names(fs.FileInfo) uint64   { return 1 }
