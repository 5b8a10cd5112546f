package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/silk-sandbox/silk/queue"
)

func (b *bench) position(run string, want int, wantETA time.Duration) {
	b.t.Helper()
	position, eta, ok := b.Position(run)
	if position != want || ok != (want > 0) || ok && eta != wantETA {
		b.t.Errorf("%s has position %d, eta %v, ok %t; want %d, %v", run, position, eta, ok, want, wantETA)
	}
}

func TestPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 2})
		b.work()
		b.submit("a", "a1")
		b.start("a1")
		b.submit("a", "a2")
		b.start("a2")
		b.submit("a", "a3", "a4")
		b.submit("b", "b1")
		b.put(queue.Submission{Run: "p1", Token: "a", Pending: true})
		b.position("b1", 1, -1)
		b.position("a3", 2, -1)
		b.position("a4", 3, -1)
		b.position("a1", 0, 0)
		b.position("p1", 0, 0)
		b.position("unknown", 0, 0)
		<-time.After(10 * time.Second)
		b.let("a1")
		b.start("b1")
		b.position("a3", 1, 5*time.Second) // two at once, 10 s each
		b.position("a4", 2, 10*time.Second)
		b.let("a2", "b1", "a3", "a4")
	})
}

// A token with a quota waits for itself, however much room the host has.
func TestPositionBehindTheQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 8, TokenRunning: 1})
		b.work()
		b.submit("a", "a1")
		b.start("a1")
		<-time.After(10 * time.Second)
		b.let("a1")
		synctest.Wait()
		b.submit("a", "a2", "a3", "a4")
		b.start("a2")
		b.position("a3", 1, 10*time.Second)
		b.position("a4", 2, 20*time.Second)
		b.let("a2", "a3", "a4")
	})
}

func TestEstimateAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1})
		b.work()
		b.submit("a", "a1")
		b.start("a1")
		<-time.After(10 * time.Second)
		b.let("a1")
		synctest.Wait()
		b.halt()
		b.reopen(queue.Config{Running: 1})
		b.submit("a", "a2", "a3")
		b.position("a2", 1, 0)
		b.position("a3", 2, 10*time.Second)
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1})
		b.work()
		b.submit("a", "a1", "a2", "a3", "a4")
		b.start("a1")
		<-time.After(time.Minute)
		changes, stop := b.Watch("a3")
		defer stop()
		other, stopOther := b.Watch("a4")
		defer stopOther()
		heard := func(want bool) {
			t.Helper()
			synctest.Wait()
			select {
			case _, open := <-changes:
				if !want || !open {
					t.Errorf("something came, open %t", open)
				}
			default:
				if want {
					t.Error("nothing came")
				}
			}
		}
		heard(false)
		b.let("a1")
		b.start("a2")
		heard(true)
		n := 0
		for _, run := range names("b%d", 50) { // fifty changes in 50 ms are two at most
			b.submit("b", run)
			<-time.After(time.Millisecond)
			select {
			case <-changes:
				n++
			default:
			}
		}
		<-time.After(queue.NotifyEvery)
		heard(true) // of the last ones
		if n > 2 {
			t.Errorf("it was told %d times", n)
		}
		b.cancel("a4", true)
		for open := true; open; {
			_, open = <-other
		}
		b.let("a2")
		b.mu.Lock()
		b.open = true
		b.mu.Unlock()
		b.let("a3")
		for open := true; open; { // it has been taken
			_, open = <-changes
		}
		late, stopLate := b.Watch("a4")
		stopLate()
		stopLate()
		synctest.Wait()
		select {
		case <-late:
			t.Error("what is watched no longer heard something")
		default:
		}
	})
}
