package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner refuses a file that somebody other than root and the calling user could have changed.
func checkOwner(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("stat: %w", errors.ErrUnsupported)
	}
	if uid := int(stat.Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, neither root nor you", uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others may write to it (mode %v)", info.Mode().Perm())
	}
	return nil
}

// identity is a text that changes whenever the file is replaced or written to.
func identity(info fs.FileInfo) (string, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("stat: %w", errors.ErrUnsupported)
	}
	return fmt.Sprintf("%d:%d %d %d.%09d %d.%09d\n", stat.Dev, stat.Ino, stat.Size,
		stat.Mtim.Sec, stat.Mtim.Nsec, stat.Ctim.Sec, stat.Ctim.Nsec), nil
}
