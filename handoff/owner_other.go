//go:build !unix

package handoff

import (
	"io/fs"
	"os"
)

// giveAway does nothing: files belong to whom the directory says.
func giveAway(*os.Root, string, fs.FileInfo) error { return nil }
