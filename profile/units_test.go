package profile

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseBytes(t *testing.T) {
	tests := []struct {
		text string
		want int64 // 0: refused
	}{
		{"512MiB", 512 << 20},
		{"512mib", 512 << 20},
		{"1.5GiB", 3 << 29},
		{"2 GiB", 2 << 30},
		{"64MB", 64e6},
		{"1048576B", 1 << 20},
		{"1048576", 0},
		{"1B", 1},
		{"1TiB", 1 << 40},
		{"9223372036854775807B", math.MaxInt64},
		{"512M", 0},
		{"512", 0},
		{"", 0},
		{"MiB", 0},
		{"-1MiB", 0},
		{"0", 0},
		{"0MiB", 0},
		{"0.1B", 0},
		{"1..5MiB", 0},
		{"1e3MiB", 0},
		{"9999999999TiB", 0},
		{"9999999999.5TiB", 0},
		{"99999999999999999999", 0},
		{"1PiB", 0},
		{"NaN", 0},
		{"0x10", 0},
	}
	for _, tt := range tests {
		got, err := ParseBytes(tt.text)
		if got != tt.want || (err != nil) != (tt.want == 0) {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", tt.text, got, err, tt.want)
		}
	}
}

func TestFormatBytesIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, math.MaxInt64).Draw(t, "n")
		text := FormatBytes(n)
		if got, err := ParseBytes(text); err != nil || got != n {
			t.Fatalf("ParseBytes(FormatBytes(%d) = %q) = %d, %v", n, text, got, err)
		}
	})
}

func TestParseTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{"30s": 30 * time.Second, "1m30s": 90 * time.Second, "250ms": 250 * time.Millisecond, "30": 0, "0s": 0, "-1s": 0, "": 0, "soon": 0} {
		if got, err := ParseTimeout(text); got != want || (err != nil) != (want == 0) {
			t.Errorf("ParseTimeout(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestFormatTimeout(t *testing.T) {
	for d, want := range map[time.Duration]string{2 * time.Minute: "2m", time.Hour: "1h", 90 * time.Second: "1m30s", 10 * time.Second: "10s", time.Hour + time.Second: "1h0m1s", 250 * time.Millisecond: "250ms"} {
		if got := FormatTimeout(d); got != want {
			t.Errorf("FormatTimeout(%d) = %q, want %q", d, got, want)
		}
		if back, err := ParseTimeout(want); err != nil || back != d {
			t.Errorf("ParseTimeout(%q) = %v, %v", want, back, err)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]float64{"0.5": 0.5, "2": 2, "0": 0, "-1": 0, "NaN": 0, "+Inf": 0, "1e9": 0, "two": 0} {
		if got, err := ParseCPUs(text); (err != nil) != (want == 0) || (err == nil && got != want) {
			t.Errorf("ParseCPUs(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

// A bare number is no size: whoever writes 512 means MiB, and would get bytes.
func TestParseBytesNamesTheUnit(t *testing.T) {
	if _, err := ParseBytes("512"); err == nil || err.Error() != `"512" has no unit; write 512MiB` {
		t.Error(err)
	}
}
