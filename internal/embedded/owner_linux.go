package embedded

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

func checkOwner(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid != 0 && int(st.Uid) != os.Getuid() {
		return errors.New("it belongs to somebody else")
	}
	return nil
}
