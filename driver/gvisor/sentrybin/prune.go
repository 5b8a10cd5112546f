package sentrybin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Prune removes the kernels below home that are not the embedded one: those of earlier versions. With dry it only names
// them. A sandbox that runs one is not disturbed, and a silk of that version unpacks its own again. Without an embedded
// kernel nothing is removed.
func Prune(home string, dry bool) (removed []string, err error) {
	own, err := files.ReadFile("files/" + name + ".sha256")
	if err != nil {
		return nil, nil //nolint:nilerr // this silk brought none, so it cannot tell which are old
	}
	dir := filepath.Join(home, "sentry")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sandbox kernels: %w", err)
	}
	return pruneDirs(dir, strings.TrimSpace(string(own)), entries, dry)
}

func pruneDirs(dir, keep string, entries []fs.DirEntry, dry bool) (removed []string, err error) {
	var errs []error
	for _, e := range entries {
		if e.Name() == keep || !isDigest(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if !dry {
			if err := os.RemoveAll(path); err != nil {
				errs = append(errs, fmt.Errorf("remove sandbox kernel: %w", err))
				continue
			}
		}
		removed = append(removed, path)
	}
	return removed, errors.Join(errs...)
}

// isDigest says whether a name is one that extract gives: 64 lower-case hex digits.
func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
