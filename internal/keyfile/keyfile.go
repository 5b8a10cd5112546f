// Package keyfile keeps private keys in files of their own, which nobody but their owner can read.
//
// It knows nothing of what kind of key it is. A file is written once, and never over another: what a lost key has signed can be
// signed by no other.
package keyfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/silk-sandbox/silk/internal/secret"
)

// maxBytes bounds what is read of a file that is said to have a key: the longest in use, RSA's in PEM, have some 3 KB.
const maxBytes = 16 << 10

// Read returns the text of a file, 16 KiB at most, that others may neither read nor write. Its errors have nothing of the text.
func Read(path string) (secret.Secret, error) {
	f, err := os.Open(path)
	if err != nil {
		return secret.Secret{}, fmt.Errorf("read key: %w", err)
	}
	defer f.Close() // it was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return secret.Secret{}, fmt.Errorf("read key: %w", err)
	case !info.Mode().IsRegular():
		return secret.Secret{}, fmt.Errorf("read key: %s is no regular file", path)
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows": // where permissions are not these
		return secret.Secret{}, fmt.Errorf("read key: others may read or write %s: chmod 600 %[1]s, and if anybody might have read it, make another key", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes))
	if err != nil {
		return secret.Secret{}, fmt.Errorf("read key: %w", err)
	}
	return secret.New(string(text)), nil
}

// Write makes the file at path, which only its owner can read. It replaces none: the error is then [fs.ErrExist].
func Write(path, text string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write key: there is a file %s already, and keys are not overwritten: %w", path, err)
	}
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	_, err = io.WriteString(f, text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write key %s: %w", path, errors.Join(err, os.Remove(path)))
	}
	return nil
}
