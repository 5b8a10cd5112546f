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
