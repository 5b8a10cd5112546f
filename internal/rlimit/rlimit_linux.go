// Package rlimit says whether a server may have as much of its host as it will want, before it begins.
package rlimit

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// minFiles is what a server needs of open files to begin with: each run has some 30 while it starts, each viewer one.
const minFiles = 1024

// What an ordinary user's server has of threads: of its own, and for each sandbox kernel, which has some twenty and one in the server.
const (
	ownThreads    = 64
	kernelThreads = 24
)

// Enough refuses, for a server of so many sandbox kernels at once, what would fail at each run, or end it at a bad moment: Go does
// not survive that it can have no thread.
func Enough(kernels int) error {
	var files, threads unix.Rlimit
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &files), unix.Getrlimit(unix.RLIMIT_NPROC, &threads)); err != nil {
		return fmt.Errorf("read limits of this process: %w", err)
	}
	return errors.Join(enoughFiles(files.Max), enoughThreads(os.Getuid(), threads.Cur, kernels)) // Go has raised that of files as far as it may (package os)
}

func enoughFiles(limit uint64) error {
	if limit >= minFiles {
		return nil
	}
	return fmt.Errorf("at most %d files may be open; silk serve needs %d: raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd)", limit, minFiles)
}

// enoughThreads is about a limit that is not root's.
func enoughThreads(uid int, limit uint64, kernels int) error {
	need := ownThreads + kernelThreads*uint64(kernels)
	if uid == 0 || limit >= need {
		return nil
	}
	return fmt.Errorf("this user may have %d processes and threads; silk serve needs %d for the runs at once of its configuration: "+
		"raise the limit (ulimit -u, LimitNPROC= of systemd), or lower running and ready of serve", limit, need)
}
