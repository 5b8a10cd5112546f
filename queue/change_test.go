package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/silk-sandbox/silk/queue"
)

func (b *bench) cancel(run string, wantWaiting bool) {
	b.t.Helper()
	waiting, err := b.Cancel(b.t.Context(), run)
	if err != nil || waiting != wantWaiting {
		b.t.Errorf("cancel %s: waiting %t, %v; want waiting %t", run, waiting, err, wantWaiting)
	}
}

func TestCancelOfARunThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1})
		b.work()
		b.submit("a", "a1", "a2", "a3")
		b.start("a1")
		b.cancel("a2", true)
		if e := b.state("a2", queue.Queued); !e.Canceled {
			t.Error("its row does not say so")
		}
		b.let("a1")
		b.start("a3")
		b.cancel("a2", true) // whoever was told first may have died
		if err := b.Done(t.Context(), "a2", nil); err != nil {
			t.Fatal(err)
		}
		_, err := b.Cancel(t.Context(), "a2")
		wantErr(t, err, queue.ErrEnded)
		b.let("a3")
		synctest.Wait()
		b.ended("a1", "a2", "a3")
		if all, _ := b.stream.List(t.Context()); len(all) > 0 {
			t.Errorf("the stream has %v", all)
		}
		if len(b.started) != 2 {
			t.Errorf("started %v", b.started)
		}
	})
}

func TestCancelOfARunThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1})
		b.work()
		b.submit("a", "a1")
		b.start("a1")
		b.cancel("a1", false)
		synctest.Wait()
		b.state("a1", queue.Ended)
		wantErr(t, b.causes["a1"], queue.ErrCanceled)
		_, err := b.Cancel(t.Context(), "a1")
		wantErr(t, err, queue.ErrEnded)
		_, err = b.Cancel(t.Context(), "unknown")
		wantErr(t, err, queue.ErrNotFound)
	})
}

// A cancelation that comes at any step of a start either keeps the function from being called or reaches its context.
func TestCancelAtEveryStep(t *testing.T) {
	for _, step := range []string{"fetched", "turn", "taken", "taken: synced", "started", "ran", "acked"} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b *bench
				var waiting bool
				var err error
				cfg := queue.Config{Running: 1}.WithStep(func(s, run string) {
					if s == step {
						waiting, err = b.Cancel(context.Background(), run)
					}
				})
				b = newBench(t, cfg)
				b.open = step == "ran" || step == "acked"
				b.work()
				b.submit("a", "a1")
				if step == "started" {
					b.start("a1")
					waiting, err = b.Cancel(t.Context(), "a1")
				}
				synctest.Wait()
				switch step {
				case "fetched", "turn":
					if err != nil || !waiting || len(b.started) > 0 {
						t.Errorf("waiting %t, %v, started %v", waiting, err, b.started)
					}
					b.state("a1", queue.Queued)
				case "ran", "acked":
					wantErr(t, err, queue.ErrEnded)
				default:
					if err != nil || waiting {
						t.Errorf("waiting %t, %v", waiting, err)
					}
					wantErr(t, b.causes["a1"], queue.ErrCanceled)
					b.state("a1", queue.Ended)
				}
			})
		})
	}
}

// A run that is ended between its turn and its start, as a denied one may be, does not start.
func TestDoneAtTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = newBench(t, queue.Config{Running: 1}.WithStep(func(step, run string) {
			if step == "turn" && run == "a1" {
				if err := b.Done(context.Background(), run, nil); err != nil {
					t.Error(err)
				}
			}
		}))
		b.work()
		b.submit("a", "a1", "a2")
		b.start("a2")
		b.let("a2")
		synctest.Wait()
		b.ended("a1", "a2")
		b.listed()
	})
}

func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1})
		b.work()
		b.put(queue.Submission{Run: "p1", Token: "a", Pending: true})
		b.put(queue.Submission{Run: "p2", Token: "a", Pending: true})
		b.put(queue.Submission{Run: "p3", Token: "a", Pending: true})
		synctest.Wait()
		if len(b.started) > 0 {
			t.Fatalf("%v started", b.started)
		}
		called := 0
		also := func(*sql.Tx) error { called++; return nil }
		for range 2 {
			if err := b.Release(t.Context(), "p1", also); err != nil {
				t.Fatal(err)
			}
		}
		b.start("p1")
		if err := b.Release(t.Context(), "p1", also); err != nil || called != 1 {
			t.Errorf("%v; also was called %d times, want once", err, called)
		}
		b.let("p1")
		synctest.Wait()
		wantErr(t, b.Release(t.Context(), "p1", also), queue.ErrEnded)
		wantErr(t, b.Release(t.Context(), "unknown", also), queue.ErrNotFound)
		b.cancel("p2", true)
		wantErr(t, b.Release(t.Context(), "p2", also), queue.ErrCanceled)
		boom := errors.New("boom")
		wantErr(t, b.Release(t.Context(), "p3", func(*sql.Tx) error { return boom }), boom)
		synctest.Wait()
		b.state("p3", queue.Pending)
		if called != 1 || len(b.started) != 1 {
			t.Errorf("also was called %d times, started %v", called, b.started)
		}
	})
}

func TestDone(t *testing.T) {
	b := newBench(t, queue.Config{})
	b.submit("a", "a1")
	boom := errors.New("boom")
	wantErr(t, b.Done(t.Context(), "a1", func(*sql.Tx) error { return boom }), boom)
	b.state("a1", queue.Queued)
	if err := b.Done(t.Context(), "a1", nothing); err != nil {
		t.Fatal(err)
	}
	wantErr(t, b.Done(t.Context(), "a1", func(*sql.Tx) error { t.Error("also was called"); return nil }), queue.ErrEnded)
	wantErr(t, b.Done(t.Context(), "unknown", nil), queue.ErrNotFound)
}

// Of many that end a run, one does.
func TestDoneManyAtOnce(t *testing.T) {
	b := newBench(t, queue.Config{})
	b.submit("a", "a1")
	errs, written := make(chan error, 20), 0
	for range 20 {
		go func() { errs <- b.Done(t.Context(), "a1", func(*sql.Tx) error { written++; return nil }) }() // transactions take turns
	}
	won := 0
	for range 20 {
		if err := <-errs; err == nil {
			won++
		} else {
			wantErr(t, err, queue.ErrEnded)
		}
	}
	if won != 1 || written != 1 {
		t.Errorf("%d ended it, also was called %d times", won, written)
	}
}
