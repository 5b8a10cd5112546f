package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/run"
)

// Every end but ok has one sentence that names the outcome, and no text of the program reaches the terminal raw.
func TestSentence(t *testing.T) {
	code, nothing := 3, 127
	python := told{plan: policy.Plan{Profile: "lab:node", Language: "python", Network: profile.NetworkDeny}}
	c := told{plan: policy.Plan{Profile: "lab:node", Language: "c", Compile: true}}
	missing := run.Outcome{Kind: run.Failed, ExitCode: &nothing, Message: "python3: command not found"}
	tests := []struct {
		name string
		o    run.Outcome
		t    told
		want string
	}{
		{"exit status", run.Outcome{Kind: run.Failed, ExitCode: &code, Message: "the program exited with status 3"}, told{}, "failed: the program exited with status 3"},
		{"signal", run.Outcome{Kind: run.Failed, Signal: 11}, told{}, "failed: the program was ended by signal 11 (SIGSEGV)"},
		{"unusual signal", run.Outcome{Kind: run.Failed, Signal: 34}, told{}, "signal 34 (see kill -l)"},
		{"compiler", run.Outcome{Kind: run.Failed, Phase: "compile", ExitCode: &code}, told{}, "failed: the compiler exited with 3; the program was not started"},
		{"timeout", run.Outcome{Kind: run.Timeout, Message: "the time limit of 1s ended the run"}, told{}, "timeout: the time limit of 1s ended the run; what it printed until then is kept; raise the limit with --timeout"},
		{"oom", run.Outcome{Kind: run.OOM, Message: "m"}, told{}, "oom: m; raise the limit with --memory"},
		{"violation", run.Outcome{Kind: run.Violated, Rule: "file.accounts", Syscall: "openat", Argument: "/etc/passwd\x1b[2J"}, told{}, `violated: rule file.accounts: openat "/etc/passwd\x1b[2J"; the sandbox was ended before it had an effect`},
		{"network violation", run.Outcome{Kind: run.Violated, Rule: "network.inet", Syscall: "socket", Argument: "AF_INET"}, told{alerted: true}, "--net loopback allows sockets"},
		{"another network violation", run.Outcome{Kind: run.Violated, Rule: "network.packet", Syscall: "socket", Argument: "AF_PACKET"}, told{}, `violated: rule network.packet: socket "AF_PACKET"; the sandbox was ended before it had an effect$`},
		{"guessed language", run.Outcome{Kind: run.Failed, ExitCode: &code, Message: "m"}, told{guessed: "sh"}, "failed: m (ran as sh; name the language with --lang or -p)$"},
		{"no interpreter", missing, python, "failed: python3: command not found; lab:node has no python3: leave -p out or use -p lab:python$"},
		{"no compiler", run.Outcome{Kind: run.Failed, Phase: "compile", ExitCode: &nothing}, c, "; lab:node has no gcc: leave -p out or use -p lab:repo$"},
		{"the program's own 127", run.Outcome{Kind: run.Failed, ExitCode: &nothing, Message: "the program exited with status 127"}, python, "failed: the program exited with status 127$"},
		{"denial", run.Outcome{Kind: run.Denied, Rule: "network", Message: "denied by rule network: no"}, told{}, "denied by rule network: no"},
		{"cancel", run.Outcome{Kind: run.Canceled, Message: "the run was canceled"}, told{}, "canceled: the run was canceled"},
		{"error", run.Outcome{Kind: run.Error, Message: "no space left on device"}, told{}, "error: no space left on device"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want, whole := strings.CutSuffix(tt.want, "$")
			if got := sentence(tt.o, tt.t); !strings.Contains(got, want) || whole && !strings.HasSuffix(got, want) || strings.ContainsAny(got, "\x1b\n") {
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
	o := run.Outcome{Flags: map[string]int64{"tmp_full": 2, "disk_full": 0, "output_truncated": 2 << 20, "pids_limit_hit": 1, "workspace_lost": 1, "new_one": 3}}
	const want = "new_one 3; the record keeps the first 10MiB of each channel: 2.0 MiB of output are not in it; the limit of 64 processes was hit once; --processes raises it; /tmp or /dev/shm was full; " +
		"the files in /workspace were lost with the sandbox"
	if got := limitNotes(o, profile.Defaults); got != want {
		t.Error(got)
	}
}

// TestEgressNote: whoever reads it knows why a look-up or connection failed, and what would let it.
func TestEgressNote(t *testing.T) {
	dns := func(host string) run.Destination {
		return run.Destination{Kind: "dns", Host: host, Rule: "name", Reason: fmt.Sprintf("no rule has the name %q", host), Count: 1}
	}
	list := policy.Plan{Network: profile.NetworkAllowlist, Hosts: []string{"a.org:443"}}
	for _, test := range []struct {
		egress []run.Destination
		plan   policy.Plan
		want   string
	}{
		{[]run.Destination{{Kind: "tcp", Host: "a.org", Port: 443, Allowed: true, Count: 1}}, list, ""},
		{[]run.Destination{{Kind: "tcp", Host: "a.org", Port: 443, Allowed: true, Reason: "one of its connections failed", Sent: 1, Count: 2}}, list, ""},
		{[]run.Destination{{Kind: "tcp", Host: "a.org", Port: 443, Allowed: true, Reason: "resolve a.org: no such host", Count: 1}}, list, "network: allowed, but failed: a.org:443 (resolve a.org: no such host)"},
		{[]run.Destination{{Kind: "tcp", Host: "a.org", Port: 443, Allowed: true, Rule: "bytes", Reason: "had enough", Sent: 9, Count: 1}, dns("pip.example")}, policy.Plan{}, `network: allowed, but failed: a.org:443 (had enough); refused once: pip.example (no rule has the name "pip.example")`},
		{[]run.Destination{dns("pip.example")}, list, `network: refused once: pip.example (no rule has the name "pip.example"); --net a.org:443,pip.example:443 would allow it, if 443 is the port`},
		{[]run.Destination{dns("pip.example")}, policy.Plan{Network: profile.NetworkAllow}, `network: refused once: pip.example (no rule has the name "pip.example")`},
		{
			[]run.Destination{{Kind: "tcp", Host: "a.org", Port: 80, Rule: "port", Reason: "a.org is allowed with port 443 only", Count: 2}},
			list,
			"network: refused 2 times: a.org:80 (a.org is allowed with port 443 only); --net a.org:443,a.org:80 would allow it",
		},
		{
			[]run.Destination{{Kind: "tcp", Host: "2001:db8::1", Port: 80, Rule: "address", Reason: "no rule has it", Count: 1}},
			list,
			"network: refused once: [2001:db8::1]:80 (no rule has it); --net a.org:443,[2001:db8::1]:80 would allow it",
		},
		{[]run.Destination{{Kind: "tcp", Host: "a.org", Port: 443, Rule: "address", Reason: "a.org leads to 10.0.0.1", Count: 1}}, list, "network: refused once: a.org:443 (a.org leads to 10.0.0.1)"},
		{[]run.Destination{{Kind: "udp", Host: "1.1.1.1", Port: 53, Rule: "udp", Reason: "nothing but DNS", Count: 1}}, list, "network: refused once: 1.1.1.1:53 (nothing but DNS)"},
		{
			[]run.Destination{dns("a.test"), dns("b.test"), dns("c.test"), dns("d.test")},
			list,
			`network: refused 4 times: a.test (no rule has the name "a.test"); b.test (no rule has the name "b.test"); c.test (no rule has the name "c.test"); --net a.org:443,a.test:443,b.test:443,c.test:443 would allow it, if 443 is the port`,
		},
		{[]run.Destination{{Kind: "dns", Host: "x\x1b[31m", Rule: "name", Reason: "no \x1b[31m rule", Count: 1}}, list, `network: refused once: "x\x1b[31m" (no ?[31m rule)`},
	} {
		if got := egressNote(run.Outcome{Egress: test.egress}, test.plan); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}

// TestRefusalNotes: a program that tries everything does not fill the terminal.
func TestRefusalNotes(t *testing.T) {
	o := run.Outcome{Refused: map[string]int64{"file.other": 3, "kernel.io-uring": 1, "kernel.keys": 2, "kernel.perf": 4, "privilege.chroot": 1}}
	got := limitNotes(o, profile.Defaults)
	if n := strings.Count(got, "refused a call"); n != maxRefusals || !strings.Contains(got, "; other rules refused calls ") {
		t.Errorf("%d rules are named: %s", n, got)
	}
}

// TestNotKept: what --artifacts would not receive either is not promised.
func TestNotKept(t *testing.T) {
	file, large, link := run.Artifact{Type: "file"}, run.Artifact{Type: "file", Omitted: "larger than"}, run.Artifact{Type: "symlink"}
	for want, artifacts := range map[string][]run.Artifact{
		"": {large, link},
		"1 artifact was not kept; --artifacts DIR receives it":     {large, file, link},
		"2 artifacts were not kept; --artifacts DIR receives them": {file, file, large},
	} {
		if got := notKept(artifacts, false); got != want {
			t.Errorf("%d artifacts: %q, want %q", len(artifacts), got, want)
		}
	}
}
