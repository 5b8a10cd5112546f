// Package atomicfile writes files that others may read: a reader sees the old content or the new, never a part, also
// after a crash or a power loss.
//
// Use it for state. Do not use it for scratch files that only their writer reads, nor for paths that sandboxed code can
// influence: those go through os.Root (see workspace).
package atomicfile

import (
	"fmt"
	"io/fs"

	"github.com/google/renameio/v2"
)

// Write replaces the file at path with data. The new file has exactly the permissions perm, whatever the umask and
// whatever the old file had; its directory must exist. The data is on disk when Write returns; the rename is atomic.
// On error the old file is untouched and no temporary file is left.
func Write(path string, data []byte, perm fs.FileMode) error {
	err := renameio.WriteFile(path, data, perm, renameio.IgnoreUmask())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
