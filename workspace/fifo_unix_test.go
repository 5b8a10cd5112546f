//go:build unix

package workspace

import (
	"syscall"
	"testing"
)

func makeFIFO(t testing.TB, path string) {
	t.Helper()
	must(t, syscall.Mkfifo(path, 0o644))
}
