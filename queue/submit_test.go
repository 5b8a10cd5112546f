package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/queue"
)

func TestSubmitKeepsWhatItIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{TokenRunning: 3})
		now := time.Now().Truncate(time.Millisecond)
		got := b.put(queue.Submission{
			Run: "r1", Token: "a", Session: "s", Key: "k", Hash: "h", Request: []byte("{\"\u00e9\":1}"),
			Need: queue.Need{MemoryBytes: 5 << 20, CPUs: 0.5}, MaxRunning: 2,
		})
		want := queue.Entry{
			Run: "r1", Token: "a", Session: "s", Key: "k", Hash: "h", Request: []byte("{\"\u00e9\":1}"), State: queue.Queued,
			Need: queue.Need{MemoryBytes: 5 << 20, CPUs: 0.5}, MaxRunning: 2, AcceptedAt: now, QueuedAt: now,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("returned (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, b.state("r1", queue.Queued)); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
		b.put(queue.Submission{Run: "r2", Token: "a", Hash: "h", Pending: true})
		if e := b.state("r2", queue.Pending); e.MaxRunning != 3 || !e.QueuedAt.IsZero() {
			t.Errorf("entry %+v", e)
		}
	})
}

func TestSubmitRefuses(t *testing.T) {
	b := newBench(t, queue.Config{MemoryBytes: 100, CPUs: 2})
	for name, s := range map[string]queue.Submission{
		"no run":          {Token: "a"},
		"no token":        {Run: "r"},
		"a subject":       {Run: "r", Token: "a.b"},
		"a wildcard":      {Run: "r", Token: "*"},
		"all below":       {Run: "r", Token: ">"},
		"a space":         {Run: "r x", Token: "a"},
		"negative memory": {Run: "r", Token: "a", Need: queue.Need{MemoryBytes: -1}},
		"no number":       {Run: "r", Token: "a", Need: queue.Need{CPUs: math.NaN()}},
		"infinite":        {Run: "r", Token: "a", Need: queue.Need{CPUs: math.Inf(1)}},
		"negative bound":  {Run: "r", Token: "a", MaxQueued: -1},
		"too much memory": {Run: "r", Token: "a", Need: queue.Need{MemoryBytes: 101}},
		"too many cpus":   {Run: "r", Token: "a", Need: queue.Need{CPUs: 2.1}},
	} {
		_, _, err := b.Submit(t.Context(), s, func(*sql.Tx) error { t.Errorf("%s: also was called", name); return nil })
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, big := errors.AsType[*queue.TooBigError](err); big != (s.Need.MemoryBytes > 100 || s.Need.CPUs > 2 && !math.IsInf(s.Need.CPUs, 1)) && name != "infinite" {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := b.Get(t.Context(), "r")
	wantErr(t, err, queue.ErrNotFound)
}

func TestSubmitWritesAllOrNothing(t *testing.T) {
	b := newBench(t, queue.Config{})
	boom := errors.New("boom")
	_, _, err := b.Submit(t.Context(), queue.Submission{Run: "r", Token: "a"}, func(tx *sql.Tx) error {
		if _, err := tx.Exec("INSERT INTO sessions VALUES ('s', 'a', 'n', 1)"); err != nil {
			t.Error(err)
		}
		return boom
	})
	wantErr(t, err, boom)
	if _, err := b.Get(t.Context(), "r"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("the row is there: %v", err)
	}
	if all, _ := b.stream.List(t.Context()); len(all) > 0 {
		t.Errorf("it was published: %v", all)
	}
	if n := b.count("sessions"); n != 0 {
		t.Errorf("%d of what also wrote is there", n)
	}
}

func (b *bench) count(table string) (n int) {
	b.t.Helper()
	if err := b.db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func TestSubmitOfACanceledRequestWritesNothing(t *testing.T) {
	b := newBench(t, queue.Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("gone")
	cancel(why)
	_, _, err := b.Submit(ctx, queue.Submission{Run: "r", Token: "a"}, nil)
	wantErr(t, err, why)
	if n := b.count("requests"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// A client that goes away in the middle leaves either nothing or an accepted run.
func TestSubmitIsFinishedOnceItHasBegun(t *testing.T) {
	b := newBench(t, queue.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	if _, _, err := b.Submit(ctx, queue.Submission{Run: "r", Token: "a"}, func(*sql.Tx) error { cancel(); return nil }); err != nil {
		t.Fatal(err)
	}
	b.state("r", queue.Queued)
	if all, _ := b.stream.List(t.Context()); all["r"] != "a" {
		t.Errorf("it is not published: %v", all)
	}
}

func TestKeys(t *testing.T) {
	b := newBench(t, queue.Config{TokenQueued: 2})
	first := b.put(queue.Submission{Run: "r1", Token: "a", Key: "k", Hash: "h", Request: []byte("{}")})
	again := func(s queue.Submission) (queue.Entry, bool, error) {
		return b.Submit(t.Context(), s, func(*sql.Tx) error { t.Error("also was called"); return nil })
	}
	got, existed, err := again(queue.Submission{Run: "r2", Token: "a", Key: "k", Hash: "h"})
	if err != nil || !existed || !cmp.Equal(got, first) {
		t.Errorf("got %+v, %t, %v; want the first run", got, existed, err)
	}
	_, _, err = again(queue.Submission{Run: "r3", Token: "a", Key: "k", Hash: "other"})
	wantErr(t, err, queue.ErrKeyReused)
	b.put(queue.Submission{Run: "r4", Token: "b", Key: "k", Hash: "other"}) // the key of another token
	b.put(queue.Submission{Run: "r5", Token: "a", Hash: "h"})
	if _, existed, err := again(queue.Submission{Run: "r6", Token: "a", Key: "k", Hash: "h"}); err != nil || !existed {
		t.Errorf("when the queue is full: existed %t, %v", existed, err)
	}
	if err := b.Done(t.Context(), "r1", nil); err != nil {
		t.Fatal(err)
	}
	if e, existed, err := again(queue.Submission{Run: "r7", Token: "a", Key: "k", Hash: "h"}); err != nil || !existed || e.Run != "r1" || e.State != queue.Ended {
		t.Errorf("when it has ended: %+v, existed %t, %v", e, existed, err)
	}
}

func TestManyAtOnceWithOneKey(t *testing.T) {
	b := newBench(t, queue.Config{})
	var all sync.WaitGroup
	var fresh, written atomic.Int32
	runs := make([]string, 20)
	for i := range runs {
		all.Go(func() {
			e, existed, err := b.Submit(t.Context(), queue.Submission{Run: "r" + strconv.Itoa(i), Token: "a", Key: "k", Hash: "h"},
				func(*sql.Tx) error { written.Add(1); return nil })
			if err != nil {
				t.Error(err)
			}
			if !existed {
				fresh.Add(1)
			}
			runs[i] = e.Run
		})
	}
	all.Wait()
	for _, run := range runs {
		if run != runs[0] {
			t.Errorf("several runs: %v", runs)
			break
		}
	}
	if listed, _ := b.stream.List(t.Context()); fresh.Load() != 1 || written.Load() != 1 || b.count("requests") != 1 || len(listed) != 1 {
		t.Errorf("%d were new, also was called %d times, %d rows, stream %v; want 1 of each", fresh.Load(), written.Load(), b.count("requests"), listed)
	}
}

func TestFull(t *testing.T) {
	b := newBench(t, queue.Config{Queued: 5, TokenQueued: 2})
	full := func(s queue.Submission, token string, limit int) {
		t.Helper()
		_, _, err := b.Submit(t.Context(), s, nothing)
		e, ok := errors.AsType[*queue.FullError](err)
		if !ok || e.Token != token || e.Limit != limit || e.RetryAfter != time.Second {
			t.Errorf("got %+v, want full of %q with %d", err, token, limit)
		}
		if _, err := b.Get(t.Context(), s.Run); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("a row is left: %v", err)
		}
	}
	b.put(queue.Submission{Run: "a1", Token: "a"})
	b.put(queue.Submission{Run: "a2", Token: "a", Pending: true}) // waits, too
	full(queue.Submission{Run: "a3", Token: "a"}, "a", 2)
	b.put(queue.Submission{Run: "a4", Token: "a", MaxQueued: 3})
	full(queue.Submission{Run: "a5", Token: "a", MaxQueued: 3}, "a", 3)
	b.put(queue.Submission{Run: "b1", Token: "b"})
	b.put(queue.Submission{Run: "b2", Token: "b"})
	full(queue.Submission{Run: "c1", Token: "c"}, "", 5)
	if err := b.Done(t.Context(), "a2", nil); err != nil {
		t.Fatal(err)
	}
	b.put(queue.Submission{Run: "c1", Token: "c"})
}

func TestRunningOnesDoNotCountAsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 2, TokenQueued: 1})
		b.work()
		b.submit("a", "a1")
		b.start("a1")
		b.submit("a", "a2")
		b.start("a2")
		b.submit("a", "a3")
		if _, _, err := b.Submit(t.Context(), queue.Submission{Run: "a4", Token: "a"}, nil); err == nil {
			t.Error("a second one waits")
		}
		b.let("a1", "a2", "a3")
	})
}

// Of many submissions at once exactly as many are accepted as may wait.
func TestFullCannotBeRacedPast(t *testing.T) {
	b := newBench(t, queue.Config{TokenQueued: 7})
	var all sync.WaitGroup
	var accepted atomic.Int32
	for i := range 30 {
		all.Go(func() {
			_, _, err := b.Submit(t.Context(), queue.Submission{Run: "r" + strconv.Itoa(i), Token: "a"}, nil)
			if err == nil {
				accepted.Add(1)
			} else if _, ok := errors.AsType[*queue.FullError](err); !ok {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if accepted.Load() != 7 || b.count("requests") != 7 {
		t.Errorf("%d accepted, %d rows, want 7", accepted.Load(), b.count("requests"))
	}
}

func TestRetryAfterFollowsTheDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, queue.Config{Running: 1, TokenQueued: 1})
		b.work()
		b.submit("a", "a1")
		b.start("a1")
		<-time.After(20 * time.Second)
		b.let("a1")
		synctest.Wait()
		b.submit("a", "a2")
		b.start("a2")
		b.submit("a", "a3")
		_, _, err := b.Submit(t.Context(), queue.Submission{Run: "a4", Token: "a"}, nil)
		if e, ok := errors.AsType[*queue.FullError](err); !ok || e.RetryAfter != 20*time.Second {
			t.Errorf("got %+v", err)
		}
		b.let("a2", "a3")
	})
}
