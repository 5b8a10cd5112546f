package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/internal/lockfile"
)

// The directories that silk makes in the system's temporary one for the time that a verb takes begin so.
const (
	selftestDirs = "silk-selftest-"
	noteDirs     = "silk-note-"
)

// scratchLock is a file in each of them that is locked as long as its silk lives.
const scratchLock = "lock"

// scratchDir makes such a directory. release removes it.
func scratchDir(prefix string) (dir string, release func() error, err error) {
	if dir, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, err
	}
	lock, err := lockfile.Create(filepath.Join(dir, scratchLock))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Leave()) }, nil
}

// deadScratch are those that a silk of this user left which was killed.
func deadScratch() (dirs []string) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return nil // there is nothing of ours to be seen
	}
	for _, e := range entries {
		dir := filepath.Join(os.TempDir(), e.Name())
		if !isScratch(e.Name()) || !ownDir(dir) {
			continue
		}
		lock := filepath.Join(dir, scratchLock)
		if _, err := os.Lstat(lock); err != nil { // it is being made, or removed
			continue
		}
		if held, err := lockfile.Held(lock); err == nil && !held {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// isScratch says whether a name is one that scratchDir gives.
func isScratch(name string) bool {
	return slices.ContainsFunc([]string{selftestDirs, noteDirs}, func(prefix string) bool {
		number, ok := strings.CutPrefix(name, prefix)
		return ok && number != "" && strings.Trim(number, "0123456789") == ""
	})
}

// sweepScratch removes them.
func sweepScratch() error {
	for _, dir := range deadScratch() {
		if err := os.RemoveAll(dir); err != nil {
			return &hostError{err}
		}
	}
	return nil
}
