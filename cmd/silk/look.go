package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// lookHost is openHost for those who only look: where there is no state directory it makes none. What the drivers put
// into one is then in a directory beside it, on the same disk, until close.
func (a *app) lookHost() (*host, error) {
	c, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	home, err := a.home(c)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(home); !errors.Is(err, fs.ErrNotExist) {
		return a.hostAt(c, home, home, false)
	}
	scratch, err := besideHome(home)
	if err != nil {
		return nil, err
	}
	h, err := a.hostAt(c, home, scratch, false)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(scratch))
	}
	h.scratch = scratch
	return h, nil
}

// besideHome makes a directory where the first of those is missing that lead to home: if that can be done, home can be
// made too.
func besideHome(home string) (string, error) {
	at := filepath.Dir(home)
	for {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	dir, err := os.MkdirTemp(at, ".silk-look-")
	if err != nil {
		return "", &hostError{fmt.Errorf("make state directory %s (choose another one with --home or SILK_HOME): %w", home, err)}
	}
	return dir, nil
}
