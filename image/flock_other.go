//go:build !linux && !darwin

package image

import (
	"errors"
	"fmt"
	"os"
)

var errBusy = errors.New("locked by another process")

func flock(*os.File, lockMode) error { return fmt.Errorf("flock: %w", errors.ErrUnsupported) }
