package queue_test

import (
	"testing"
	"testing/synctest"

	"github.com/silk-sandbox/silk/queue"
)

func TestRunsStartInOrderAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1})
		b.submit("a", "a1", "a2", "a3")
		b.work()
		for _, run := range []string{"a1", "a2", "a3"} {
			b.start(run)
			synctest.Wait()
			e := b.state(run, queue.Running)
			if e.Worker != "me" || e.StartedAt.IsZero() {
				t.Errorf("entry %+v", e)
			}
			b.let(run)
		}
		synctest.Wait()
		b.ended("a1", "a2", "a3")
		if e := b.state("a1", queue.Ended); len(e.Request) != 0 || e.EndedAt.IsZero() {
			t.Errorf("entry %+v", e)
		}
		if all, _ := b.stream.List(t.Context()); len(all) > 0 {
			t.Errorf("the stream still has %v", all)
		}
	})
}

// A token with a thousand runs delays the first one of another by no more than the run that has the slot.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1, Queued: 2000, TokenQueued: 1000})
		b.work()
		b.submit("a", "first")
		b.start("first")
		b.submit("a", names("a%d", 1000)...)
		b.submit("b", "b0", "b1")
		b.position("b0", 1, -1)
		b.let("first")
		b.start("b0")
		b.let("b0")
		b.start("a0")
		b.let("a0")
		b.start("b1")
		b.let("b1")
		b.start("a1")
		b.halt() // its context ends, and those that wait stay
		if waiting, running := b.Depth(); waiting != 998 || running != 0 {
			t.Errorf("%d wait, %d run", waiting, running)
		}
	})
}

func TestQuotaOfAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 8, TokenRunning: 2})
		b.work()
		for _, run := range []string{"a1", "a2", "a3"} {
			b.put(queue.Submission{Run: run, Token: "a"})
		}
		for _, run := range []string{"b1", "b2", "b3"} {
			b.put(queue.Submission{Run: run, Token: "b", MaxRunning: 1})
		}
		synctest.Wait()
		for _, run := range []string{"a1", "a2", "b1"} {
			b.state(run, queue.Running)
		}
		for _, run := range []string{"a3", "b2", "b3"} {
			b.state(run, queue.Queued)
		}
		b.let("b1")
		synctest.Wait()
		b.state("b2", queue.Running)
		b.state("a3", queue.Queued)
		b.let("a1", "a2", "a3", "b2", "b3")
	})
}
