package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/silk-sandbox/silk/queue"
)

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 2, MemoryBytes: 100, Grace: 30 * time.Second})
		put := func(run string, memory int64) {
			b.put(queue.Submission{Run: run, Token: "a", Need: queue.Need{MemoryBytes: memory}})
		}
		b.work()
		put("a1", 30)
		b.start("a1")
		put("a2", 30)
		b.start("a2")
		put("a3", 90)
		began := time.Now()
		b.stop()
		<-time.After(10 * time.Second)
		b.let("a1") // a2 does not end by itself
		synctest.Wait()
		b.ended("a1")
		b.state("a2", queue.Running)
		<-b.stopped
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %v, want the grace", took)
		}
		wantErr(t, b.causes["a2"], queue.ErrStopped)
		b.ended("a2")
		b.state("a3", queue.Queued)
		b.listed("a3")
		b.stop = nil
		b.work() // another time
		b.start("a3")
		b.let("a3")
	})
}

// A run that is held for want of room when the work stops is the next one of another server at once.
func TestDrainGivesBackWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 2, MemoryBytes: 100, Grace: time.Second})
		b.work()
		b.put(queue.Submission{Run: "a1", Token: "a", Need: queue.Need{MemoryBytes: 60}})
		b.start("a1")
		b.put(queue.Submission{Run: "a2", Token: "a", Need: queue.Need{MemoryBytes: 60}})
		synctest.Wait()
		if d, err := b.stream.Next(t.Context(), "a", 9); d != nil || err != nil {
			t.Fatalf("a2 is not held: %v, %v", d, err)
		}
		b.halt()
		d, err := b.stream.Next(t.Context(), "a", 9)
		if d == nil || err != nil || d.Run() != "a2" {
			t.Errorf("got %v, %v", d, err)
		}
	})
}

func TestDrainWithoutRunsIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Grace: time.Hour})
		b.work()
		began := time.Now()
		b.halt()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{})
		b.work()
		synctest.Wait()
		if err := b.Close(); err == nil {
			t.Error("closed while it works")
		}
		changes, stop := b.Watch("a1")
		defer stop()
		b.halt()
		for range 2 {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, open := <-changes; open {
			t.Error("a watcher heard of a change")
		}
		do := func(context.Context, queue.Entry) error { return nil }
		wantErr(t, b.Work(t.Context(), do), queue.ErrClosed)
	})
}

func TestOneWorkAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{})
		b.work()
		synctest.Wait()
		if err := b.Work(t.Context(), b.do); err == nil {
			t.Error("a second one")
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	b := newBench(t, queue.Config{})
	for name, cfg := range map[string]queue.Config{
		"no store":       {Stream: b.stream, Worker: "me"},
		"no stream":      {DB: b.db, Worker: "me"},
		"no worker":      {DB: b.db, Stream: b.stream},
		"negative bound": {DB: b.db, Stream: b.stream, Worker: "me", Running: -1},
		"negative grace": {DB: b.db, Stream: b.stream, Worker: "me", Grace: -1},
	} {
		if _, err := queue.Open(t.Context(), cfg); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}
