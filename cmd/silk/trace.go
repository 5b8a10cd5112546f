package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// startTrace collects the steps of a start. Safe for concurrent use.
type startTrace struct {
	mu    sync.Mutex
	steps []traceStep
}

type traceStep struct {
	name string
	at   time.Time
}

func (t *startTrace) step(name string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = append(t.steps, traceStep{name, at})
}

// print shows each step with the time since silk's main began and since the step before.
func (t *startTrace) print(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.steps, func(a, b traceStep) int { return a.at.Compare(b.at) })
	last := began
	for _, s := range t.steps {
		fmt.Fprintf(w, "%9.2f ms %+8.2f  %s\n", ms(s.at.Sub(began)), ms(s.at.Sub(last)), s.name)
		last = s.at
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
