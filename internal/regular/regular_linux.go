// Package regular opens files that others have named, and nothing but regular ones.
package regular

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrOther is returned by [Open] for what is no regular file, a link to one included.
var ErrOther = errors.New("it is no regular file")

// Open opens a regular file for reading. Anything else is looked at and never opened: a pipe would be waited for, and some devices act when
// they are opened. Links on the way to it are followed. The caller closes it.
func Open(path string) (*os.File, error) {
	at, err := os.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer at.Close() // it stands for the file
	info, err := at.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrOther
	}
	if err != nil {
		return nil, err
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", at.Fd()))
}
