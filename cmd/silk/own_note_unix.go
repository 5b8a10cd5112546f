//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file that replaces another one the same owner and group, as far as this user may.
func keepOwner(f *os.File, old fs.FileInfo) {
	if stat, ok := old.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(stat.Uid), int(stat.Gid)) // root may, and others own what they write
	}
}
