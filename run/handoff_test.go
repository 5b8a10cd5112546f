//go:build unix

package run

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
)

// passed collects what is passed on.
type passed struct {
	mu   sync.Mutex
	ends []End
	err  error
	put  func()
}

func (p *passed) Wants(k Kind) bool { return k != OK && k != Canceled }

func (p *passed) Put(ctx context.Context, tx *sql.Tx, end End) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.put != nil {
		p.put()
	}
	p.ends = append(p.ends, end)
	return p.err
}

// with makes an engine pass its runs on to p.
func (p *passed) with(c *Config) { c.Handoffs = p }

func codeRequest(code string, ops ...string) policy.Request {
	return policy.Request{
		Client: policy.ClientCLI, Profile: "test", Language: "sh", Args: ops,
		Code: &policy.Code{Name: "main.py", Bytes: []byte(code), SHA256: hashText(code)},
	}
}

func TestEndsArePassedOn(t *testing.T) {
	p := &passed{}
	s := newStand(t, p.with)
	s.run(codeRequest("fine", "print:fine"), IO{})
	out := s.run(codeRequest("1/0", `print:out\n`, `eprint:err\n`, "exit:3"), IO{Note: Note{Path: "Lab/Tour.md", Block: "b"}})
	if len(p.ends) != 1 {
		t.Fatalf("%d ends are passed on, want that of the run that failed: %+v", len(p.ends), p.ends)
	}
	end := p.ends[0]
	want := Source{Name: "main.py", Language: "sh", Code: []byte("1/0"), Bytes: 3, SHA256: hashText("1/0"), Note: Note{Path: "Lab/Tour.md", Block: "b"}}
	if diff := cmp.Diff(want, end.Source); diff != "" {
		t.Error(diff)
	}
	if end.Record.Run != out.Run || end.Record.Outcome.Kind != "failed" || string(end.Stdout.Head) != "out\n" || string(end.Stderr.Head) != "err\n" || end.Stderr.SHA256 != hashText("err\n") {
		t.Errorf("%+v", end)
	}
	var source string
	if err := s.db().QueryRowContext(t.Context(), "SELECT source FROM runs WHERE id = ?", out.Run).Scan(&source); err != nil || source != "" {
		t.Errorf("after the end the code is still with the record: %q, %v", source, err)
	}
	// One that policy refuses, and one that cannot be read.
	denied := codeRequest("x")
	denied.Network = "allow"
	s.run(denied, IO{})
	if _, err := s.engine.Refuse(t.Context(), codeRequest("y"), IO{Note: Note{Path: "n.md"}}, ReasonMissing, errors.New("no such file")); err != nil {
		t.Fatal(err)
	}
	if len(p.ends) != 3 || p.ends[1].Record.Outcome.Kind != "denied" || string(p.ends[1].Source.Code) != "x" || p.ends[2].Record.Outcome.Kind != "error" || p.ends[2].Source.Note.Path != "n.md" {
		t.Errorf("of refused runs: %+v", p.ends[1:])
	}
}

// TestEndWithoutHandoff: the end is not written without what is passed on.
func TestEndWithoutHandoff(t *testing.T) {
	p := &passed{err: errors.New("the table is full")}
	s := newStand(t, p.with)
	out, err := s.engine.Run(t.Context(), codeRequest("x", "exit:3"), IO{})
	if !errors.Is(err, ErrUnrecorded) || !errors.Is(err, p.err) {
		t.Errorf("got %v, want ErrUnrecorded", err)
	}
	entry, getErr := record.Get(t.Context(), s.db(), out.Run)
	if getErr != nil || entry.Record.Outcome.Kind != "" {
		t.Errorf("the record has the end %q, %v", entry.Record.Outcome.Kind, getErr)
	}
	p.err = nil
	if err := s.engine.EndLost(t.Context(), out.Run); err != nil {
		t.Fatal(err)
	}
	if end := p.ends[len(p.ends)-1]; end.Record.Outcome.Kind != "error" || string(end.Source.Code) != "x" {
		t.Errorf("later it is passed on as %+v", end)
	}
}

// TestKilledBetweenEndAndHandoff kills a process when it has written the end and is about to write what is passed on: neither is
// there, and the next engine writes both, with the code.
func TestKilledBetweenEndAndHandoff(t *testing.T) {
	if home := os.Getenv("SILK_RUN_TEST_HANDOFF"); home != "" {
		p := &passed{put: func() {
			os.Stdout.WriteString("in\n")
			select {}
		}}
		e, err := New(Config{Home: home, Decide: decide, Drivers: []driver.Driver{&drivertest.Fake{}}, Images: imageFile(os.Args[0]), Handoffs: p})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Run(t.Context(), codeRequest("the code", "exit:3"), IO{Note: Note{Path: "n.md", Block: "1"}})
		t.Fatalf("the run ended: %v", err)
	}
	testenv.NoLeaks(t)
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledBetweenEndAndHandoff$")
	cmd.Env = append(os.Environ(), "SILK_RUN_TEST_HANDOFF="+home)
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
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the killed engine ended well")
	}
	p := &passed{}
	s := newStand(t, func(c *Config) { c.Home, c.Handoffs = home, p })
	s.engine.background.Wait() // the engine has looked for lost runs
	if len(p.ends) != 1 {
		t.Fatalf("%d ends are passed on, want 1", len(p.ends))
	}
	end := p.ends[0]
	if end.Record.Outcome.Kind != "error" || !strings.HasPrefix(end.Record.Outcome.Message, HostRestarted) || string(end.Source.Code) != "the code" ||
		end.Source.Note != (Note{Path: "n.md", Block: "1"}) {
		t.Errorf("%+v", end)
	}
	entry, err := record.Get(t.Context(), s.db(), end.Record.Run)
	if err != nil || entry.Record.Outcome.Kind != "error" {
		t.Errorf("the record has the end %q, %v", entry.Record.Outcome.Kind, err)
	}
}

// TestLostOutputIsPassedOn: what was salvaged goes along.
func TestLostOutputIsPassedOn(t *testing.T) {
	s := newStand(t, nil)
	long := append(bytes.Repeat([]byte("x"), 2*maxLogBytes), "the end"...)
	lost := newID()
	err := s.db().Update(t.Context(), func(tx *sql.Tx) error {
		return record.Begin(t.Context(), tx, "gone", record.Entry{Record: record.Record{Run: lost, Client: "cli", RequestSHA256: hashText("x"), Policy: record.Policy{OutputBytes: 10}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &passed{}
	salvage := func(_, channel string) ([]byte, error) {
		if channel == "stdout" {
			return long, nil
		}
		return nil, nil
	}
	if _, err := Recover(t.Context(), s.home, false, salvage, p, nil); err != nil {
		t.Fatal(err)
	}
	if len(p.ends) != 1 {
		t.Fatalf("%d ends", len(p.ends))
	}
	end := p.ends[0]
	if end.Stdout.Bytes != int64(len(long)) || len(end.Stdout.Head) != maxLogBytes || !bytes.HasSuffix(end.Stdout.Tail, []byte("the end")) || end.Stdout.Omitted() != 7 || end.Source.Omitted == "" {
		t.Errorf("stdout has %d bytes, %d, %d; source %+v", end.Stdout.Bytes, len(end.Stdout.Head), len(end.Stdout.Tail), end.Source)
	}
}

func TestLogs(t *testing.T) {
	const most = maxLogBytes
	for _, test := range []struct {
		name       string
		limit      int64
		bytes      int
		head, tail int
	}{
		{"nothing", 10 << 20, 0, 0, 0},
		{"short", 10 << 20, 10, 10, 0},
		{"just whole", 10 << 20, 2 * most, 2 * most, 0},
		{"begin and end", 10 << 20, 2*most + 1, most, most},
		{"in a file", 10 << 20, memoryBytes + 5, most, most},
		{"cut by the limit", 100, 5000, 100, tailBytes},
		{"cut, and the tail begins in the head", 100, 4100, 100, 4000},
		{"cut, long", 3 * most, 4 * most, most, tailBytes},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			k := newKeeper(test.limit, func() (*os.File, error) { return os.Create(filepath.Join(dir, "kept")) })
			data := make([]byte, test.bytes)
			for i := range data {
				data[i] = byte(i % 251)
			}
			for chunk := range chunks(data) {
				k.write(chunk)
			}
			defer k.close()
			l, err := k.log()
			if err != nil {
				t.Fatal(err)
			}
			if l.Bytes != int64(test.bytes) || len(l.Head) != test.head || len(l.Tail) != test.tail || !bytes.HasPrefix(data, l.Head) || !bytes.HasSuffix(data, l.Tail) || l.Omitted() < 0 {
				t.Errorf("%d bytes, head %d, tail %d, omitted %d; want head %d, tail %d", l.Bytes, len(l.Head), len(l.Tail), l.Omitted(), test.head, test.tail)
			}
		})
	}
}

// chunks are pieces of data as a pipe gives them.
func chunks(data []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			n := min(len(data), 1000)
			if !yield(data[:n]) {
				return
			}
			data = data[n:]
		}
	}
}

func TestSource(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.py"), []byte("code"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "link.py")); err != nil {
		t.Fatal(err)
	}
	in := func(name, sum string) policy.Request {
		return policy.Request{Dir: dir, Code: &policy.Code{Name: name, SHA256: sum}}
	}
	long := strings.Repeat("ä", maxSourceBytes)
	for _, test := range []struct {
		name    string
		req     policy.Request
		code    string
		bytes   int64
		omitted string
	}{
		{"a command", policy.Request{Args: []string{"ls"}}, "", 0, ""},
		{"a file of a directory", in("main.py", hashText("code")), "code", 4, ""},
		{"one that is another now", in("main.py", hashText("other")), "", 0, "changed since"},
		{"one that is gone", in("gone.py", ""), "", 0, "read again"},
		{"a link out of the directory", in("link.py", ""), "", 0, "read again"},
		{"a directory", in(".", ""), "", 0, "no file"},
		{"more than there is room for", policy.Request{Code: &policy.Code{Name: "x", Bytes: []byte(long)}}, long[:maxSourceBytes], 2 * maxSourceBytes, "only the first"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := sourceFor(test.req, "python", Note{Path: strings.Repeat("ä", maxNoteBytes)})
			if string(s.Code) != test.code || s.Bytes != test.bytes || !strings.Contains(s.Omitted, test.omitted) || (s.Omitted == "") != (test.omitted == "") || len(s.Note.Path) > maxNoteBytes {
				t.Errorf("%d bytes of %d, omitted %q; want %d, %q", len(s.Code), s.Bytes, s.Omitted, test.bytes, test.omitted)
			}
		})
	}
}
