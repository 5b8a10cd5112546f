//go:build !linux

package embedded

import (
	"time"

	"github.com/google/renameio/v2"
)

const turnWait = 0

func takeTurn(string, time.Duration) (release func()) { return func() {} }

func write(path string, content []byte) error { return renameio.WriteFile(path, content, executable) }
