package broker

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/api"
)

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
