package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Prune removes what lies below home and is not the embedded executable: those of earlier versions. With dry it only names
// them. Who runs one is not disturbed, and a silk of that version unpacks its own again. Without an embedded one nothing is removed.
func (e Executable) Prune(home string, dry bool) (removed []string, err error) {
	own, err := e.Files.ReadFile("files/" + e.Name + ".sha256")
	if err != nil {
		return nil, nil //nolint:nilerr // this silk brought none, so it cannot tell which are old
	}
	dir := filepath.Join(home, e.Dir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list old %ss: %w", e.What, err)
	}
	return e.pruneDirs(dir, strings.TrimSpace(string(own)), entries, dry)
}

func (e Executable) pruneDirs(dir, keep string, entries []fs.DirEntry, dry bool) (removed []string, err error) {
	var errs []error
	for _, d := range entries {
		if d.Name() == keep || !isDigest(d.Name()) {
			continue
		}
		path := filepath.Join(dir, d.Name())
		if !dry {
			if err := os.RemoveAll(path); err != nil {
				errs = append(errs, fmt.Errorf("remove old %s: %w", e.What, err))
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
