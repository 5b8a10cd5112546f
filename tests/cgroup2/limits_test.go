package cgroup2

import (
	"testing"

	"github.com/silk-sandbox/silk/run"
)

func TestPlainRun(t *testing.T) {
	s := newSilk(t)
	got := s.shell(t, "echo out; echo err >&2; exit 3")
	got.want(t, run.Failed, 3)
	if text(got.Stdout) != "out\n" || text(got.Stderr) != "err\n" {
		t.Errorf("got %q and %q, want out and err", text(got.Stdout), text(got.Stderr))
	}
}
