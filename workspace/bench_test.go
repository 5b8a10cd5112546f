package workspace

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// A checkout of ordinary size: 1,000 files, 10 MB.
func BenchmarkRoundTrip(b *testing.B) {
	d := b.TempDir()
	for i := range 1000 {
		write(b, filepath.Join(d, fmt.Sprint("dir", i%50), fmt.Sprint("file", i)), strings.Repeat("0123456789", 1000))
	}
	before, stream := fill(b, Source{Dir: d})
	b.Run("fill", func(b *testing.B) {
		b.SetBytes(before.Bytes)
		for b.Loop() {
			if _, err := Fill(io.Discard, Source{Dir: d}, FillLimits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("collect unchanged", func(b *testing.B) {
		b.SetBytes(before.Bytes)
		for b.Loop() {
			if _, err := Collect(bytes.NewReader(stream), before, CollectConfig{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("collect and copy", func(b *testing.B) {
		b.SetBytes(before.Bytes)
		for b.Loop() {
			if _, err := Collect(bytes.NewReader(stream), Manifest{}, CollectConfig{Dir: b.TempDir()}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
