//go:build !unix

package main

import (
	"os"

	"github.com/silk-sandbox/silk/run"
)

// watchSize reports nothing: nothing runs here.
func watchSize(*os.File) (sizes <-chan run.Size, stop func()) { return nil, func() {} }
