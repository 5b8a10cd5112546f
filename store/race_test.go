package store

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// TestOpenNewFileTogether has several openers meet at a file that does not exist yet, as the first runs of a user may. It
// failed once in some hundred meetings while SQLITE_BUSY was not tried again.
func TestOpenNewFileTogether(t *testing.T) {
	dir := t.TempDir()
	for i := range 200 {
		path := filepath.Join(dir, fmt.Sprint(i, ".db"))
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				db, err := Open(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}
