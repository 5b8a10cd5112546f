//go:build unix

package run

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/record/recordtest"
	"github.com/silk-sandbox/silk/store"
)

// stand is an engine with a fake driver and a state directory of its own.
type stand struct {
	*testing.T
	engine *Engine
	fake   *drivertest.Fake
	home   string
	keys   *record.Keyring
}

// oneImage has one image, "test".
type oneImage struct{ t *testing.T }

const testDigest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func (o oneImage) Open(_ context.Context, ref string) (Image, error) {
	if ref != "test" {
		return Image{}, fmt.Errorf("there is no image %s: %w", ref, fs.ErrNotExist)
	}
	path := filepath.Join(o.t.TempDir(), "image")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return Image{}, err
	}
	root, err := os.Open(path)
	return Image{Digest: testDigest, Root: root, Tools: []record.Tool{{Name: "dash", Version: "0.5"}}}, err
}

// decide is policy.Decide with a profile "test" that has the usual limits.
func decide(req policy.Request) (policy.Plan, error) {
	prof := profile.Profile{Name: "test", Image: "test", Network: "deny", Limits: profile.Defaults, Ignore: profile.CommonIgnore, Env: map[string]string{"HOME": "/workspace"}}
	switch req.Profile {
	case "test":
	case "no-image":
		prof.Image = "absent"
	default:
		return policy.Plan{}, fmt.Errorf("there is no profile %q", req.Profile)
	}
	return policy.Decide(req, prof, policy.Grants{})
}

func newStand(t *testing.T, change func(*Config)) *stand {
	t.Helper()
	s := &stand{T: t, fake: &drivertest.Fake{}, home: t.TempDir()}
	var err error
	if s.keys, err = record.OpenKeyring(t.Context(), filepath.Join(t.TempDir(), "keys")); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Home: s.home, Decide: decide, Drivers: []driver.Driver{s.fake}, Images: oneImage{t}, Signer: s.keys}
	if change != nil {
		change(&cfg)
	}
	if s.engine, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.engine.db != nil {
			recordtest.CheckAll(context.Background(), t, s.engine.db)
		}
		if err := s.engine.Close(); err != nil {
			t.Error(err)
		}
		if n := s.fake.Running(); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
	return s
}

// request runs a fake program.
func request(ops ...string) policy.Request {
	return policy.Request{Client: policy.ClientCLI, Profile: "test", Args: append([]string{"fake"}, ops...)}
}

// run runs req and wants no error.
func (s *stand) run(req policy.Request, io IO) Outcome {
	s.Helper()
	out, err := s.engine.Run(s.Context(), req, io)
	if err != nil {
		s.Fatalf("run: %v (outcome %+v)", err, out)
	}
	return out
}

func (s *stand) db() *store.DB {
	s.Helper()
	db, err := s.engine.state(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return db
}

// checkRecorded compares the record and the audit events of a run with its outcome.
func (s *stand) checkRecorded(out Outcome, events string) record.Entry {
	s.Helper()
	entry, err := record.Get(s.Context(), s.db(), out.Run)
	if err != nil {
		s.Fatal(err)
	}
	r := entry.Record
	if r.Outcome.Kind != string(out.Kind) || r.Outcome.Rule != out.Rule || r.Schema != record.Schema || r.EndedAtMs < r.StartedAtMs || r.RequestSHA256 == "" ||
		r.Usage != record.Usage(out.Usage) {
		s.Errorf("record %+v of outcome %+v", r, out)
	}
	list, err := audit.List(s.Context(), s.db(), audit.Filter{Run: out.Run})
	if err != nil {
		s.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append([]string{strings.TrimPrefix(string(e.Name), "sandbox_") + string(e.Data)}, got...)
	}
	s.checkSigned(out.Run, got[len(got)-1])
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], "{")
	}
	if strings.Join(got, " ") != events {
		s.Errorf("audit events are %q, want %q", strings.Join(got, " "), events)
	}
	if _, err := audit.Verify(s.Context(), s.db()); err != nil {
		s.Error(err)
	}
	return entry
}

// checkSigned wants the record of a run to be signed, and the last audit event to name it as it was signed.
func (s *stand) checkSigned(run, event string) {
	s.Helper()
	text, err := record.Envelope(s.Context(), s.db(), run)
	if err != nil {
		s.Error(err)
		return
	}
	v, err := record.Verify(text, []record.PublicKey{s.keys.Public()})
	if err != nil || v.Record.Run != run {
		s.Errorf("the record of run %s is %+v, %v", run, v, err)
	}
	if want := fmt.Sprintf(`"keyId":%q`, s.keys.Public().ID()); !strings.Contains(event, want) || !strings.Contains(event, fmt.Sprintf(`"recordSha256":%q`, v.SHA256)) {
		s.Errorf("the last audit event is %s, want one with %s and %s", event, want, v.SHA256)
	}
}

// errorData is the data of the sandbox_error of a run, without what identifies its record.
func (s *stand) errorData(run string) string {
	s.Helper()
	list, err := audit.List(s.Context(), s.db(), audit.Filter{Run: run, Prefix: string(audit.SandboxError)})
	if err != nil || len(list) != 1 {
		s.Fatalf("%d errors, %v", len(list), err)
	}
	return strings.ReplaceAll(unnamed.ReplaceAllString(string(list[0].Data), ""), run, "RUN")
}

// unnamed finds what identifies the record in the data of an event: see checkSigned.
var unnamed = regexp.MustCompile(`,"(keyId|recordSha256)":"[0-9a-f]{64}"`)

// TestOutcomes has one row for each way a run can end.
func TestOutcomes(t *testing.T) {
	testenv.NoLeaks(t)
	lost := errors.New("the sandbox kernel is lost")
	for _, test := range []struct {
		name   string
		req    policy.Request
		change func(*Config)
		start  error // of the fake
		wait   error
		want   Outcome // Kind, Reason, Signal, Rule, Syscall, Argument
		exit   int     // of silk
		code   int     // of the program; -1: none
		events string
		data   string // of the sandbox_error
	}{
		{name: "ok", req: request("print:hi"), want: Outcome{Kind: OK}, events: "started completed"},
		{
			name: "failed", req: request("exit:3"), want: Outcome{Kind: Failed}, exit: 3, code: 3, events: "started error",
			data: `{"error":"non-zero exit","exitCode":3,"intentId":"RUN","outcome":"failed","profile":"test"}`,
		},
		{
			name: "failed with a message", req: request(`eprint:Traceback: \xff\n`, "exit:1"), want: Outcome{Kind: Failed}, exit: 1, code: 1,
			events: "started error", data: `{"error":"Traceback: �","exitCode":1,"intentId":"RUN","outcome":"failed","profile":"test"}`,
		},
		{
			name: "says that it ran out of memory", req: request("eprint:oom", "exit:137"), want: Outcome{Kind: Failed}, exit: 137, code: 137,
			events: "started error", data: `{"error":"oom","exitCode":137,"intentId":"RUN","outcome":"failed","profile":"test"}`,
		},
		{name: "exits like a timeout", req: request("exit:124"), want: Outcome{Kind: Failed}, exit: 124, code: 124, events: "started error"},
		{
			name: "own signal", req: request("signal:11"), want: Outcome{Kind: Failed, Signal: 11}, exit: 139, code: -1, events: "started error",
			data: `{"error":"non-zero exit","exitCode":139,"intentId":"RUN","outcome":"failed","profile":"test"}`,
		},
		{name: "own kill", req: request("signal:9"), want: Outcome{Kind: Failed, Signal: 9}, exit: 137, code: -1, events: "started error"},
		{
			name: "missing command", req: policy.Request{Client: "cli", Profile: "test", Args: []string{"nothing"}}, want: Outcome{Kind: Failed},
			exit: 127, code: 127, events: "started error", data: `{"error":"silk: nothing: command not found","exitCode":127,"intentId":"RUN","outcome":"failed","profile":"test"}`,
		},
		{
			name: "timeout", req: withTimeout(request("print:so far", "sleep"), 30*time.Millisecond), want: Outcome{Kind: Timeout}, exit: 124, code: -1,
			events: "started error", data: `{"error":"timeout","intentId":"RUN","outcome":"timeout","profile":"test"}`,
		},
		{
			name: "oom", req: request("alloc:100000000000"), want: Outcome{Kind: OOM}, exit: 137, code: -1, events: "started error",
			data: `{"error":"oom","exitCode":137,"intentId":"RUN","outcome":"oom","profile":"test"}`,
		},
		{
			name: "violated", req: request("violate:file,openat,/etc/passwd"),
			want: Outcome{Kind: Violated, Rule: "file", Syscall: "openat", Argument: "/etc/passwd"}, exit: 159, code: -1,
			events: "started security_violation error", data: `{"error":"violated","exitCode":159,"intentId":"RUN","outcome":"violated","profile":"test"}`,
		},
		{
			name: "denied by policy", req: withIsolation(request("exit:0")), want: Outcome{Kind: Denied, Rule: "isolation"}, exit: 126, code: -1,
			events: "error", data: `{"error":"denied","exitCode":126,"intentId":"RUN","outcome":"denied","profile":"test","rule":"isolation"}`,
		},
		{
			name: "unknown profile", req: policy.Request{Client: "cli", Profile: "lab:pyton", Args: []string{"x"}},
			want: Outcome{Kind: Error, Reason: ReasonUsage}, exit: 125, code: -1, events: "error",
			data: `{"error":"error","exitCode":125,"intentId":"RUN","outcome":"error","profile":"lab:pyton","reason":"usage"}`,
		},
		{name: "nothing to run", req: policy.Request{Client: "cli", Profile: "test"}, want: Outcome{Kind: Error, Reason: ReasonUsage}, exit: 125, code: -1, events: "error"},
		{
			name: "missing image", req: policy.Request{Client: "cli", Profile: "no-image", Args: []string{"x"}},
			want: Outcome{Kind: Error, Reason: ReasonMissing}, exit: 125, code: -1, events: "error",
		},
		{name: "missing driver", req: withDriver(request("exit:0"), "other"), want: Outcome{Kind: Error, Reason: ReasonMissing}, exit: 125, code: -1, events: "error"},
		{
			name: "no driver at all", req: request("exit:0"), change: func(c *Config) { c.Drivers = nil },
			want: Outcome{Kind: Error, Reason: ReasonMissing}, exit: 125, code: -1, events: "error",
		},
		{name: "missing file", req: withFile(request("exit:0"), "/does/not/exist"), want: Outcome{Kind: Error, Reason: ReasonMissing}, exit: 125, code: -1, events: "error"},
		{
			name: "driver fails to start", req: request("exit:0"), start: lost,
			want: Outcome{Kind: Error, Reason: ReasonHost}, exit: 125, code: -1, events: "started error",
		},
		{
			name: "driver is not usable here", req: request("exit:0"), start: fmt.Errorf("no namespaces: %w", errors.ErrUnsupported),
			want: Outcome{Kind: Error, Reason: ReasonMissing}, exit: 125, code: -1, events: "started error",
		},
		{
			name: "sandbox is lost", req: request("exit:0"), wait: lost,
			want: Outcome{Kind: Error, Reason: ReasonHost}, exit: 125, code: -1, events: "started error",
		},
		{
			name: "violation in a sandbox that is lost", req: request("violate:file,openat,/x"), wait: lost,
			want: Outcome{Kind: Violated, Rule: "file", Syscall: "openat", Argument: "/x"}, exit: 159, code: -1, events: "started security_violation error",
		},
		{name: "silk has a bug", req: request("exit:0"), change: func(c *Config) {
			c.Decide = func(policy.Request) (policy.Plan, error) { panic("bug") }
		}, want: Outcome{Kind: Error, Reason: ReasonHost}, exit: 125, code: -1, events: "error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStand(t, test.change)
			s.fake.StartErr, s.fake.WaitErr = test.start, test.wait
			out := s.run(test.req, IO{})
			got := Outcome{Kind: out.Kind, Reason: out.Reason, Signal: out.Signal, Rule: out.Rule, Syscall: out.Syscall, Argument: out.Argument}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s%s", diff, out.Message)
			}
			if out.ExitStatus() != test.exit {
				t.Errorf("silk would exit with %d, want %d", out.ExitStatus(), test.exit)
			}
			switch {
			case test.code < 0 && out.ExitCode != nil:
				t.Errorf("exit code %d, want none", *out.ExitCode)
			case test.code >= 0 && (out.ExitCode == nil || *out.ExitCode != test.code):
				t.Errorf("exit code %v, want %d", out.ExitCode, test.code)
			}
			if (out.Message == "") != (out.Kind == OK) {
				t.Errorf("message %q for %s", out.Message, out.Kind)
			}
			s.checkRecorded(out, test.events)
			if test.data != "" {
				if got := s.errorData(out.Run); got != test.data {
					t.Errorf("sandbox_error has %s, want %s", got, test.data)
				}
			}
		})
	}
}

func withTimeout(req policy.Request, d time.Duration) policy.Request {
	req.Limits.Timeout = d
	return req
}

func withIsolation(req policy.Request) policy.Request { req.Isolation = "microvm"; return req }

func withDriver(req policy.Request, name string) policy.Request { req.Driver = name; return req }

func withFile(req policy.Request, name string) policy.Request {
	req.Files = []string{name}
	return req
}

func TestTimeoutKeepsOutputAndWorkspace(t *testing.T) {
	s := newStand(t, nil)
	out := s.run(withTimeout(request("print:so far", "write:kept=x", "sleep"), 300*time.Millisecond), IO{})
	if out.Kind != Timeout || *out.Stdout.Text != "so far" || len(out.Artifacts) != 1 || out.Artifacts[0].Path != "kept" {
		t.Errorf("outcome %+v", out)
	}
	if out.WallMs < 300 {
		t.Errorf("it took %d ms", out.WallMs)
	}
}

func TestCancel(t *testing.T) {
	testenv.NoLeaks(t)
	for _, test := range []struct {
		name   string
		before bool
		events string
	}{
		{"before the start", true, "error"},
		{"while it runs", false, "started error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStand(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			if test.before {
				cancel()
			}
			out, err := s.engine.Run(ctx, request(`print:up\n`, "sleep"), IO{OnFrame: func(Frame) { cancel() }})
			if err != nil || out.Kind != Canceled || out.ExitStatus() != 130 {
				t.Errorf("outcome %+v, %v", out, err)
			}
			entry, err := record.Get(t.Context(), s.db(), out.Run)
			if err != nil || entry.Record.Outcome.Kind != string(Canceled) {
				t.Errorf("record %+v, %v", entry.Record.Outcome, err)
			}
		})
	}
}

// TestNoCodeRunsWithoutRecord: where the state cannot be written, the program does not start.
func TestNoCodeRunsWithoutRecord(t *testing.T) {
	testenv.NoLeaks(t)
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, home string)
		want  string
	}{
		{"the state directory is gone", func(t *testing.T, home string) {
			if err := os.Remove(home); err != nil {
				t.Fatal(err)
			}
		}, "state directory"},
		{"the database is no database", func(t *testing.T, home string) {
			if err := os.WriteFile(filepath.Join(home, store.FileName), bytes.Repeat([]byte("x"), 4096), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "damaged"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ran := false
			s := newStand(t, func(c *Config) { test.spoil(t, c.Home) })
			s.fake.Started = func(driver.Spec) { ran = true }
			out, err := s.engine.Run(t.Context(), request("print:ran"), IO{})
			if out.Kind != Error || out.Reason != ReasonHost || out.ExitStatus() != 125 || !strings.Contains(out.Message, test.want) {
				t.Errorf("outcome %+v, want a host error about %q", out, test.want)
			}
			if err == nil {
				t.Error("no error tells that the run has no record")
			}
			if ran || out.Stdout.Bytes != 0 {
				t.Error("the program ran")
			}
		})
	}
}

// TestNoCodeRunsBefore has the caller say at the last moment that nothing may run.
func TestNoCodeRunsBefore(t *testing.T) {
	testenv.NoLeaks(t)
	s := newStand(t, nil)
	ran, told := false, false
	s.fake.Started = func(driver.Spec) { ran = true }
	io := IO{Before: func() error { return errors.New("not on the disk") }, OnStart: func(Started) { told = true }}
	out := s.run(request("print:ran"), io)
	if out.Kind != Error || out.Reason != ReasonHost || !strings.Contains(out.Message, "not on the disk") {
		t.Errorf("outcome %+v, want a host error", out)
	}
	if ran || told || out.Stdout.Bytes != 0 {
		t.Errorf("the program ran: %t, its start was told: %t", ran, told)
	}
	s.checkRecorded(out, "started error")
}

// TestRecordLostAtTheEnd: a program that ended well but could not be recorded is no good run. The next engine gives its
// record an end.
func TestRecordLostAtTheEnd(t *testing.T) {
	s := newStand(t, nil)
	s.fake.Started = func(driver.Spec) {
		db := s.db()
		db.SetMaxOpenConns(1)
		if _, err := db.Exec("CREATE TRIGGER full BEFORE INSERT ON outputs BEGIN SELECT RAISE(ABORT, 'full'); END"); err != nil {
			t.Error(err)
		}
	}
	out, err := s.engine.Run(t.Context(), request("print:x"), IO{})
	if err == nil || out.Kind != Error || out.Reason != ReasonHost || !strings.Contains(out.Message, "ended with ok") {
		t.Errorf("outcome %+v, error %v", out, err)
	}
	if err := s.engine.Close(); err != nil {
		t.Error(err)
	}
	next := newStand(t, func(c *Config) { c.Home = s.home })
	next.engine.background.Wait()
	entry := next.checkRecorded(Outcome{Kind: Error, Run: out.Run}, "started host_recovered error")
	if !strings.Contains(entry.Record.Outcome.Message, "or could not write") { // this engine did not end
		t.Errorf("it is said to be because %q", entry.Record.Outcome.Message)
	}
}

func TestOutputIsKeptAndTold(t *testing.T) {
	s := newStand(t, nil)
	req := request(`print:one\n`, `eprint:two\n`, `print:thr\xffee\n`)
	var stdout, stderr bytes.Buffer
	var seqs []uint64
	out := s.run(req, IO{OnFrame: func(f Frame) {
		seqs = append(seqs, f.Seq)
		w := &stdout
		if f.Channel == "stderr" {
			w = &stderr
		}
		if f.Offset != int64(w.Len()) {
			t.Errorf("frame %d of %s has offset %d after %d bytes", f.Seq, f.Channel, f.Offset, w.Len())
		}
		w.Write(f.Data)
	}})
	if got, err := base64.StdEncoding.DecodeString(*out.Stdout.B64); err != nil || string(got) != "one\nthr\xffee\n" || out.Stdout.Text != nil {
		t.Errorf("stdout %q, %v", got, err)
	}
	if *out.Stderr.Text != "two\n" || out.Stderr.B64 != nil || stderr.String() != "two\n" || stdout.String() != "one\nthr\xffee\n" {
		t.Errorf("stderr %q, live %q and %q", *out.Stderr.Text, stdout.String(), stderr.String())
	}
	for i, seq := range seqs {
		if seq != uint64(i+1) {
			t.Errorf("frames are numbered %v", seqs)
		}
	}
	for channel, want := range map[string]string{"stdout": "one\nthr\xffee\n", "stderr": "two\n"} {
		if got := s.output(out.Run, channel); got != want {
			t.Errorf("kept %s is %q", channel, got)
		}
	}
	if out := s.run(request("print:x"), IO{OmitText: true}); out.Stdout.Text != nil || out.Stdout.Bytes != 1 {
		t.Errorf("without text: %+v", out.Stdout)
	}
}

func (s *stand) output(run, channel string) string {
	s.Helper()
	r, err := record.Output(s.Context(), s.db(), s.home, run, channel)
	if err != nil {
		s.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

func TestLargeOutputIsCutAndSaid(t *testing.T) {
	s := newStand(t, nil)
	req := request("flood:5000000")
	req.Limits.OutputBytes = 2_000_000
	var live int64
	out := s.run(req, IO{OnFrame: func(f Frame) { live += int64(len(f.Data)) }})
	if out.Kind != OK || out.Stdout.Bytes != 5_000_000 || !out.Stdout.Truncated || len(*out.Stdout.Text) != 2_000_000 || live != 5_000_000 {
		t.Errorf("bytes %d, truncated %t, text %d, live %d", out.Stdout.Bytes, out.Stdout.Truncated, len(*out.Stdout.Text), live)
	}
	if out.Flags["output_truncated"] != 3_000_000 {
		t.Errorf("flags %v", out.Flags)
	}
	if tail, err := base64.StdEncoding.DecodeString(out.Stdout.TailB64); err != nil || len(tail) != tailBytes || !strings.HasSuffix(string(tail), "0123456789") {
		t.Errorf("tail of %d bytes, %v", len(tail), err)
	}
	if got := s.output(out.Run, "stdout"); got != *out.Stdout.Text {
		t.Errorf("kept %d bytes", len(got))
	}
	fi, err := os.Stat(record.OutputFile(s.home, out.Run, "stdout"))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("file %v, %v", fi, err)
	}
	s.checkRecorded(out, "started output_truncated completed")
}

// TestOutputThatCannotBeKept: where the file cannot be made, the run and its record stand, and say how much was kept.
func TestOutputThatCannotBeKept(t *testing.T) {
	testenv.NoLeaks(t)
	for _, size := range []string{"200000", "3000000"} {
		t.Run(size, func(t *testing.T) {
			s := newStand(t, nil)
			if err := os.WriteFile(filepath.Join(s.home, record.RunsDir), nil, 0o600); err != nil { // no directory
				t.Fatal(err)
			}
			out, err := s.engine.Run(t.Context(), request("flood:"+size), IO{})
			if err == nil || !strings.Contains(err.Error(), "keep output") || out.Kind != OK || fmt.Sprint(out.Stdout.Bytes) != size {
				t.Errorf("outcome %+v, %v", out.Kind, err)
			}
			entry, err := record.Get(t.Context(), s.db(), out.Run)
			if err != nil || entry.Record.Stdout.Kept != 0 || !entry.Record.Stdout.Truncated || entry.Record.Outcome.Kind != string(OK) {
				t.Errorf("record %+v, %v", entry.Record.Stdout, err)
			}
			s.checkRecorded(out, "started output_truncated completed")
		})
	}
}

func TestMediumOutputIsAFile(t *testing.T) {
	s := newStand(t, nil)
	out := s.run(request("flood:200000"), IO{})
	if _, err := os.Stat(record.OutputFile(s.home, out.Run, "stdout")); err != nil {
		t.Error(err)
	}
	if got := s.output(out.Run, "stdout"); got != *out.Stdout.Text || len(got) != 200_000 {
		t.Errorf("kept %d bytes", len(got))
	}
}

func TestStdin(t *testing.T) {
	testenv.NoLeaks(t)
	text := strings.Repeat("line\n", 100_000)
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	waiting, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	defer w.Close()
	for _, test := range []struct {
		name  string
		has   bool
		stdin io.Reader
		ops   []string
		want  string
		bytes int64
	}{
		{"not asked for", false, strings.NewReader("x"), []string{"cat"}, "", 0},
		{"asked for but not there", true, nil, []string{"cat"}, "", 0},
		{"a reader", true, strings.NewReader("hello"), []string{"cat"}, "hello", 5},
		{"a file", true, f, []string{"cat"}, text, int64(len(text))},
		{"a pipe that stays silent", true, waiting, []string{"print:done"}, "done", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStand(t, nil)
			req := request(test.ops...)
			req.HasStdin = test.has
			out := s.run(req, IO{Stdin: test.stdin})
			if *out.Stdout.Text != test.want {
				t.Errorf("the program read %d bytes", len(*out.Stdout.Text))
			}
			in := s.checkRecorded(out, "started completed").Record.Input
			if in.StdinBytes != test.bytes {
				t.Errorf("recorded input %+v, want %d bytes", in, test.bytes)
			}
			if test.want == "hello" && in.StdinSHA256 != hashText("hello") {
				t.Errorf("recorded input %+v", in)
			}
		})
	}
}

func TestBrokenStdinEndsTheRun(t *testing.T) {
	testenv.NoLeaks(t)
	s := newStand(t, nil)
	req := request("cat", "sleep")
	req.HasStdin = true
	dir, err := os.Open(t.TempDir()) // reading it is EISDIR
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	out := s.run(req, IO{Stdin: dir})
	if out.Kind != Error || out.Reason != ReasonHost || !strings.Contains(out.Message, "directory") {
		t.Errorf("outcome %+v", out)
	}
}

func TestWorkspaceAndArtifacts(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprintf("the driver calls Drain first: %t", early), func(t *testing.T) { testWorkspaceAndArtifacts(t, early) })
	}
}

func testWorkspaceAndArtifacts(t *testing.T, early bool) {
	s := newStand(t, nil)
	s.fake.DrainAtStart = early
	dir, given := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(given, "in.txt"), []byte("given"), 0o600); err != nil {
		t.Fatal(err)
	}
	req := request("read:in.txt", "read:main.py", `write:made.txt=new\n`)
	req.Dir = given
	req.Code = &policy.Code{Name: "main.py", Bytes: []byte("print(1)")}
	req.Language = "python"
	s.engine.cfg.Decide = func(req policy.Request) (policy.Plan, error) {
		plan, err := decide(req)
		plan.Args = append([]string{"fake"}, req.Args[1:]...)
		return plan, err
	}
	out := s.run(req, IO{Artifacts: dir})
	if *out.Stdout.Text != "givenprint(1)" {
		t.Errorf("the program saw %q", *out.Stdout.Text)
	}
	want := []Artifact{{Path: "made.txt", Type: "file", Size: 4, SHA256: hashText("new\n"), MIME: "text/plain; charset=utf-8"}}
	if diff := cmp.Diff(want, out.Artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "made.txt")); err != nil || string(got) != "new\n" {
		t.Errorf("copied %q, %v", got, err)
	}
	r := s.checkRecorded(out, "started completed").Record
	if diff := cmp.Diff([]record.Artifact{record.Artifact(want[0])}, r.Artifacts); diff != "" {
		t.Errorf("recorded artifacts (-want +got):\n%s", diff)
	}
	in := r.Input
	if in.CodeSHA256 != hashText("print(1)") || in.WorkspaceSHA256 == "" || in.SHA256 == "" {
		t.Errorf("recorded input %+v", in)
	}
}

func TestArtifactsThatCannotBeWritten(t *testing.T) {
	s := newStand(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := s.run(request("write:a=b"), IO{Artifacts: filepath.Join(file, "below")})
	if out.Kind != Error || out.Reason != ReasonHost || !strings.Contains(out.Message, "ended with ok") {
		t.Errorf("outcome %+v", out)
	}
}

func TestCompilePhase(t *testing.T) {
	for _, test := range []struct {
		name  string
		ops   []string
		phase string
	}{
		{"the compiler failed", []string{"write:.silk/compile-failed=", "exit:1"}, "compile"},
		{"the program failed", []string{"exit:1"}, ""},
		{"the program lies and succeeds", []string{"write:.silk/compile-failed=", "exit:0"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStand(t, func(c *Config) {
				c.Decide = func(req policy.Request) (policy.Plan, error) {
					plan, err := decide(req)
					plan.Compile = true
					return plan, err
				}
			})
			out := s.run(request(test.ops...), IO{})
			if out.Phase != test.phase || len(out.Artifacts) != 0 {
				t.Errorf("phase %q, artifacts %v", out.Phase, out.Artifacts)
			}
		})
	}
}

func TestFlagsAreTold(t *testing.T) {
	s := newStand(t, nil)
	req := request("tmp:10000000000")
	out := s.run(req, IO{})
	if diff := cmp.Diff(map[string]int64{"tmp_full": 1}, out.Flags); diff != "" || out.Kind != Failed {
		t.Errorf("%s, flags (-want +got):\n%s", out.Kind, diff)
	}
}

func TestEnvironmentValuesOfTheInvokerAreNotRecorded(t *testing.T) {
	s := newStand(t, nil)
	req := request("env")
	req.Env = []string{"TOKEN=very secret"}
	out := s.run(req, IO{OmitText: true})
	entry := s.checkRecorded(out, "started completed")
	if text := string(entry.Plan); strings.Contains(text, "very secret") || !strings.Contains(text, "TOKEN=sha256:"+hashText("very secret")) || !strings.Contains(text, "HOME=/workspace") {
		t.Errorf("the recorded plan is %s", text)
	}
}

func TestRecordNamesTheCommand(t *testing.T) {
	s := newStand(t, nil)
	entry := s.checkRecorded(s.run(request("print:hi you"), IO{}), "started completed")
	if got, want := entry.Record.Command, "fake 'print:hi you'"; got != want {
		t.Errorf("command %s, want %s", got, want)
	}
	refused := s.checkRecorded(s.run(withIsolation(request("exit:0")), IO{}), "error")
	if got, want := refused.Record.Command, "fake exit:0"; got != want {
		t.Errorf("command of a refused run %s, want %s", got, want)
	}
}

func TestRecordNamesDecisions(t *testing.T) {
	s := newStand(t, nil)
	req := request("exit:0")
	req.Limits.MemoryBytes = 1 << 30
	granted := s.checkRecorded(s.run(req, IO{}), "started completed").Record
	want := []record.Decision{{What: "driver", Text: "fake"}, {What: "grant", Text: "memory 1GiB (invoker)"}, {What: "watched", Text: "the sandbox's own kernel"}}
	if diff := cmp.Diff(want, granted.Decisions); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]record.Tool{{Name: "dash", Version: "0.5"}}, granted.Tools); diff != "" {
		t.Error(diff)
	}
	denied := s.run(withIsolation(request("exit:0")), IO{})
	want = []record.Decision{{What: "denied", Text: denied.Message}}
	if diff := cmp.Diff(want, s.checkRecorded(denied, "error").Record.Decisions); diff != "" {
		t.Error(diff)
	}
}

// TestRecordHashes: a record says by hash whether two runs were asked for, allowed and fed the same.
func TestRecordHashes(t *testing.T) {
	s := newStand(t, nil)
	hashes := func(change func(*policy.Request), stdin string) [3]string {
		req := request("cat")
		req.HasStdin = true
		change(&req)
		r := s.checkRecorded(s.run(req, IO{Stdin: strings.NewReader(stdin)}), "started completed").Record
		if got, err := record.Hash(r.Policy); err != nil || r.PolicySHA256 != got || r.Policy.Network != "deny" || r.Policy.OutputBytes != 10<<20 {
			t.Errorf("policy %+v with hash %s, want %s, %v", r.Policy, r.PolicySHA256, got, err)
		}
		return [3]string{r.RequestSHA256, r.PolicySHA256, r.Input.SHA256}
	}
	first := hashes(func(*policy.Request) {}, "a")
	for _, test := range []struct {
		name   string
		change func(*policy.Request)
		stdin  string
		want   [3]bool // the request, the policy, the input differ
	}{
		{"the same", func(*policy.Request) {}, "a", [3]bool{}},
		{"another argument", func(r *policy.Request) { r.Args = append(r.Args, "print:x") }, "a", [3]bool{true, false, true}},
		{"less memory", func(r *policy.Request) { r.Limits.MemoryBytes = 64 << 20 }, "a", [3]bool{true, true, false}},
		{"other input", func(*policy.Request) {}, "b", [3]bool{false, false, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := hashes(test.change, test.stdin)
			if differ := [3]bool{got[0] != first[0], got[1] != first[1], got[2] != first[2]}; differ != test.want {
				t.Errorf("request, policy, input differ: %v, want %v", differ, test.want)
			}
		})
	}
}

// TestSweep: each engine sweeps once, and goes on if that fails.
func TestSweep(t *testing.T) {
	swept := 0
	s := newStand(t, func(c *Config) {
		c.Sweep = func(context.Context) error { swept++; return errors.New("busy") }
	})
	if out := s.run(request("exit:0"), IO{}); out.Kind != OK {
		t.Errorf("outcome %+v", out)
	}
	s.run(request("exit:0"), IO{})
	s.engine.background.Wait()
	if swept != 1 {
		t.Errorf("swept %d times", swept)
	}
}

// prepared is a driver that counts what it prepared.
type prepared struct {
	*drivertest.Fake
	live int
}

func (p *prepared) Prepare(context.Context) func() { p.live++; return func() { p.live-- } }

func TestPreparedSandboxesAreReleased(t *testing.T) {
	for _, req := range []policy.Request{request("exit:0"), withFile(request("exit:0"), "/does/not/exist"), withIsolation(request("exit:0"))} {
		p := &prepared{Fake: &drivertest.Fake{}}
		s := newStand(t, func(c *Config) { c.Drivers = []driver.Driver{p} })
		s.run(req, IO{})
		if p.live != 0 {
			t.Errorf("%d are left", p.live)
		}
	}
}

func TestTrace(t *testing.T) {
	s := newStand(t, nil)
	steps := make(chan string, 100)
	s.run(request("print:x"), IO{Trace: func(step string, at time.Time) {
		if at.IsZero() {
			t.Errorf("step %q has no time", step)
		}
		steps <- step
	}})
	close(steps)
	var all []string
	for step := range steps {
		all = append(all, step)
	}
	for _, want := range []string{"request", "decided", "image is open", "state is open", "start is recorded", "workspace is filled", "program runs", "first output", "sandbox is gone", "end is recorded"} {
		if !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("no step %q in %q", want, all)
		}
	}
}

// TestSweepWithoutState: what a crash left goes also while the disk is full, say.
func TestSweepWithoutState(t *testing.T) {
	swept := make(chan struct{})
	newStand(t, func(c *Config) {
		if err := os.Mkdir(filepath.Join(c.Home, store.FileName), 0o700); err != nil {
			t.Fatal(err)
		}
		c.Sweep = func(context.Context) error { close(swept); return nil }
	})
	<-swept
}

func TestNewSaysEverythingThatIsWrong(t *testing.T) {
	_, err := New(Config{Home: "relative", Drivers: []driver.Driver{nil}})
	for _, want := range []string{"relative", "no Decide", "no Images", "driver 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}

// TestPanicWhileTheProgramRuns: the sandbox ends, and the run has its record.
func TestPanicWhileTheProgramRuns(t *testing.T) {
	testenv.NoLeaks(t)
	s := newStand(t, nil)
	out, err := s.engine.Run(t.Context(), request("sleep"), IO{Trace: func(step string, _ time.Time) {
		if step == "program runs" {
			panic("a caller's mistake")
		}
	}})
	if err != nil || out.Kind != Error || out.Reason != ReasonHost || !strings.Contains(out.Message, "a caller's mistake") {
		t.Errorf("outcome %+v, %v", out, err)
	}
	s.checkRecorded(out, "started error")
}

// TestServed: what a server needs: an id that it has given away already, who decided, and files that came over the network.
func TestServed(t *testing.T) {
	s := newStand(t, nil)
	id := newID()
	req := request("read:a/in.txt")
	req.Client = policy.ClientAPI
	req.Uploads = []policy.Upload{{Name: "a/in.txt", Bytes: []byte("sent along"), SHA256: "1"}}
	approved := record.Decision{What: "approval", Text: "granted by ann"}
	out := s.run(req, IO{Run: id, Decisions: []record.Decision{approved}})
	if out.Run != id || out.Stdout.Text == nil || *out.Stdout.Text != "sent along" {
		t.Errorf("run %q, want %q; %+v", out.Run, id, out)
	}
	entry := s.checkRecorded(out, "started completed")
	if entry.Record.Client != "api" || len(entry.Record.Decisions) == 0 || entry.Record.Decisions[0] != approved {
		t.Errorf("client %q, decisions %+v", entry.Record.Client, entry.Record.Decisions)
	}
}

// TestRefuseAsDenied: an end that was decided elsewhere keeps its kind.
func TestRefuseAsDenied(t *testing.T) {
	s := newStand(t, nil)
	for want, err := range map[Kind]error{
		Denied:   &policy.Denial{Rule: policy.RuleApproval, Detail: "the owner said no"},
		Canceled: context.Canceled,
		Error:    errors.New("the body was cut short"),
	} {
		id := newID()
		out, runErr := s.engine.Refuse(t.Context(), request("print:x"), IO{Run: id}, ReasonUsage, err)
		if runErr != nil || out.Kind != want || out.Run != id {
			t.Errorf("%v: %+v, %v", err, out, runErr)
		}
	}
}
