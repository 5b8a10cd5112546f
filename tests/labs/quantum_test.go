//go:build unix

package labs

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestBellPair holds the counts of a Bell pair to what physics says: no shot disagrees, and how many are 00 is within
// three standard deviations of half. A fair simulator misses that once in 370 runs, and four times in a row never.
func TestBellPair(t *testing.T) {
	needLab(t, "lab:quantum")
	for range 4 {
		_, artifacts := program{lab: "lab:quantum", file: "bell.qasm", args: []string{"--shots", "4096"}}.run(t, nil)
		data, err := os.ReadFile(filepath.Join(artifacts, "counts.json"))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Shots  int
			Counts map[string]int
		}
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		zeros, ones := got.Counts["00"], got.Counts["11"]
		if got.Shots != 4096 || zeros+ones != 4096 || len(got.Counts) != 2 {
			t.Fatalf("counts of a Bell pair: %s", data)
		}
		const sigma = 32 // of 4096 fair coins: half the square root
		if math.Abs(float64(zeros)-2048) <= 3*sigma {
			return
		}
		t.Logf("%d of 4096 are 00", zeros)
	}
	t.Error("not once within three standard deviations of half")
}
