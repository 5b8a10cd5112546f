package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func spool(t interface{ TempDir() string }) func() (*os.File, error) {
	return func() (*os.File, error) {
		return os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
}

// checkKeeper compares what k says with what was written.
func checkKeeper(t rapid.TB, k *keeper, all []byte, limit int64) {
	t.Helper()
	c, err := k.channel(true)
	if err != nil {
		t.Fatal(err)
	}
	want := all[:min(int64(len(all)), limit)]
	var got []byte
	switch {
	case c.Text != nil && c.B64 == nil && utf8.Valid(want) && !wasteful(want):
		got = []byte(*c.Text)
	case c.B64 != nil && c.Text == nil && (!utf8.Valid(want) || wasteful(want)):
		if got, err = base64.StdEncoding.DecodeString(*c.B64); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("text and b64 are %t and %t, want exactly the one that fits", c.Text != nil, c.B64 != nil)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("kept %d bytes that are not the first %d of %d", len(got), len(want), len(all))
	}
	sum := sha256.Sum256(all)
	if c.SHA256 != hex.EncodeToString(sum[:]) {
		t.Error("the hash is not that of everything")
	}
	if c.Bytes != int64(len(all)) || c.Truncated != (int64(len(all)) > limit) {
		t.Errorf("bytes %d, truncated %t, want %d, %t", c.Bytes, c.Truncated, len(all), int64(len(all)) > limit)
	}
	wantTail := all[max(0, len(all)-tailBytes):]
	if !bytes.Equal(k.lastBytes(), wantTail) {
		t.Errorf("tail has %d bytes that are not the last %d", len(k.lastBytes()), len(wantTail))
	}
	if (c.TailB64 != "") != c.Truncated {
		t.Errorf("tail is told: %t, truncated: %t", c.TailB64 != "", c.Truncated)
	}
}

// TestKeeperKeepsExactly: whatever the pieces, the prefix, the tail, the hash and the counts are exact.
func TestKeeperKeepsExactly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.SampledFrom([]int64{0, 1, 100, tailBytes, memoryBytes - 1, memoryBytes, memoryBytes + 1, 3 * memoryBytes}).Draw(rt, "limit")
		k := newKeeper(limit, spool(t))
		var all []byte
		for i := range rapid.IntRange(0, 30).Draw(rt, "pieces") {
			size := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(tailBytes-2, tailBytes+2), rapid.IntRange(0, 300_000)).Draw(rt, "size")
			piece := bytes.Repeat([]byte{byte(i), 'a', byte(size), 0x80 | byte(i)}, size/4+1)[:size]
			if rapid.Bool().Draw(rt, "text") {
				piece = bytes.Repeat([]byte("text ä\x00\n"), size/9+1)[:size]
			}
			k.write(piece)
			all = append(all, piece...)
			clear(piece) // the reader's buffer is used again
		}
		checkKeeper(rt, k, all, limit)
		if err := k.close(); err != nil {
			rt.Fatal(err)
		}
	})
}

func FuzzKeeper(f *testing.F) {
	f.Add([]byte("hello \xff world"), uint16(3), uint16(8))
	f.Add(bytes.Repeat([]byte("0123456789"), 1000), uint16(4095), uint16(5000))
	f.Fuzz(func(t *testing.T, data []byte, piece, limit uint16) {
		k := newKeeper(int64(limit), spool(t))
		for rest := data; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			k.write(rest[:n])
			rest = rest[n:]
		}
		checkKeeper(t, k, data, int64(limit))
	})
}

func TestKeeperSurvivesAFullDisk(t *testing.T) {
	full := errors.New("no space left on device")
	k := newKeeper(4*memoryBytes, func() (*os.File, error) { return nil, full })
	piece := bytes.Repeat([]byte("x"), 300<<10)
	for range 10 {
		k.write(piece)
	}
	if !errors.Is(k.err, full) {
		t.Errorf("error is %v, want %v", k.err, full)
	}
	c, err := k.channel(true)
	if err != nil {
		t.Fatal(err)
	}
	if c.Bytes != 3000<<10 || !c.Truncated || int64(len(*c.Text)) != k.kept || k.kept < 900<<10 {
		t.Errorf("bytes %d, truncated %t, kept %d", c.Bytes, c.Truncated, k.kept)
	}
}

func TestKeeperMemoryIsBounded(t *testing.T) {
	k := newKeeper(10<<20, spool(t))
	piece := make([]byte, 64<<10)
	for range 500 {
		k.write(piece)
		if held := cap(k.head) + cap(k.tail); held > 3*memoryBytes {
			t.Fatalf("%d bytes held after %d", held, k.total)
		}
	}
	if k.kept != 10<<20 || k.head != nil {
		t.Errorf("kept %d, %d of them in memory", k.kept, len(k.head))
	}
}

func TestWasteful(t *testing.T) {
	for _, test := range []struct {
		name  string
		piece string
		count int
		want  bool
	}{
		{"much text", "a line of text\n\twith tabs\r\n", 10_000, false},
		{"much coloured text", "\x1b[31mred words\x1b[0m and plain ones follow here\n", 10_000, false},
		{"a few zeros", "\x00", 1000, false},
		{"many zeros", "\x00", 100_000, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := wasteful(bytes.Repeat([]byte(test.piece), test.count)); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func BenchmarkKeeper(b *testing.B) {
	piece := make([]byte, 256<<10)
	b.SetBytes(int64(len(piece)))
	k := newKeeper(10<<20, spool(b))
	for b.Loop() {
		k.write(piece)
	}
}
