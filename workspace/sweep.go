package workspace

import (
	"os"
	"strings"
	"time"
)

// tempPrefix begins the names that files have while they are copied, before 26 characters of base32 (crypto/rand.Text).
const tempPrefix = ".silk-"

// lockingTakes is how long a new file may be without the lock that says that its maker lives.
const lockingTakes = time.Minute

// isTemp says whether a name is one that files have while they are copied. No artifact gets such a name.
func isTemp(name string) bool {
	random, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(random) == 26 && strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// sweep removes the files of a directory that somebody was copying who was killed. Those of the living are locked. What it cannot look
// at stays: nothing depends on it.
func sweep(dir *os.Root) {
	d, err := dir.Open(".")
	if err != nil {
		return
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(1024)
		for _, e := range entries {
			if isTemp(e.Name()) && e.Type().IsRegular() {
				sweepOne(dir, e.Name())
			}
		}
		if err != nil {
			return // there are no more
		}
	}
}

func sweepOne(dir *os.Root, name string) {
	f, err := dir.OpenFile(name, os.O_RDWR|openFlags, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > lockingTakes && lockFile(f) == nil {
		_ = dir.Remove(name) // another silk may be faster
	}
}
