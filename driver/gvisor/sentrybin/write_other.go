//go:build !linux

package sentrybin

import "github.com/google/renameio/v2"

func write(path string, content []byte) error { return renameio.WriteFile(path, content, executable) }
