//go:build unix

package main

import (
	"os"
	"syscall"
)

// ownDir says whether path is a directory of the user's own, and no link: others may make any name in /tmp.
func ownDir(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
