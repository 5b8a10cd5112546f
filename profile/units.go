package profile

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// units of sizes, the larger ones first. Decimal and binary prefixes mean what they say.
var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"B", 1},
}

// ParseBytes reads a size such as "512MiB", "1.5 GiB", "64MB" (decimal) or "1000B". The case of letters does not matter. It
// refuses what has no unit ("512"), what is ambiguous ("512M"), negative, zero, or above [math.MaxInt64].
func ParseBytes(text string) (int64, error) {
	number, unit := text, ""
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); i >= 0 {
		number, unit = text[:i], strings.TrimSpace(text[i:])
	}
	if number == "" {
		return 0, fmt.Errorf("%q is not a size; write one like 512MiB", text)
	}
	factor, err := unitNamed(text, number, unit)
	if err != nil {
		return 0, err
	}
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
		if whole == 0 {
			return 0, fmt.Errorf("%q is nothing; a size is above zero", text)
		}
		if whole > math.MaxInt64/factor {
			return 0, fmt.Errorf("%q is more than can be counted", text)
		}
		return whole * factor, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%q is not a size; write one like 512MiB", text)
	}
	f *= float64(factor)
	if f >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is more than can be counted", text)
	}
	if f < 1 {
		return 0, fmt.Errorf("%q is nothing; a size is above zero", text)
	}
	return int64(f), nil
}

// unitNamed returns the bytes of the unit in text, which is number and unit.
func unitNamed(text, number, unit string) (int64, error) {
	if unit == "" {
		if strings.Trim(number, "0.") == "" {
			return 1, nil // nothing, in whatever unit: refused as that
		}
		return 0, fmt.Errorf("%q has no unit; write %sMiB", text, number)
	}
	for _, u := range units {
		if strings.EqualFold(u.name, unit) {
			return u.bytes, nil
		}
	}
	if len(unit) == 1 && strings.Contains("KMGTkmgt", unit) {
		return 0, fmt.Errorf("%q is ambiguous; write %s%siB or %s%sB", text, number, strings.ToUpper(unit), number, strings.ToUpper(unit))
	}
	return 0, fmt.Errorf("%q has the unknown unit %q; use B, KiB, MiB, GiB or TiB", text, unit)
}

// FormatBytes writes n exactly, with the largest binary unit that needs no fraction: "512MiB", "1000B". ParseBytes reads
// it back.
func FormatBytes(n int64) string {
	for _, u := range units[:4] {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// ParseTimeout reads a wall clock limit such as "30s", "2m" or "1m30s". It refuses zero, negative and unit-less ones.
func ParseTimeout(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		if _, bare := strconv.ParseFloat(text, 64); bare == nil {
			return 0, fmt.Errorf("%q has no unit; write %ss", text, text)
		}
		return 0, fmt.Errorf("%q is not a duration; write one like 30s or 2m", text)
	}
	if d <= 0 {
		return 0, fmt.Errorf("%q is not above zero", text)
	}
	return d, nil
}

// FormatTimeout writes d as people do: "2m", not "2m0s". ParseTimeout reads it back.
func FormatTimeout(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ParseCPUs reads a number of processors such as "0.5" or "2": at least 0.01, at most MaxCPUs.
func ParseCPUs(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || f < 0.01 || f > MaxCPUs {
		return 0, fmt.Errorf("%q is not a number of processors between 0.01 and %d; write one like 0.5", text, MaxCPUs)
	}
	return f, nil
}
