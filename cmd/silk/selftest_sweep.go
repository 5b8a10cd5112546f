package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/silk-sandbox/silk/internal/lockfile"
)

const (
	selftestDirs = "silk-selftest-"
	selftestLock = "lock" // in each of them: held as long as its selftest lives
)

// selftestDir makes the directory of a selftest. release removes it.
func selftestDir() (dir string, release func() error, err error) {
	if dir, err = os.MkdirTemp("", selftestDirs); err != nil {
		return "", nil, err
	}
	lock, err := lockfile.Create(filepath.Join(dir, selftestLock))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Leave()) }, nil
}

// deadSelftests are the directories that selftests of ours left which were killed.
func deadSelftests() (dirs []string) {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return nil // there is nothing of ours to be seen
	}
	for _, e := range entries {
		dir := filepath.Join(os.TempDir(), e.Name())
		if ok, err := filepath.Match(selftestDirs+"*", e.Name()); err != nil || !ok || !ownDir(dir) {
			continue
		}
		lock := filepath.Join(dir, selftestLock)
		if _, err := os.Lstat(lock); err != nil { // it is being made, or removed
			continue
		}
		if held, err := lockfile.Held(lock); err == nil && !held {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
