package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// replacementPath is where the cache remembers the lock that had to take the place of l, so that a build needs the network
// only once.
func replacementPath(cache string, l Lock) (string, error) {
	data, err := l.Marshal()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return filepath.Join(cache, "locks", hex.EncodeToString(sum[:])+".json"), nil
}

// replacement returns the lock that took the place of l in an earlier build for r; ok is false if there is none that
// can be used.
func replacement(cache string, r Recipe, l Lock) (newer Lock, ok bool, err error) {
	path, err := replacementPath(cache, l)
	if err != nil {
		return Lock{}, false, err
	}
	data, err := os.ReadFile(path)
	if missing(err) {
		return Lock{}, false, nil
	}
	if err != nil {
		return Lock{}, false, fmt.Errorf("read the package cache: %w", err)
	}
	newer, err = ParseLock(data)
	return newer, err == nil && newer.fits(r), nil
}

// remember keeps newer as the replacement of l.
func remember(cache string, l, newer Lock) error {
	path, err := replacementPath(cache, l)
	if err != nil {
		return err
	}
	data, err := newer.Marshal()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make package cache: %w", err)
	}
	return atomicfile.Write(path, data, 0o644)
}
