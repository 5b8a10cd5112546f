package queue_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/queue"
)

// BenchmarkSubmitToStart measures from the call of Submit to the start of the function, and to the return of Submit, with
// the real stream on the disk of the temporary directory: every step is synced.
func BenchmarkSubmitToStart(b *testing.B) {
	h, q, err := startHost(b.Context(), b.TempDir(), queue.Config{Worker: "me", Running: 4})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	stopped, started, ended := make(chan error), make(chan time.Time), make(chan struct{})
	go func() {
		stopped <- q.Work(ctx, func(ctx context.Context, e queue.Entry) error {
			started <- time.Now()
			defer func() { ended <- struct{}{} }()
			return q.Done(ctx, e.Run, nil)
		})
	}()
	var starts, returns []time.Duration
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		at := make(chan time.Time)
		go func() { at <- <-started }()
		if _, _, err := q.Submit(b.Context(), queue.Submission{Run: fmt.Sprint("r", i), Token: "a", Hash: "h", Request: []byte(`{"code":"print(1)"}`)}, nil); err != nil {
			b.Fatal(err)
		}
		returns = append(returns, time.Since(began))
		starts = append(starts, (<-at).Sub(began))
		<-ended
	}
	b.StopTimer()
	stop()
	if err := <-stopped; err != nil {
		b.Fatal(err)
	}
	if err := h.close(q); err != nil {
		b.Fatal(err)
	}
	slices.Sort(starts)
	slices.Sort(returns)
	b.ReportMetric(float64(starts[len(starts)/2].Microseconds()), "start-p50-µs")
	b.ReportMetric(float64(starts[len(starts)*99/100].Microseconds()), "start-p99-µs")
	b.ReportMetric(float64(returns[len(returns)/2].Microseconds()), "accepted-p50-µs")
}
