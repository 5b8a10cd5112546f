package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

var update = flag.Bool("update", false, "rewrite testdata")

// sample is a segment of n events that begins a trail.
func sample(t testing.TB, n int) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := newWriter(&file, start())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e, err := New("r", SandboxError, time.UnixMilli(int64(i)), map[string]any{"intentId": "r", "error": "<&>\u2028\x00\x7f\"\\ä\U0001f9f5"})
		if err != nil {
			t.Fatal(err)
		}
		e.ID, e.Seq, e.PrevHash = fmt.Sprint("id", i), w.head.Seq+1, w.head.Hash
		if e.Hash, err = e.sum(); err != nil {
			t.Fatal(err)
		}
		if err := w.add(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func unpack(t testing.TB, data []byte) [][]byte {
	t.Helper()
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	text, err := z.DecodeAll(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	return lines[:len(lines)-1]
}

func pack(t testing.TB, lines [][]byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(bytes.Join(lines, nil), nil)
}

// FuzzReadSegment reads files, and lines that it compresses first. What the reader takes for whole is what a writer makes
// of the same events, so nothing in a file can hide from the hashes.
func FuzzReadSegment(f *testing.F) {
	for _, n := range []int{0, 1, 5} {
		file := sample(f, n)
		f.Add(file, true)
		f.Add(bytes.Join(unpack(f, file), nil), false)
		f.Add(file[:len(file)-4], true)
	}
	f.Add([]byte("{\"schema\":\"silk.audit-segment/v1\",\"first_seq\":1,\"prev_hash\":\""+zeroHash+"\"}\n{}\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, compressed bool) {
		if !compressed {
			data = pack(t, [][]byte{data})
		}
		var again bytes.Buffer
		w, err := newWriter(&again, start())
		if err != nil {
			t.Fatal(err)
		}
		head, err := readSegment(bytes.NewReader(data), start(), w.add)
		if head != w.head {
			t.Fatalf("the head is %+v after events up to %+v", head, w.head)
		}
		if err != nil {
			return
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		if got, want := bytes.Join(unpack(t, data), nil), bytes.Join(unpack(t, again.Bytes()), nil); !bytes.Equal(got, want) {
			t.Errorf("it took\n%s\nfor\n%s", got, want)
		}
	})
}

// A file of a kilobyte can unpack to terabytes. The reader needs little memory, and stops.
func TestReadSegmentIsBounded(t *testing.T) {
	packed := func(window int, r io.Reader) []byte {
		var file bytes.Buffer
		z, err := zstd.NewWriter(&file, zstd.WithWindowSize(window))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(z, r); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return file.Bytes()
	}
	for name, file := range map[string][]byte{
		"a line without an end": packed(window, io.LimitReader(endless{}, 64<<20)),
		"a window of 64 MiB":    packed(64<<20, io.MultiReader(bytes.NewReader(bytes.Join(unpack(t, sample(t, 1)), nil)), io.LimitReader(endless{}, 64<<20))),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := readSegment(bytes.NewReader(file), start(), func(Event) error { return nil }); !errors.Is(err, errSegment) || name == "a line without an end" && !strings.Contains(err.Error(), "longer than") {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
			t.Errorf("%s takes %d bytes of memory", name, got)
		}
	}
}

// endless reads as the letter a for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// A fault of the disk is none of the file: it is told as it is.
func TestReadSegmentPassesErrorsOn(t *testing.T) {
	file := sample(t, 3)
	stop := errors.New("stop")
	if head, err := readSegment(bytes.NewReader(file), start(), func(e Event) error {
		if e.Seq == 2 {
			return stop
		}
		return nil
	}); !errors.Is(err, stop) || head.Seq != 2 {
		t.Errorf("got %+v, %v", head, err)
	}
	if _, err := readSegment(io.MultiReader(bytes.NewReader(file[:9]), failing{}), start(), func(Event) error { return nil }); err == nil || !strings.Contains(err.Error(), "the disk fails") {
		t.Errorf("got %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk fails") }

func TestSegmentNames(t *testing.T) {
	first, last, ok := parseSegmentName(segmentName(1, 123456))
	if segmentName(1, 123456) != "000000000001-000000123456.jsonl.zst" || first != 1 || last != 123456 || !ok {
		t.Errorf("%s is %d to %d, %v", segmentName(1, 123456), first, last, ok)
	}
	for _, name := range []string{"", "lock", "1-2.jsonl.zst", "000000000001-000000123456.jsonl.zst.bak", "000000000001-000000123456.jsonl", "a-b.jsonl.zst"} {
		if _, _, ok := parseSegmentName(name); ok {
			t.Errorf("%q is taken for a segment", name)
		}
	}
}

// Append refuses what would come back otherwise from a file.
func TestAppendRefusesOddData(t *testing.T) {
	for name, data := range map[string]string{
		"not canonical": `{"b":1, "a":2}`, "no JSON": `{`, "none": "", "too long": `{"a":"` + strings.Repeat("x", MaxDataBytes) + `"}`,
	} {
		e := Event{Run: "r", Name: SandboxStarted, Data: []byte(data)}
		if err := Append(context.Background(), nil, &e); err == nil {
			t.Errorf("%s: appended", name)
		}
	}
}

// TestReadsVersion1 reads a file that was written when the format was new: files outlive the silk that wrote them.
func TestReadsVersion1(t *testing.T) {
	name := filepath.Join("testdata", "v1.jsonl.zst")
	if *update {
		if err := os.WriteFile(name, sample(t, 5), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, err := readSegment(bytes.NewReader(data), start(), func(e Event) error {
		if e.Name != SandboxError || !json.Valid(e.Data) {
			t.Errorf("got %+v", e)
		}
		return nil
	})
	want := Head{5, "5f5aac4ebe9543a9384bcdd6f6dcbc2b8c40a427bf31b1a1590160e4d68ebe82"}
	if err != nil || head != want {
		t.Errorf("got %+v, %v; want %+v", head, err, want)
	}
}
