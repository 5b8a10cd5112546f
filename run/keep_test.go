//go:build unix

package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/replay"
)

func TestKept(t *testing.T) {
	for _, test := range []struct {
		name        string
		bytes       int
		limit       int64
		create      error
		whole, file bool
	}{
		{"nothing", 0, 10, nil, true, false},
		{"a little", 10, 10, nil, true, false},
		{"more than the database takes", record.InlineBytes + 1, 1 << 30, nil, true, true},
		{"more than memory takes", memoryBytes + 1, 1 << 30, nil, true, true},
		{"more than is kept", 11, 10, nil, false, false},
		{"more than is kept, in a file", memoryBytes + 4096, memoryBytes + 1, nil, false, false},
		{"no file", memoryBytes + 1, 1 << 30, errors.New("the disk is full"), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kept")
			k := &kept{limit: test.limit, create: func() (*os.File, error) {
				if test.create != nil {
					return nil, test.create
				}
				return os.Create(path)
			}}
			all := bytes.Repeat([]byte("x"), test.bytes)
			for rest := all; len(rest) > 0; rest = rest[min(len(rest), 4096):] {
				if n, err := k.Write(rest[:min(len(rest), 4096)]); err != nil || n != min(len(rest), 4096) {
					t.Fatalf("it gets in the way: %d, %v", n, err)
				}
			}
			part, inline, err := k.end()
			if !errors.Is(err, test.create) || part.Present != test.whole || part.Bytes != int64(test.bytes) {
				t.Fatalf("%+v, %v", part, err)
			}
			sum := sha256.Sum256(all)
			if test.whole && part.SHA256 != hex.EncodeToString(sum[:]) {
				t.Errorf("hash %s", part.SHA256)
			}
			got, err := os.ReadFile(path)
			if (err == nil) != test.file || test.file && !bytes.Equal(got, all) {
				t.Errorf("a file of %d bytes, %v", len(got), err)
			}
			if test.whole && !test.file && (inline == nil || !bytes.Equal(inline, all)) {
				t.Errorf("%d bytes for the database", len(inline))
			}
			if n, err := k.Write([]byte("late")); n != 4 || err != nil {
				t.Errorf("late: %d, %v", n, err)
			}
		})
	}
}

// TestRunsReplay: what is kept of a run makes the same run again, and what is not kept stands in its record.
func TestRunsReplay(t *testing.T) {
	s := newStand(t, func(c *Config) { c.KeepBytes = 1 << 20 })
	req := request("cat", "tree", "write:a=x")
	req.HasStdin, req.Uploads = true, []policy.Upload{{Name: "dir/b", Bytes: []byte("b")}, {Name: "link", Link: "dir/b"}}
	input := strings.Repeat("some input\n", 10_000) // more than the database takes
	first := s.run(req, IO{Stdin: strings.NewReader(input)})
	b, missing, err := replay.Collect(t.Context(), s.db(), replay.Places{Home: s.home}, first.Run)
	if err != nil || len(missing) != 1 {
		t.Fatalf("%v, missing %q", err, missing)
	}
	r, err := b.Kept.Read()
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.Again(b.Kept.Workspace, nil)
	if err != nil {
		t.Fatal(err)
	}
	again.Image = "" // the stand has one by its tag
	second := s.run(again, IO{Stdin: bytes.NewReader(b.Kept.Stdin)})
	after, err := record.Get(t.Context(), s.db(), second.Run)
	if err != nil {
		t.Fatal(err)
	}
	if rep := replay.Compare(b.Kept.Record, after.Record); !rep.Same || len(rep.Notes) > 0 || first.Stdout.Bytes < int64(len(input)) {
		t.Errorf("%+v", rep)
	}
	short := request("print:short")
	short.Uploads = []policy.Upload{{Name: "big", Bytes: make([]byte, 2*record.InlineBytes)}} // what is kept of it lies in a file, what it prints does not
	out := s.run(short, IO{})
	if left, err := Recover(t.Context(), s.home, false, nil, nil, s.keys); err != nil || len(left.Files) > 0 {
		t.Errorf("what is kept is taken for a leftover: %+v, %v", left, err)
	}
	if b, _, err := replay.Collect(t.Context(), s.db(), replay.Places{Home: s.home}, out.Run); err != nil || len(b.Kept.Workspace) < 2*record.InlineBytes {
		t.Errorf("%d bytes are left of the workspace, %v", len(b.Kept.Workspace), err)
	}
	large := s.run(req, IO{Stdin: strings.NewReader(strings.Repeat("x", 2<<20))})
	e, err := record.Get(t.Context(), s.db(), large.Run)
	if err != nil || e.Record.Replay == nil || len(e.Record.Replay.Obstacles) != 1 || !strings.Contains(e.Record.Replay.Obstacles[0], "its input is not kept") {
		t.Errorf("%v %+v", err, e.Record.Replay)
	}
}
