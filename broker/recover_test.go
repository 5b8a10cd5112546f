package broker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
