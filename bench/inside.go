//go:build linux

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// insidePrograms time themselves, so that their start does not count.
var insidePrograms = []program{
	{"CPU: 3 million steps of a Python loop", "lab:python", timed("x = 0\nfor i in range(3_000_000): x = (x * 31 + i) & 0xFFFF"), ""},
	{"system calls: getppid 200,000 times", "lab:python", timed("for i in range(200_000): os.getppid()"), ""},
	{"files: open, read, close 5,000 times in the image", "lab:python", timed("for i in range(5_000):\n  with open('/usr/lib/os-release', 'rb', 0) as f: f.read()"), ""},
	{"files: write and remove 2,000 in /workspace", "lab:python", timed("for i in range(2_000):\n  with open('/workspace/x', 'wb', 0) as f: f.write(b'x' * 4096)\n  os.unlink('/workspace/x')"), ""},
	{"processes: fork and exec `true` 30 times", "lab:python", timed("import subprocess\nfor i in range(30): subprocess.run(['true'], check=True)"), ""},
}

func timed(body string) []string {
	return []string{"python3", "-c", "import os, time\nt = time.perf_counter()\n" + body + "\nprint(time.perf_counter() - t)"}
}

// insideRounds is how often each is repeated: they run for long enough to vary little.
const insideRounds = 5

// inside returns how long each program says it took, under each contender: the median.
func inside(ctx context.Context, m *meter, all []contender, roots map[string]rootfs) ([]comparison, error) {
	var result []comparison
	for _, p := range insidePrograms {
		took := make([][]time.Duration, len(all))
		for round := range insideRounds {
			for turn := range all {
				i := (turn + round) % len(all)
				s, err := m.take(ctx, all[i], roots[p.tag], p.args, "")
				if err != nil {
					return nil, err
				}
				seconds, err := strconv.ParseFloat(strings.TrimSpace(s.out), 64)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", all[i].name, p.title, err)
				}
				took[i] = append(took[i], time.Duration(seconds*float64(time.Second)))
			}
		}
		progress("%s", p.title)
		c := comparison{program: p}
		for i, contender := range all {
			c.rows = append(c.rows, figures{contender: contender.name, wall: median(took[i])})
		}
		result = append(result, c)
	}
	return result, nil
}
