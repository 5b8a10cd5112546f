// Package embedded puts executables that silk carries inside itself where they can be executed.
//
// They are executables of their own because starting one costs package initialisation and page faults for all that it links
// (docs/adr/0004-two-executables.md), and are carried inside so that one file is all of silk.
package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Executable is one that silk carries, or would if it had been built with it.
type Executable struct {
	What  string        // what people call it: "sandbox kernel"
	Name  string        // of the file
	Dir   string        // where it is unpacked, below the state directory
	Files fs.ReadFileFS // has files/NAME and files/NAME.sha256, if silk was built with it
}

// ErrNotBuilt is returned by [Executable.Locate] when silk was built without the executable and none lies beside silk.
var ErrNotBuilt = errors.New("this silk was built without it")

// Locate returns the path of the executable: explicit if it is not empty; else the embedded one, which is written to
// home/DIR/SHA256/NAME the first time; else one that lies beside silk. The file may be written to by its owner only, who is root or the
// caller.
func (e Executable) Locate(explicit, home string) (string, error) {
	if explicit != "" {
		return explicit, e.check(explicit, -1)
	}
	digest, err := e.Files.ReadFile("files/" + e.Name + ".sha256")
	if err == nil {
		return e.extract(home, strings.TrimSpace(string(digest)))
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find silk's own executable: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), e.Name)
	if err := e.check(beside, -1); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s: %w: run `make build`, or put %s beside silk", e.What, ErrNotBuilt, e.Name)
		}
		return "", err
	}
	return beside, nil
}

// extract writes the embedded executable unless it is there. The name is its digest, so that versions do not meet and
// concurrent silks write the same bytes.
func (e Executable) extract(home, digest string) (string, error) {
	path := filepath.Join(home, e.Dir, digest, e.Name)
	info, err := fs.Stat(e.Files, "files/"+e.Name)
	if err != nil {
		return "", fmt.Errorf("embedded %s: %w", e.What, err)
	}
	if e.check(path, info.Size()) == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", e.unpackError(err)
	}
	defer takeTurn(filepath.Dir(path), turnWait)()
	if e.check(path, info.Size()) == nil { // another silk was faster
		return path, nil
	}
	content, err := e.Files.ReadFile("files/" + e.Name)
	if err != nil {
		return "", fmt.Errorf("embedded %s: %w", e.What, err)
	}
	if sum := sha256.Sum256(content); !bytes.Equal([]byte(hex.EncodeToString(sum[:])), []byte(digest)) {
		return "", fmt.Errorf("embedded %s is not the one that silk was built with: build again", e.What)
	}
	if err := write(path, content); err != nil {
		return "", e.unpackError(err)
	}
	return path, e.check(path, info.Size())
}

func (e Executable) unpackError(err error) error {
	return fmt.Errorf("unpack %s: %w (free space there, or choose another state directory with --home or SILK_HOME)", e.What, err)
}

// executable is the mode of an unpacked file. Executable for all: the process that execs it may already be somebody else.
const executable = 0o555

// check refuses an executable that somebody else could have written. size -1 means any.
func (e Executable) check(path string, size int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%s: %w", e.What, err)
	}
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s %s is not a regular file", e.What, path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s %s can be written to by others: chmod go-w it", e.What, path)
	case size >= 0 && info.Size() != size:
		return fmt.Errorf("%s %s has %d bytes, want %d", e.What, path, info.Size(), size)
	}
	if err := checkOwner(info); err != nil {
		return fmt.Errorf("%s %s: %w", e.What, path, err)
	}
	return nil
}
