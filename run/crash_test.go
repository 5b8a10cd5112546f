//go:build unix

package run

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/internal/pty"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/store"
)

// TestKilledEngineLeavesARecord kills a process in the middle of a run; the next engine completes the record, and lets
// the run of a living engine be.
func TestKilledEngineLeavesARecord(t *testing.T) {
	if home := os.Getenv("SILK_RUN_TEST_HOME"); home != "" {
		e, err := New(Config{Home: home, Decide: decide, Drivers: []driver.Driver{&drivertest.Fake{}}, Images: imageFile(os.Args[0])})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Run(t.Context(), request(`print:up\n`, "sleep"), IO{OnFrame: func(Frame) { os.Stdout.WriteString("up\n") }})
		t.Fatalf("the run ended: %v", err)
	}
	testenv.NoLeaks(t)
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledEngineLeavesARecord$")
	cmd.Env = append(os.Environ(), "SILK_RUN_TEST_HOME="+home)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}

	inHome := func(c *Config) { c.Home = home }
	unfinished := func(s *stand) []record.Entry {
		s.engine.background.Wait() // the engine has looked for lost runs
		list, err := record.List(t.Context(), s.db(), record.Filter{Outcome: "running"})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	alive := newStand(t, inHome)
	running := unfinished(alive)
	if len(running) != 1 {
		t.Fatalf("%d runs are unfinished while the other engine lives, want 1", len(running))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the killed engine ended well")
	}

	s := newStand(t, inHome)
	if left := unfinished(s); len(left) != 0 {
		t.Errorf("%d runs are still unfinished", len(left))
	}
	lost := Outcome{Kind: Error, Run: running[0].Record.Run}
	entry := s.checkRecorded(lost, "started host_recovered error")
	if entry.Record.Outcome.Reason != string(ReasonHost) || entry.Plan == nil {
		t.Errorf("record %+v", entry.Record)
	}
	files, err := os.ReadDir(filepath.Join(home, enginesDir))
	if err != nil || len(files) != 2 {
		t.Errorf("%d engine files, %v; want those of the two that live", len(files), err)
	}
}

// TestRecoverSalvages: what somebody else kept of the output comes into the record and is read like any other's.
func TestRecoverSalvages(t *testing.T) {
	s := newStand(t, nil)
	lost := newID()
	err := s.db().Update(t.Context(), func(tx *sql.Tx) error {
		return record.Begin(t.Context(), tx, "gone", record.Entry{Record: record.Record{Run: lost, Client: "cli", RequestSHA256: hashText("x"), Policy: record.Policy{OutputBytes: 300_000}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	long := bytes.Repeat([]byte("line\n"), record.InlineBytes)
	salvage := func(run, channel string) ([]byte, error) {
		if run == lost && channel == "stdout" {
			return long, nil
		}
		return []byte("short\n"), nil
	}
	if _, err := Recover(t.Context(), s.home, false, salvage, nil, nil); err != nil {
		t.Fatal(err)
	}
	for channel, want := range map[string][]byte{"stdout": long[:300_000], "stderr": []byte("short\n")} {
		out, err := record.Output(t.Context(), s.db(), s.home, lost, channel)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(out)
		if err = errors.Join(err, out.Close()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v, want %d", channel, len(got), err, len(want))
		}
	}
	if left, err := Recover(t.Context(), s.home, false, salvage, nil, nil); err != nil || len(left.Runs)+len(left.Files) > 0 {
		t.Errorf("a second time: %+v, %v", left, err)
	}
}

// TestSalvageFails: the record gets its end, and says what it lacks.
func TestSalvageFails(t *testing.T) {
	s := newStand(t, nil)
	lost := newID()
	err := s.db().Update(t.Context(), func(tx *sql.Tx) error {
		return record.Begin(t.Context(), tx, "gone", record.Entry{Record: record.Record{Run: lost, Client: "cli", RequestSHA256: hashText("x")}})
	})
	if err != nil {
		t.Fatal(err)
	}
	broken := func(string, string) ([]byte, error) { return nil, errors.New("the log is damaged") }
	if _, err := Recover(t.Context(), s.home, false, broken, nil, nil); err != nil {
		t.Fatal(err)
	}
	entry, err := record.Get(t.Context(), s.db(), lost)
	if err != nil || !strings.Contains(entry.Record.Outcome.Message, "stdout could not be salvaged: the log is damaged") {
		t.Errorf("message %q, %v", entry.Record.Outcome.Message, err)
	}
}

// TestRecover: looking changes nothing; then runs get an end, and what no record has is removed. What others need stays.
func TestRecover(t *testing.T) {
	if left, err := Recover(t.Context(), t.TempDir(), false, nil, nil, nil); err != nil || len(left.Runs)+len(left.Files) > 0 {
		t.Errorf("where nothing was run: %+v, %v", left, err)
	}
	s := newStand(t, nil)
	whole := s.run(request("flood:200000"), IO{})
	lost := newID()
	err := s.db().Update(t.Context(), func(tx *sql.Tx) error {
		return record.Begin(t.Context(), tx, "gone", record.Entry{Record: record.Record{Run: lost, Client: "cli", RequestSHA256: hashText("x")}})
	})
	if err != nil {
		t.Fatal(err)
	}
	engines, runs := filepath.Join(s.home, enginesDir), filepath.Join(s.home, record.RunsDir)
	dead, unmade, making := filepath.Join(engines, "dead"), filepath.Join(engines, "a.new"), filepath.Join(engines, "b.new")
	unclaimed, notes := filepath.Join(runs, newID()), filepath.Join(runs, "notes")
	for _, file := range []string{dead, unmade, making, filepath.Join(unclaimed, "stdout"), filepath.Join(runs, lost, "stdout"), filepath.Join(notes, "x")} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	yesterday := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(unmade, yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	want := Leftovers{Runs: []string{lost}, Files: []string{unmade, dead, unclaimed}}
	for _, dry := range []bool{true, true, false} {
		got, err := Recover(t.Context(), s.home, dry, nil, nil, s.keys)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dry %t (-want +got):\n%s", dry, diff)
		}
	}
	s.checkRecorded(Outcome{Kind: Error, Run: lost}, "host_recovered error")
	for _, file := range []string{unmade, dead, unclaimed, filepath.Join(runs, lost)} {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", file, err)
		}
	}
	for _, file := range []string{making, filepath.Join(engines, s.engine.id), notes, record.OutputFile(s.home, whole.Run, "stdout")} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	if left, err := Recover(t.Context(), s.home, false, nil, nil, nil); err != nil || len(left.Runs)+len(left.Files) > 0 {
		t.Errorf("a second time: %+v, %v", left, err)
	}
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, store.FileName), bytes.Repeat([]byte("x"), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Recover(t.Context(), damaged, false, nil, nil, nil); err == nil || !strings.Contains(err.Error(), "recover what runs left") {
		t.Errorf("with a damaged state: %v", err)
	}
}

func TestLeaveKeepsTheLogAndRemovesTheEngine(t *testing.T) {
	s := newStand(t, nil)
	s.run(request("exit:0"), IO{})
	db := s.db()
	if err := s.engine.Leave(); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(filepath.Join(s.home, enginesDir)); err != nil || len(files) != 0 {
		t.Errorf("engines left: %v, %v", files, err)
	}
	if fi, err := os.Stat(db.Path() + "-wal"); err != nil || fi.Size() == 0 {
		t.Errorf("write-ahead log: %v, %v", fi, err)
	}
	if err := db.Close(); err != nil { // as the end of the process would
		t.Error(err)
	}
	s.engine.db = nil
}

func TestManyRunsAndEnginesAtOnce(t *testing.T) {
	testenv.NoLeaks(t)
	first := newStand(t, nil)
	second := newStand(t, func(c *Config) { c.Home = first.home })
	var wg sync.WaitGroup
	for i := range 10 {
		for _, s := range []*stand{first, second} {
			wg.Go(func() {
				out, err := s.engine.Run(t.Context(), request(fmt.Sprintf("print:%d", i)), IO{})
				if err != nil || out.Kind != OK || *out.Stdout.Text != fmt.Sprint(i) {
					t.Errorf("run %d: %+v, %v", i, out, err)
				}
			})
		}
	}
	wg.Wait()
	if head, err := audit.Verify(t.Context(), first.db()); err != nil || head.Seq != 40 {
		t.Errorf("audit %+v, %v", head, err)
	}
}

func TestTerminal(t *testing.T) {
	testenv.NoLeaks(t)
	s := newStand(t, nil)
	req := request(`print:up\n`, "resized", "cat")
	req.Terminal = true
	sizes := make(chan Size, 1)
	sizes <- Size{80, 24}
	stdin, keys := io.Pipe()
	var shown strings.Builder
	out := s.run(req, IO{Stdin: stdin, Resize: sizes, OnFrame: func(f Frame) {
		shown.Write(f.Data)
		switch {
		case strings.HasSuffix(shown.String(), "up\r\n"):
			sizes <- Size{132, 43}
			go func() {
				io.WriteString(keys, "typed\n")
				keys.Close() // is ^D for the program
			}()
		}
	}})
	if got := shown.String(); out.Kind != OK || strings.Count(got, "typed\r\n") != 2 { // the echo and cat's output
		t.Errorf("%s, the terminal shows %q", out.Kind, got)
	}
	if *out.Stdout.Text != shown.String() || out.Stderr.Bytes != 0 {
		t.Errorf("kept %q", *out.Stdout.Text)
	}
}

// TestSignals: the program gets them while it runs, and ends by them as by a signal of its own.
func TestSignals(t *testing.T) {
	testenv.NoLeaks(t)
	s := newStand(t, nil)
	signals := make(chan int)
	out := s.run(request(`print:up\n`, "sleep"), IO{Signals: signals, OnFrame: func(Frame) { go func() { signals <- 15 }() }})
	if out.Kind != Failed || out.Signal != 15 || out.ExitStatus() != 143 {
		t.Errorf("outcome %+v", out)
	}
	close(signals) // which need not be done
}

func TestTerminalThatIsCanceled(t *testing.T) {
	testenv.NoLeaks(t)
	s := newStand(t, nil)
	req := request(`print:up\n`, "sleep")
	req.Terminal = true
	main, replica, err := pty.Open() // the user's: somebody who types nothing
	if err != nil {
		t.Fatal(err)
	}
	defer main.Close()
	defer replica.Close()
	ctx, cancel := context.WithCancel(t.Context())
	out, err := s.engine.Run(ctx, req, IO{Stdin: replica, OnFrame: func(Frame) { cancel() }})
	if err != nil || out.Kind != Canceled {
		t.Errorf("outcome %+v, %v", out, err)
	}
}

func TestMounts(t *testing.T) {
	testenv.NoLeaks(t)
	owned := t.TempDir()
	inside, outside := filepath.Join(owned, "data"), t.TempDir()
	link := filepath.Join(owned, "link")
	if err := errors.Join(os.Mkdir(inside, 0o700), os.Symlink(outside, link)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		source string
		want   Kind
	}{
		{"in a store", inside, OK},
		{"a link that leads out of the store", link, Denied},
		{"not there", filepath.Join(owned, "absent"), Denied},
	} {
		t.Run(test.name, func(t *testing.T) {
			var packed *os.File
			s := newStand(t, func(c *Config) {
				c.Stores = []string{owned}
				c.Decide = func(req policy.Request) (policy.Plan, error) {
					return policy.Decide(req, profile.Profile{Name: "test", Image: "test", Network: "deny", Limits: profile.Defaults}, policy.Grants{Stores: []string{owned}})
				}
				c.Snapshot = func(_ context.Context, path string) (*os.File, error) {
					if path != inside {
						t.Errorf("snapshot of %s", path)
					}
					var err error
					packed, err = os.Open(path)
					return packed, err
				}
			})
			var mounts []driver.Mount
			s.fake.Started = func(spec driver.Spec) { mounts = spec.Mounts }
			req := request("exit:0")
			req.Mounts = []policy.Mount{{Source: test.source, Target: "/workspace/data"}}
			out := s.run(req, IO{})
			if out.Kind != test.want || (out.Kind == Denied && out.Rule != policy.RuleMount) {
				t.Fatalf("outcome %+v", out)
			}
			if out.Kind == OK && (len(mounts) != 1 || mounts[0].Target != "/workspace/data" || mounts[0].Image != packed) {
				t.Errorf("mounts %+v", mounts)
			}
			if packed != nil {
				if _, err := packed.Stat(); !errors.Is(err, os.ErrClosed) {
					t.Errorf("the snapshot is still open: %v", err)
				}
			}
		})
	}
}

// TestMemoryIsBoundedWhileOutputFlows: 100 MB of output need less than 16 MiB of memory beyond what was there before;
// silk as a whole has 64 MB.
func TestMemoryIsBoundedWhileOutputFlows(t *testing.T) {
	s := newStand(t, nil)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var highest uint64
	next := int64(0)
	out := s.run(request("flood:100000000"), IO{OmitText: true, OnFrame: func(f Frame) {
		if f.Offset >= next { // reading the statistics stops the world
			next += 5_000_000
			runtime.ReadMemStats(&now)
			highest = max(highest, now.HeapInuse)
		}
	}})
	if out.Stdout.Bytes != 100_000_000 {
		t.Errorf("%d bytes arrived", out.Stdout.Bytes)
	}
	if grown := int64(highest) - int64(before.HeapInuse); grown > 16<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

func BenchmarkRun(b *testing.B) {
	image := filepath.Join(b.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	e, err := New(Config{Home: b.TempDir(), Decide: decide, Drivers: []driver.Driver{&drivertest.Fake{}}, Images: imageFile(image)})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	for b.Loop() {
		if out, err := e.Run(b.Context(), request("print:hello"), IO{}); err != nil || out.Kind != OK {
			b.Fatal(out, err)
		}
	}
}

// BenchmarkOutput measures the way from a pipe to the keeper.
func BenchmarkOutput(b *testing.B) {
	image := filepath.Join(b.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	e, err := New(Config{Home: b.TempDir(), Decide: decide, Drivers: []driver.Driver{&drivertest.Fake{}}, Images: imageFile(image)})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	b.SetBytes(100_000_000)
	for b.Loop() {
		if out, err := e.Run(b.Context(), request("flood:100000000"), IO{OmitText: true}); err != nil || out.Stdout.Bytes != 100_000_000 {
			b.Fatal(out, err)
		}
	}
}

type imageFile string

func (f imageFile) Open(context.Context, string) (Image, error) {
	root, err := os.Open(string(f))
	return Image{Digest: testDigest, Root: root}, err
}
