package cgroup2

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const mountPoint = "/sys/fs/cgroup"

// groupsOfSilk lists the groups of sandboxes, wherever they are in the tree.
func (s silk) groupsOfSilk(t *testing.T) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(mountPoint, func(path string, e fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), "silk-") {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}
