package broker

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/api"
)

// written makes a run with some output of both channels and returns its log.
func written(t *testing.T) (path string, lines int) {
	t.Helper()
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{})
	s.Output("stdout", 0, 1, 1e6, []byte("one\n"))
	s.Output("stderr", 0, 2, 2e6, []byte("zwei \xff\n"))
	s.Output("stdout", 4, 3, 3e6, []byte("three\nheld"))
	s.Output("stderr", 7, 4, 4e6, []byte("vier\n"))
	return LogFile(b.config.Dir, "r"), 5
}

func TestReadLog(t *testing.T) {
	path, _ := written(t)
	var got []string
	for r, err := range ReadLog(path) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %v %s %d %q", r.Seq, r.At, r.Channel, r.Offset, r.Data))
	}
	want := []string{
		`1 1ms stdout 0 "one\n"`, `2 2ms stderr 0 "zwei \xff\n"`, `3 3ms stdout 4 "three\n"`, `3 3ms stdout 10 "held"`, `4 4ms stderr 7 "vier\n"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
}

// Wherever a log breaks off, and whichever of its bytes is wrong, what is before is read and nothing else is.
func TestTornLog(t *testing.T) {
	path, records := written(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{len(magic)} // of the records
	for r, err := range ReadLog(path) {
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, ends[len(ends)-1]+headerBytes+len(r.Data))
	}
	if len(ends) != records+1 || ends[records] != len(whole) {
		t.Fatalf("records end at %d, the log at %d", ends, len(whole))
	}
	read := func(b []byte) (n int, err error) {
		for _, err = range readRecords(bytes.NewReader(b)) {
			if err == nil {
				n++
			}
		}
		return n, err
	}
	for cut := range len(whole) + 1 {
		n, err := read(whole[:cut])
		want := 0
		for want < records && ends[want+1] <= cut {
			want++
		}
		if torn := cut > 0 && !slices.Contains(ends, cut); n != want || errors.Is(err, ErrTorn) != torn {
			t.Errorf("cut at %d: %d records and %v, want %d, torn %t", cut, n, err, want, torn)
		}
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 0x10
		n, err := read(b)
		want := 0
		for i >= len(magic) && ends[want+1] <= i {
			want++
		}
		if n != want || !errors.Is(err, ErrTorn) {
			t.Errorf("byte %d is wrong: %d records and %v, want %d", i, n, err, want)
		}
	}
	for name, p := range map[string]struct {
		channel channel
		data    []byte
	}{
		"no data":         {stdout, nil},
		"no such channel": {channels, []byte("x")},
		"too much data":   {stdout, make([]byte, maxRecord+1)},
	} {
		if n, err := read(appendRecord(bytes.Clone(whole), p.channel, stamp{}, 0, p.data)); n != records || !errors.Is(err, ErrTorn) {
			t.Errorf("a record with %s and a good checksum: %d records and %v", name, n, err)
		}
	}
	if n, err := read(append(bytes.Clone(whole), make([]byte, 4096)...)); n != records || !errors.Is(err, ErrTorn) {
		t.Errorf("zeros at the end: %d records and %v", n, err)
	}
}

func TestRecoverOutput(t *testing.T) {
	path, _ := written(t)
	dir := filepath.Dir(path)
	got, err := RecoverOutput(dir, "r")
	want := Recovered{Stdout: []byte("one\nthree\nheld"), Stderr: []byte("zwei \xff\nvier\n")}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v; want -, got +:\n%s", err, diff)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	got, err = RecoverOutput(dir, "r")
	want = Recovered{Stdout: []byte("one\nthree\nheld"), Stderr: []byte("zwei \xff\n"), Torn: true}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("torn: %v; want -, got +:\n%s", err, diff)
	}
	if got, err := RecoverOutput(dir, "none"); err != nil || got.Stdout != nil || got.Stderr != nil {
		t.Errorf("a run that printed nothing: %+v, %v", got, err)
	}
	if _, err := RecoverOutput(dir, "../r"); err == nil {
		t.Error("a path is taken for the id of a run")
	}
	if err := os.Mkdir(LogFile(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := RecoverOutput(dir, "folder"); err == nil {
		t.Error("a log that cannot be read is none")
	}
}

// What comes after bytes that are missing is not to be taken for the begin of the output.
func TestRecoverStopsAtAHole(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{})
	s.Output("stdout", 0, 1, 0, []byte("a\n"))
	s.Output("stdout", 5, 2, 0, []byte("b\n"))
	got, err := RecoverOutput(b.config.Dir, "r")
	if err != nil || string(got.Stdout) != "a\n" {
		t.Errorf("got %q, %v", got.Stdout, err)
	}
}

// A record is in the log before any viewer can have its frame: here it cannot have it at all, since a viewer reads for
// ever.
func TestLogComesFirst(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{})
	s.Output("stdout", 0, 1, 0, []byte("begin\n"))
	s.mu.RLock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Output("stdout", 6, 2, 0, []byte("end\n"))
	}()
	for {
		got, err := RecoverOutput(b.config.Dir, "r")
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Stdout) == "begin\nend\n" {
			break
		}
		runtime.Gosched() // go test ends it if it never comes
	}
	if got := s.tails[stdout].end; got != 6 {
		t.Errorf("published are %d bytes", got)
	}
	s.mu.RUnlock()
	<-done
}

func TestLogHasALimit(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{LogBytes: 10, RingBytes: 1})
	s.Output("stdout", 0, 1, 0, []byte("12345678\n"))
	s.Output("stdout", 9, 2, 0, []byte("abc\n"))
	s.Output("stdout", 13, 3, 0, []byte("def\n"))
	s.Output("stderr", 0, 4, 0, []byte("e\n"))
	got, err := RecoverOutput(b.config.Dir, "r")
	if err != nil || string(got.Stdout) != "12345678\na" || string(got.Stderr) != "e\n" {
		t.Errorf("got %q and %q, %v", got.Stdout, got.Stderr, err)
	}
}

// Where the log lacks what is beyond its limit, what it has besides does not overtake what memory has.
func TestLimitKeepsOrder(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{LogBytes: 100, RingBytes: 2 << 10})
	v := view(t, b, "r", Cursor{})
	s.Output("stderr", 0, 1, 0, bytes.Repeat([]byte("e"), 90))
	s.w.timeout()
	s.Output("stdout", 0, 2, 0, []byte("first\n"))
	s.Publish(api.Frame{Type: api.FrameEgress, Host: strings.Repeat("x", 1500)}) // drives these two out of memory
	s.Output("stderr", 90, 3, 0, append(bytes.Repeat([]byte("e"), 200), '\n'))
	s.Output("stdout", 6, 4, 0, []byte("second\n"))
	if s.ring.start != [channels]int64{6, 90} {
		t.Fatalf("memory begins at %d", s.ring.start)
	}
	frames, _ := drain(t, v)
	if o := collect(t, frames); o.lost[stderr] > 0 || o.to != [channels]int64{13, 291} { // take compares stamps
		t.Errorf("got up to %d, %d lost", o.to, o.lost)
	}
}

func TestRemove(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{RingBytes: 1})
	v := view(t, b, "r", Cursor{})
	all := strings.Repeat("a line\n", 100)
	for i := range 100 {
		s.Output("stdout", int64(7*i), uint64(i+1), 0, []byte("a line\n"))
	}
	if err := b.Remove("r"); err != nil {
		t.Fatal(err)
	}
	s.Output("stdout", 700, 101, 0, []byte("another\n"))
	if _, err := os.Stat(LogFile(b.config.Dir, "r")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the log is there: %v", err)
	}
	frames, _ := drain(t, v)
	o := collect(t, frames)
	o.check(t, stdout, []byte(all+"another\n"))
	if o.lost[stdout] > 0 {
		t.Errorf("a viewer has lost %d bytes", o.lost[stdout])
	}
	if err := b.Remove("r"); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// What an earlier process left is found, and what is live or something else is not.
func TestLeft(t *testing.T) {
	b := newBroker(t, nil)
	live, gone := open(t, b, "live", Limits{}), open(t, b, "gone", Limits{})
	for _, s := range []*Stream{live, gone} {
		s.Output("stdout", 0, 1, 0, []byte("x\n"))
	}
	for _, name := range []string{"a.b.frames", "other"} {
		if err := os.WriteFile(filepath.Join(b.config.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.config.Keep = -1
	gone.End(api.Outcome{})
	for _, want := range []string{"gone", ""} {
		left, err := b.Left()
		if err != nil || strings.Join(left, " ") != want {
			t.Errorf("left are %q, %v, want %q", left, err, want)
		}
		if err := b.Remove("gone"); err != nil {
			t.Error(err)
		}
	}
}

// A log that cannot be made, read or trusted costs viewers what memory has not, with a gap, and the run nothing.
func TestLogTrouble(t *testing.T) {
	lines := strings.Repeat("a line of output\n", 2000)
	print := func(s *Stream, from, to int) {
		for i := from; i < to; i++ {
			s.Output("stdout", int64(17*i), uint64(i+1), 0, []byte("a line of output\n"))
		}
	}
	for _, test := range []struct {
		name   string
		before func(t *testing.T, b *Broker) // any output
		after  func(t *testing.T, s *Stream) // half of it
	}{
		{"there is no directory", func(t *testing.T, b *Broker) { b.config.Dir += "/none" }, nil},
		{"no log was wanted", func(t *testing.T, b *Broker) { b.config.Dir = "" }, nil},
		{"somebody has made the file", func(t *testing.T, b *Broker) {
			if err := os.WriteFile(LogFile(b.config.Dir, "r"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"a byte was changed", nil, func(t *testing.T, s *Stream) {
			if _, err := s.log.file.WriteAt([]byte("!"), 3000); err != nil {
				t.Fatal(err)
			}
		}},
		{"it was cut short", nil, func(t *testing.T, s *Stream) {
			if err := s.log.file.Truncate(100); err != nil {
				t.Fatal(err)
			}
		}},
		{"it was closed", nil, func(t *testing.T, s *Stream) { s.log.file.Close() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBroker(t, nil)
			s := open(t, b, "r", Limits{RingBytes: 8 << 10})
			if test.before != nil {
				test.before(t, b)
			}
			v := view(t, b, "r", Cursor{})
			print(s, 0, 1000)
			if test.after != nil {
				test.after(t, s)
			}
			print(s, 1000, 2000)
			s.End(api.Outcome{})
			frames, _ := drain(t, v)
			o := collect(t, frames)
			o.check(t, stdout, []byte(lines))
			if o.lost[stdout] == 0 {
				t.Error("nothing is lost")
			}
			if got := b.Stats(); got.GapBytes != o.lost[stdout] || (got.LogFaults == 0) != (b.config.Dir == "") {
				t.Errorf("lost are %d bytes, stats are %+v", o.lost[stdout], got)
			}
			if test.name == "it was closed" {
				s.log.file = nil // so that the broker does not mind
			}
		})
	}
}

func FuzzReadLog(f *testing.F) {
	b := appendRecord([]byte(magic), stdout, stamp{1, 2e6}, 0, []byte("one\n"))
	b = appendRecord(b, stderr, stamp{2, 3e6}, 0, []byte("\xff"))
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add(append(bytes.Clone(b), make([]byte, 40)...))
	f.Add(appendRecord([]byte(magic), channels, stamp{}, 0, []byte("x")))
	f.Add(appendRecord([]byte(magic), stdout, stamp{}, -1, []byte("x")))
	f.Add(appendRecord([]byte(magic), stdout, stamp{}, 0, nil))
	f.Add([]byte(magic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		again := []byte(magic)
		var last error
		for r, err := range readRecords(bytes.NewReader(b)) {
			if last != nil {
				t.Fatal("something comes after an error")
			}
			if last = err; err == nil {
				again = appendRecord(again, r.channel, r.stamp(), r.Offset, r.Data)
			}
		}
		switch {
		case last != nil && !errors.Is(last, ErrTorn):
			t.Fatal(last)
		case last == nil && len(b) > 0 && !bytes.Equal(again, b):
			t.Fatalf("%d bytes were taken for the records of %d", len(b), len(again))
		case last != nil && len(again) > len(magic) && !bytes.HasPrefix(b, again):
			t.Fatal("a record was read that is not there")
		}
	})
}
