//go:build !unix

package workspace

import (
	"errors"
	"os"
)

// What is opened is compared with what was looked at before; these systems offer nothing more.
const openNonblock, openFlags = 0, 0

// lockFile is not supported: what a killed silk was copying stays.
func lockFile(*os.File) error { return errors.ErrUnsupported }
