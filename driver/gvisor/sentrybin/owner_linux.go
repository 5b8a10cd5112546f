package sentrybin

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

func checkOwner(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid != 0 && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("sandbox kernel %s belongs to somebody else", path)
	}
	return nil
}
