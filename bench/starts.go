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

// starter runs a program once.
type starter struct {
	name string
	run  func(ctx context.Context, p program) (sample, error)
}

// coldStarts runs every program n times under every contender.
func coldStarts(ctx context.Context, m *meter, n int, all []contender, roots map[string]rootfs) ([]comparison, error) {
	var starters []starter
	for _, c := range all {
		starters = append(starters, c.starter(m, roots))
	}
	var result []comparison
	for _, p := range startPrograms {
		c, err := compare(ctx, n, p, starters)
		if err != nil {
			return nil, err
		}
		result = append(result, c)
	}
	return result, nil
}

func (c contender) starter(m *meter, roots map[string]rootfs) starter {
	return starter{c.name, func(ctx context.Context, p program) (sample, error) {
		s, err := m.take(ctx, c, roots[p.tag], p.args, p.want)
		if c.name == "docker" || c.name == inDocker {
			s.cpu = 0 // the daemon does the work, and it is not our child
		}
		return s, err
	}}
}

// compare runs p n times under every starter. They take turns and the first of a round changes with each, so that none
// always runs after the same neighbour. A round before the first warms the page cache.
func compare(ctx context.Context, n int, p program, starters []starter) (comparison, error) {
	samples := make([][]sample, len(starters))
	for round := range n + 1 {
		for turn := range starters {
			i := (turn + round) % len(starters)
			s, err := starters[i].run(ctx, p)
			if err != nil {
				return comparison{}, err
			}
			if round > 0 {
				samples[i] = append(samples[i], s)
			}
		}
		progress("%s: round %d of %d", p.title, round, n)
	}
	c := comparison{program: p}
	for i, s := range starters {
		c.rows = append(c.rows, summarize(s.name, samples[i]))
	}
	return c, nil
}

func summarize(name string, samples []sample) figures {
	var wall, cpu []time.Duration
	for _, s := range samples {
		wall, cpu = append(wall, s.wall), append(cpu, s.cpu)
	}
	f := figures{contender: name, wall: median(wall), cpu: median(cpu)}
	f.low, f.high = wall[0], wall[len(wall)-1] // median has sorted them
	return f
}

// progress tells whoever waits; the figures go to the report.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
