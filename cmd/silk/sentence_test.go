package main

import (
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/run"
)

// Every end but ok has one sentence that names the outcome, and no text of the program reaches the terminal raw.
func TestSentence(t *testing.T) {
	code := 3
	tests := []struct {
		name string
		o    run.Outcome
		want string
	}{
		{"exit status", run.Outcome{Kind: run.Failed, ExitCode: &code, Message: "the program exited with status 3"}, "failed: the program exited with status 3"},
		{"signal", run.Outcome{Kind: run.Failed, Signal: 11}, "failed: the program was ended by signal 11 (SIGSEGV)"},
		{"unusual signal", run.Outcome{Kind: run.Failed, Signal: 34}, "signal 34 (see kill -l)"},
		{"compiler", run.Outcome{Kind: run.Failed, Phase: "compile", ExitCode: &code}, "failed: the compiler exited with 3; the program was not started"},
		{"timeout", run.Outcome{Kind: run.Timeout, Message: "the time limit of 1s ended the run"}, "timeout: the time limit of 1s ended the run; what it printed until then is kept; raise the limit with --timeout"},
		{"oom", run.Outcome{Kind: run.OOM, Message: "m"}, "oom: m; raise the limit with --memory"},
		{"violation", run.Outcome{Kind: run.Violated, Rule: "file", Syscall: "openat", Argument: "/etc/passwd\x1b[2J"}, `violated: rule file: openat "/etc/passwd\x1b[2J"; the sandbox was ended before it had an effect`},
		{"network violation", run.Outcome{Kind: run.Violated, Rule: "network", Syscall: "socket", Argument: "AF_INET"}, "--net loopback allows sockets"},
		{"denial", run.Outcome{Kind: run.Denied, Rule: "network", Message: "denied by rule network: no"}, "denied by rule network: no"},
		{"cancel", run.Outcome{Kind: run.Canceled, Message: "the run was canceled"}, "canceled: the run was canceled"},
		{"error", run.Outcome{Kind: run.Error, Message: "no space left on device"}, "error: no space left on device"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sentence(tt.o); !strings.Contains(got, tt.want) || strings.ContainsAny(got, "\x1b\n") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{"a b.txt": "a b.txt", "日本": "日本", "a\nb": `"a\nb"`, "\x1b[31m": `"\x1b[31m"`, "\xff": `"\xff"`} {
		if got := printable(name); got != want {
			t.Errorf("printable(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestLimitNotes(t *testing.T) {
	o := run.Outcome{Flags: map[string]int64{"tmp_full": 2, "disk_full": 0, "output_truncated": 5}}
	if got := limitNotes(o); got != "output_truncated 5, tmp_full 2" {
		t.Error(got)
	}
}
