package wire

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/watch"
)

func TestPlan(t *testing.T) {
	spec := driver.Spec{
		Args: []string{"a", "b\n"}, Env: []string{"K=V"}, Dir: "/workspace", Hostname: "silk", Network: driver.NetworkLink, Trees: []string{"/usr"},
		Files: []driver.File{{Path: "/etc/hosts", Content: []byte{0, 255}, After: true}}, ReadOnly: true, NoSpawn: true,
		MemoryBytes: 1, WorkspaceBytes: 2, TmpBytes: 3, ShmBytes: 4, Processes: 5, CPUs: 0.5, Mounts: []driver.Mount{{Target: "/workspace/m"}},
		Link: driver.Link{Addrs: []netip.Addr{netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("2001:2::2")}, MTU: 60 << 10},
	}
	plan := PlanOf(spec, time.Unix(1, 2).UTC())
	b, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	var got Plan
	if err := Read(strings.NewReader(string(b)), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(plan, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(spec.Trees, got.Spec().Trees); d != "" || !got.Spec().NoSpawn || !got.Spec().ReadOnly || got.Mounts[0] != "/workspace/m" {
		t.Errorf("spec %+v", got.Spec())
	}
}

func TestReport(t *testing.T) {
	const good = `{"code":7,"flags":{"TmpFull":1},"counts":{"openat":3},"refused":[{"rule":"file.unlisted","count":1,"acts":[{"syscall":"openat","argument":"/x\u0007"}]}],
		"last":[],"cpu_ns":1,"peak_memory_bytes":2,"processes":3}`
	r, err := ReadReport(strings.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != 7 || r.Flags.TmpFull != 1 || r.Counts[watch.OpenAt] != 3 || r.Refused[0].Acts[0].Argument != "/x\uFFFD" {
		t.Errorf("got %+v", r)
	}
	for _, test := range []struct{ name, report, want string }{
		{"nothing", ``, "EOF"},
		{"something else", `[]`, "cannot unmarshal"},
		{"a field that nobody knows", `{"codes":1}`, "unknown field"},
		{"two", `{}{}`, "more than one"},
		{"a status that cannot be", `{"code":256}`, "status 256"},
		{"a signal that cannot be", `{"signal":65}`, "signal 65"},
		{"memory and a violation", `{"oom":true,"violation":{"rule":"file.accounts"}}`, "two reasons"},
		{"a violation of no rule", `{"violation":{"rule":"x.y"}}`, `"x.y"`},
		{"a violation of a rule that only refuses", `{"violation":{"rule":"file.unlisted"}}`, `"file.unlisted"`},
		{"a refusal by a rule that kills", `{"refused":[{"rule":"file.accounts","count":1}]}`, `"file.accounts"`},
		{"a refusal that was none", `{"refused":[{"rule":"file.unlisted","count":0}]}`, "file.unlisted"},
		{"an event that is not an agent's", `{"counts":{"sigsys":1}}`, "sigsys"},
		{"fewer than none", `{"peak_memory_bytes":-1}`, "a count of -1"},
		{"too long", `{"message":"` + strings.Repeat("x", MaxBytes) + `"}`, "more than"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := ReadReport(strings.NewReader(test.report)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// What an agent says it saw is the machine's, whatever it says, and fit to be shown.
func TestEvent(t *testing.T) {
	e, err := ParseEvent([]byte(`{"at":"2026-11-30T12:00:00Z","origin":"host","kind":"execve","pid":1,"tid":1,"argument":"/bin/\u001b[1m"}`))
	if err != nil || e.Origin != watch.Guest || strings.Contains(e.Argument, "\x1b") {
		t.Errorf("got %+v, %v", e, err)
	}
	if _, err := ParseEvent([]byte(`{"kind":"sigsys"}`)); err == nil {
		t.Error("a kind that an agent does not see is taken")
	}
}

func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"code":7,"violation":{"rule":"file.accounts","syscall":"openat","argument":"/etc/passwd"},"last":[{"kind":"openat","result":"killed"}]}`))
	f.Add([]byte(`{"refused":[{"rule":"process.spawn","count":2,"acts":[{"syscall":"clone"}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ReadReport(strings.NewReader(string(b)))
		if err != nil {
			return
		}
		texts := []string{r.Message, r.DrainError}
		if r.Violation != nil {
			texts = append(texts, r.Violation.Syscall, r.Violation.Argument)
		}
		for _, e := range r.Last {
			texts = append(texts, e.Syscall, e.Argument, e.Result)
		}
		for _, s := range texts {
			if watch.Printable(s) != s {
				t.Errorf("%q is not fit to be shown", s)
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add([]byte(`{"version":1,"kernel":"6.12","uptime_ms":5}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := ParseHello(b); err == nil && (h.UptimeMs < 0 || watch.Printable(h.Kernel) != h.Kernel) {
			t.Errorf("got %+v", h)
		}
	})
}
