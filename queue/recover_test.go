package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/queuetest"
)

func (b *bench) listed(want ...string) {
	b.t.Helper()
	all, err := b.stream.List(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	got := []string{}
	for run := range all {
		got = append(got, run)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		b.t.Errorf("the stream has %v, want %v", got, want)
	}
}

func (b *bench) lost(want ...string) {
	b.t.Helper()
	all, err := b.Lost(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	got := []string{}
	for _, e := range all {
		got = append(got, fmt.Sprint(e.Run, " ", e.State))
	}
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		b.t.Errorf("lost (-want +got):\n%s", diff)
	}
}

// set changes rows behind the queue's back, as another server would.
func (b *bench) set(run, change string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec("UPDATE requests SET "+change+" WHERE run = '"+run+"'", args...); err != nil {
		b.t.Fatal(err)
	}
}

func TestOpenMakesTheStreamAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1})
		b.submit("a", "a1", "a2", "a3", "a4", "a5")
		b.put(queue.Submission{Run: "a6", Token: "a", Pending: true})
		b.set("a2", "state = 'ended'")
		b.set("a3", "cancel = 1")
		b.set("a4", "state = 'running', worker = 'gone'")
		b.stream.Lose("a1")
		for _, run := range []string{"a6", "nobody-knows"} {
			if err := b.stream.Publish(t.Context(), "a", run); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.stream.Publish(t.Context(), "b", "a1"); err != nil { // of another token
			t.Fatal(err)
		}
		b.reopen(queue.Config{Running: 1})
		b.listed("a1", "a5")
		b.lost("a3 queued", "a4 running")
		if waiting, running := b.Depth(); waiting != 2 || running != 0 {
			t.Errorf("%d wait, %d run", waiting, running)
		}
		b.work()
		b.start("a5") // it kept its place in the stream
		b.let("a5")
		b.start("a1")
		b.let("a1")
		for _, run := range []string{"a3", "a4"} {
			if err := b.Done(t.Context(), run, nil); err != nil {
				t.Error(err)
			}
		}
		b.lost()
	})
}

func TestOpenPublishesInOrderWhatAnEmptyStreamLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1})
		for _, run := range []string{"a3", "a1", "a2"} {
			b.submit("a", run)
			<-time.After(time.Second)
		}
		b.stream = new(queuetest.Stream)
		b.reopen(queue.Config{Running: 1})
		b.open = true
		b.work()
		b.start("a3", "a1", "a2")
	})
}

// While the stream takes nothing, runs are accepted; they start when it has recovered.
func TestStreamOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1})
		b.open = true
		b.work()
		b.stream.Fail(errors.New("no space left on device"))
		b.submit("a", "a1", "a2")
		b.submit("b", "b1")
		if n := b.Unsent(); n != 3 {
			t.Errorf("%d are not sent, want 3", n)
		}
		<-time.After(time.Minute)
		if len(b.started) > 0 {
			t.Errorf("%v started", b.started)
		}
		b.cancel("a2", true)
		if err := b.Done(t.Context(), "a2", nil); err != nil {
			t.Fatal(err)
		}
		b.stream.Fail(nil)
		<-time.After(time.Minute)
		b.start("a1", "b1")
		b.ended("a1", "b1", "a2")
		b.listed()
		if n := b.Unsent(); n != 0 {
			t.Errorf("%d are not sent", n)
		}
		if len(b.started) != 2 {
			t.Errorf("started %v", b.started)
		}
	})
}

// A stream that fails while a run ends does not keep it, nor start it again.
func TestStreamFailsAtTheEndOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1})
		b.work()
		b.submit("a", "a1")
		b.start("a1")
		b.stream.Fail(errors.New("down"))
		b.let("a1")
		synctest.Wait()
		b.ended("a1")
		b.stream.Restart()
		b.stream.Fail(nil)
		<-time.After(time.Minute)
		b.listed()
		b.submit("a", "a2")
		b.start("a2")
		b.let("a2")
		if len(b.started) != 2 {
			t.Errorf("started %v", b.started)
		}
	})
}

func TestDeliveredTwiceStartsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 4})
		b.work()
		b.submit("a", "a1")
		b.start("a1")
		b.stream.Restart() // it gives a1 again
		b.submit("a", "a2")
		<-time.After(time.Minute)
		b.start("a2")
		b.let("a1", "a2")
		synctest.Wait()
		b.listed()
		if len(b.started) != 2 {
			t.Errorf("started %v", b.started)
		}
	})
}

// What is running in the table is not run again, whoever has it.
func TestDeliveredWhileItRunsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan string, 10)
		b := newBench(t, queue.Config{})
		cfg := queue.Config{
			Running: 4, Alive: func(worker string) bool { return worker == "alive" },
			End: func(ctx context.Context, e queue.Entry) {
				if err := b.Done(ctx, e.Run, nil); err != nil {
					t.Error(err)
				}
				ended <- e.Run
			},
		}
		b.submit("a", "a1", "a2", "a3")
		b.reopen(cfg)
		b.set("a1", "state = 'running', worker = 'alive'")
		b.set("a2", "state = 'running', worker = 'gone'")
		b.lost("a2 running")
		b.open = true
		b.work()
		b.start("a3")
		if run := <-ended; run != "a2" {
			t.Errorf("%s was to be ended", run)
		}
		<-time.After(time.Minute)
		b.state("a1", queue.Running)
		b.listed("a1") // its worker removes it
		if len(ended)+len(b.started) != 1 {
			t.Errorf("%d more to be ended, started %v", len(ended), b.started)
		}
	})
}

func TestFunctionThatDoesNotEndItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{})
		calls := 0
		b.reopen(queue.Config{Running: 1, End: func(ctx context.Context, e queue.Entry) {
			if calls++; calls < 3 {
				return // it cannot, for now
			}
			if err := b.Done(ctx, e.Run, nil); err != nil {
				t.Error(err)
			}
		}})
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		ran := 0
		go func() {
			stopped <- b.Work(ctx, func(context.Context, queue.Entry) error { ran++; return errors.New("disk full") })
		}()
		b.submit("a", "a1")
		<-time.After(time.Minute)
		b.ended("a1")
		b.listed()
		if calls != 3 || ran != 1 {
			t.Errorf("End was called %d times, want 3; the function %d times, want once", calls, ran)
		}
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

func TestCanceledAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{})
		b.reopen(queue.Config{Running: 1, End: func(ctx context.Context, e queue.Entry) {
			if !e.Canceled || !e.Waiting() {
				t.Errorf("entry %+v", e)
			}
			if err := b.Done(ctx, e.Run, nil); err != nil {
				t.Error(err)
			}
		}})
		b.work()
		b.submit("a", "a1", "a2")
		b.start("a1")
		b.cancel("a2", true)
		<-time.After(queue.PollEvery / 2)
		b.state("a2", queue.Queued) // whoever canceled it has time
		<-time.After(2 * queue.PollEvery)
		b.ended("a2")
		b.let("a1")
	})
}

// Two servers over one table: each sees what the other accepts and cancels.
func TestTwoServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alive := func(string) bool { return true }
		front := newBench(t, queue.Config{Worker: "front", Alive: alive})
		back, err := queue.Open(t.Context(), queue.Config{DB: front.db, Stream: front.stream, Worker: "back", Running: 1, Alive: alive})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- back.Work(ctx, front.do) }()
		front.submit("a", "a1", "a2")
		front.start("a1")
		if e := front.state("a1", queue.Running); e.Worker != "back" {
			t.Errorf("it runs on %s", e.Worker)
		}
		front.cancel("a1", false)
		front.start("a2")
		wantErr(t, front.causes["a1"], queue.ErrCanceled)
		front.let("a2")
		synctest.Wait()
		front.ended("a1", "a2")
		stop()
		if err := errors.Join(<-stopped, back.Close()); err != nil {
			t.Error(err)
		}
	})
}
