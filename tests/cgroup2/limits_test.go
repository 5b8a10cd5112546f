package cgroup2

import (
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/run"
)

// plain is how long a plain run took. On a busy machine that emulates its processor this can be a minute.
var plain time.Duration

func TestPlainRun(t *testing.T) {
	s := newSilk(t)
	began := time.Now()
	got := s.shell(t, "echo out; echo err >&2; exit 3")
	plain = time.Since(began)
	got.want(t, run.Failed, 3)
	if text(got.Stdout) != "out\n" || text(got.Stderr) != "err\n" {
		t.Errorf("got %q and %q, want out and err", text(got.Stdout), text(got.Stderr))
	}
}

func TestMemoryLimit(t *testing.T) {
	s := newSilk(t)
	got := s.shell(t, "echo first; dd if=/dev/zero bs=64M count=1 | wc -c", "--memory", "32MiB")
	got.want(t, run.OOM, 137)
	if text(got.Stdout) != "first\n" {
		t.Errorf("stdout %q, want what was printed before the end", text(got.Stdout))
	}
}

func TestTimeLimit(t *testing.T) {
	s := newSilk(t)
	got := s.shell(t, "echo first; sleep 600; echo ESCAPED", "--timeout", max(plain, 5*time.Second).String())
	got.want(t, run.Timeout, 124)
	if text(got.Stdout) != "first\n" {
		t.Errorf("stdout %q, want what was printed before the end", text(got.Stdout))
	}
}

func TestProcessLimit(t *testing.T) {
	s := newSilk(t)
	got := s.shell(t, "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 600 & done; echo ESCAPED", "--processes", "5")
	got.want(t, run.Failed, 2) // sh's, for a fork that returns EAGAIN
	if got.Flags["pids_limit_hit"] == 0 || !strings.Contains(text(got.Stderr), "Cannot fork") || text(got.Stdout) != "" {
		t.Errorf("flags %v, stdout %q, stderr %q, want a fork refused", got.Flags, text(got.Stdout), text(got.Stderr))
	}
}

func TestFullTmp(t *testing.T) {
	s := newSilk(t)
	got := s.shell(t, "dd if=/dev/zero of=/tmp/full bs=4M count=25; rm /tmp/full; echo again >/tmp/full && cat /tmp/full")
	got.want(t, run.OK, 0)
	if got.Flags["tmp_full"] == 0 || text(got.Stdout) != "again\n" || !strings.Contains(text(got.Stderr), "No space left") {
		t.Errorf("flags %v, stdout %q, stderr %q, want a full /tmp that can be used again", got.Flags, text(got.Stdout), text(got.Stderr))
	}
}
