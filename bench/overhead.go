//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// overheadPrograms are what policy and watching must not make dearer than stock runsc is: CPU time of the whole run, start
// and end included, in pairs.
var overheadPrograms = []struct {
	program

	limit float64 // target: upper bound of the interval at most
}{
	{program{"system calls: getppid 400,000 times", "lab:python", []string{"python3", "-c", "import os\nfor i in range(400_000): os.getppid()"}, ""}, 1.05},
	{program{"files: open, read, close 15,000 times in the image", "lab:python", []string{"python3", "-c", "import os\nfor i in range(15_000):\n  f = os.open('/usr/lib/os-release', os.O_RDONLY); os.read(f, 4096); os.close(f)"}, ""}, 1.05},
	{program{"files: stat, open, write, read, close, unlink 10,000 times in /workspace", "lab:python", []string{"python3", "-c", "import os\nfor i in range(10_000):\n  f = os.open('/workspace/x', os.O_RDWR | os.O_CREAT); os.write(f, b'x' * 512); os.pread(f, 512, 0); os.close(f); os.stat('/workspace/x'); os.unlink('/workspace/x')"}, ""}, 1.05},
	{program{"CPU: 15 million steps of a Python loop", "lab:python", []string{"python3", "-c", "x = 0\nfor i in range(15_000_000): x = (x * 31 + i) & 0xFFFF"}, ""}, 1.02},
	{program{"start of Python", "lab:python", []string{"python3", "-c", "print(1)"}, "1\n"}, 1.03},
	{program{"start of Node", "lab:node", []string{"node", "-e", "console.log(1)"}, "1\n"}, 1.03},
}

// paired is the ratio of two contenders' CPU times over pairs that ran one after the other.
type paired struct {
	title     string
	n         int
	median    float64
	low, high float64 // 95 % interval of the median
	limit     float64
}

// overhead runs each program n times in pairs; which of a pair comes first changes.
func overhead(ctx context.Context, m *meter, n int, silk, runsc contender, roots map[string]rootfs) ([]paired, error) {
	var result []paired
	for _, p := range overheadPrograms {
		var ratios []float64
		for round := range n + 1 {
			var cpu [2]float64
			for turn := range 2 {
				i := (turn + round) % 2
				s, err := m.take(ctx, []contender{silk, runsc}[i], roots[p.tag], p.args, p.want)
				if err != nil {
					return nil, err
				}
				cpu[i] = s.cpu.Seconds()
			}
			if round > 0 { // the first warms the page cache
				ratios = append(ratios, cpu[0]/cpu[1])
			}
		}
		progress("%s: %d pairs", p.title, n)
		one := paired{title: p.title, n: n, limit: p.limit, median: median(ratios)}
		one.low, one.high = interval(ratios)
		result = append(result, one)
	}
	return result, nil
}

// interval is the 95 % confidence interval of the median of values, from their order alone: the number of values below
// the true median is binomial with p = 1/2, whatever their distribution. Fewer than six values have none.
func interval(values []float64) (low, high float64) {
	slices.Sort(values)
	n := len(values)
	if n < 6 {
		return math.Inf(-1), math.Inf(1)
	}
	below, p := 0.0, math.Pow(0.5, float64(n)) // p is the probability of exactly k below
	k := 0
	for ; k < n && below+p <= 0.025; k++ {
		below += p
		p *= float64(n-k) / float64(k+1)
	}
	return values[k-1], values[n-k]
}

func (r report) writeOverhead(b *strings.Builder) {
	if len(r.overhead) == 0 {
		return
	}
	fmt.Fprintf(b, "## What policy and watching cost\n\nCPU time of the whole run, silk over runsc under the same limits, in %d pairs: the median of the ratios and its 95 %% interval.\n\n"+
		"| program | silk / runsc | interval | upper bound at most | |\n|---|---:|---:|---:|---|\n", r.overhead[0].n)
	for _, p := range r.overhead {
		verdict := "met"
		if p.high > p.limit {
			verdict = "**missed**"
		}
		fmt.Fprintf(b, "| %s | %.2f | %.2f - %.2f | %.2f | %s |\n", p.title, p.median, p.low, p.high, p.limit, verdict)
	}
	b.WriteString("\n")
}
