//go:build !linux

package drivertest

import (
	"errors"
	"fmt"
	"os"
)

func linkPair() (ours, theirs *os.File, err error) {
	return nil, nil, fmt.Errorf("make a link: %w", errors.ErrUnsupported)
}
