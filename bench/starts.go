//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// program is what the contenders run to be compared.
type program struct {
	title string
	tag   string // image
	args  []string
	want  string // what it prints
}

var startPrograms = []program{
	{"`true`", "lab:text", []string{"true"}, ""},
	{"`python3 -c 'print(1)'`", "lab:python", []string{"python3", "-c", "print(1)"}, "1\n"},
	{"`node -e 'console.log(1)'`", "lab:node", []string{"node", "-e", "console.log(1)"}, "1\n"},
}

// figures are the medians of one program under one contender.
type figures struct {
	contender string
	wall      time.Duration
	low, high time.Duration // fastest and slowest
	cpu       time.Duration // 0: not known
}

// comparison is one program under all contenders.
type comparison struct {
	program program
	rows    []figures
}

// coldStarts runs every program n times under every contender. The contenders take turns and the first of a round
// changes with each, so that no one always runs after the same neighbour. A round before the first warms the page cache.
func coldStarts(ctx context.Context, cfg config, all []contender, roots map[string]rootfs) ([]comparison, error) {
	var result []comparison
	for _, p := range startPrograms {
		samples := make([][]sample, len(all))
		for round := range cfg.n + 1 {
			for turn := range all {
				i := (turn + round) % len(all)
				s, err := take(ctx, all[i], roots[p.tag], p.args, p.want)
				if err != nil {
					return nil, err
				}
				if round > 0 {
					samples[i] = append(samples[i], s)
				}
			}
			progress("%s: round %d of %d", p.title, round, cfg.n)
		}
		c := comparison{program: p}
		for i, contender := range all {
			c.rows = append(c.rows, summarize(contender, samples[i]))
		}
		result = append(result, c)
	}
	return result, nil
}

func summarize(c contender, samples []sample) figures {
	var wall, cpu []time.Duration
	for _, s := range samples {
		wall, cpu = append(wall, s.wall), append(cpu, s.cpu)
	}
	f := figures{contender: c.name, wall: median(wall), cpu: median(cpu)}
	f.low, f.high = wall[0], wall[len(wall)-1] // median has sorted them
	if c.name == "docker" {
		f.cpu = 0 // the daemon does the work, and it is not our child
	}
	return f
}

// progress tells whoever waits; the figures go to the report.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
