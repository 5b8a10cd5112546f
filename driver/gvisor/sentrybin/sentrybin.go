// Package sentrybin carries the sandbox kernel's executable inside silk and puts it where it can be executed.
//
// It is a second executable because starting one costs package initialisation and page faults for all that it links:
// silk's own start pays nothing for gVisor, and a sandbox nothing for silk's store and command line (see
// docs/adr/0004-two-executables.md).
package sentrybin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed files
var files embed.FS

const name = "silk-sentry"

// ErrNotBuilt is returned when silk was built without its sandbox kernel and none lies beside it.
var ErrNotBuilt = errors.New("this silk was built without its sandbox kernel: run `make build`, or put " + name + " beside silk")

// Locate returns the path of the kernel's executable: explicit if it is not empty; else the embedded one, which is
// written to home/sentry/<sha256>/ the first time; else one that lies beside this executable. The file may be written
// to by its owner only, who is root or the caller.
func Locate(explicit, home string) (string, error) {
	if explicit != "" {
		return explicit, check(explicit, -1)
	}
	digest, err := files.ReadFile("files/" + name + ".sha256")
	if err == nil {
		return extract(home, strings.TrimSpace(string(digest)))
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find silk's own executable: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if err := check(beside, -1); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", ErrNotBuilt
		}
		return "", err
	}
	return beside, nil
}

// extract writes the embedded executable unless it is there. The name is its digest, so that versions do not meet and
// concurrent silks write the same bytes.
func extract(home, digest string) (string, error) {
	path := filepath.Join(home, "sentry", digest, name)
	info, err := fs.Stat(files, "files/"+name)
	if err != nil {
		return "", fmt.Errorf("embedded sandbox kernel: %w", err)
	}
	if check(path, info.Size()) == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", unpackError(err)
	}
	defer takeTurn(filepath.Dir(path), turnWait)()
	if check(path, info.Size()) == nil { // another silk was faster
		return path, nil
	}
	content, err := files.ReadFile("files/" + name)
	if err != nil {
		return "", fmt.Errorf("embedded sandbox kernel: %w", err)
	}
	if sum := sha256.Sum256(content); !bytes.Equal([]byte(hex.EncodeToString(sum[:])), []byte(digest)) {
		return "", fmt.Errorf("embedded sandbox kernel is not the one that silk was built with: build again")
	}
	if err := write(path, content); err != nil {
		return "", unpackError(err)
	}
	return path, check(path, info.Size())
}

func unpackError(err error) error {
	return fmt.Errorf("unpack sandbox kernel: %w (free space there, or choose another state directory with --home or SILK_HOME)", err)
}

// executable is the mode of an unpacked kernel. Executable for all: the process that execs it is already somebody else.
const executable = 0o555

// check refuses an executable that somebody else could have written. size -1 means any.
func check(path string, size int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("sandbox kernel: %w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("sandbox kernel %s is not a regular file", path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("sandbox kernel %s can be written to by others: chmod go-w it", path)
	case size >= 0 && info.Size() != size:
		return fmt.Errorf("sandbox kernel %s has %d bytes, want %d", path, info.Size(), size)
	}
	return checkOwner(path, info)
}
