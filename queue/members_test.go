package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/queuetest"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// server is one of several that share a table, each with a stream of its own.
type server struct {
	*bench

	members *queue.Members
	left    chan error // what Members.Run returned
	die     context.CancelFunc
	adopted []string
}

// newServer starts a server over the table of path. kill ends it without a word.
func newServer(t *testing.T, path, id string, cfg queue.Config) *server {
	t.Helper()
	db, err := storetest.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &server{left: make(chan error, 4), bench: &bench{
		t: t, db: db, stream: new(queuetest.Stream), gates: map[string]chan struct{}{}, causes: map[string]error{}, news: make(chan string, 10000),
	}}
	s.join(id)
	cfg.Own, cfg.Worker, cfg.Alive = true, id, func(id string) bool {
		s.mu.Lock()
		members := s.members // another one after join
		s.mu.Unlock()
		return members.Alive(id)
	}
	cfg.Adopt = func(_ context.Context, e queue.Entry) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.adopted = append(s.adopted, e.Run)
	}
	s.reopen(cfg)
	t.Cleanup(func() { s.die() })
	return s
}

// join beats under an id until die.
func (s *server) join(id string) {
	s.t.Helper()
	members, err := queue.Join(s.t.Context(), queue.MembersConfig{DB: s.db, ID: id, Name: "host", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, die := context.WithCancel(context.WithoutCancel(s.t.Context()))
	s.mu.Lock()
	s.members, s.die = members, die
	s.mu.Unlock()
	go func() { s.left <- members.Run(ctx) }()
}

// A server runs what it has accepted, and nothing of others that live; it takes over what waits for one that is dead.
func TestServersShareATable(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, store.FileName)
		var ended []string
		var b *server
		a := newServer(t, path, "A", queue.Config{Running: 1})
		b = newServer(t, path, "B", queue.Config{Running: 1, End: func(ctx context.Context, e queue.Entry) {
			ended = append(ended, e.Run)
			if err := b.Done(ctx, e.Run, nil); err != nil {
				t.Error(err)
			}
		}})
		a.work()
		b.work()
		a.submit("t", "a1", "a2")
		a.put(queue.Submission{Run: "a3", Token: "t", Pending: true})
		a.start("a1")
		<-time.After(10 * time.Minute) // a2 waits for its server, however long
		if len(b.started) > 0 || len(b.adopted) > 0 || len(ended) > 0 {
			t.Fatalf("B started %v, took over %v, ended %v", b.started, b.adopted, ended)
		}
		if lost, err := b.Lost(t.Context()); err != nil || len(lost) > 0 {
			t.Fatalf("B takes %v for lost, %v", lost, err)
		}
		if err := b.Release(t.Context(), "a3", nil); err != nil { // an owner approves at the other server
			t.Fatal(err)
		}
		a.let("a1")
		a.start("a2")
		if waiting, err := b.Cancel(t.Context(), "a2"); waiting || err != nil { // and cancels there
			t.Fatal(waiting, err)
		}
		a.start("a3")
		if cause := a.causes["a2"]; !errors.Is(cause, queue.ErrCanceled) {
			t.Errorf("a2 ended because of %v", cause)
		}
		a.submit("t", "a4")
		a.put(queue.Submission{Run: "a5", Token: "t", Pending: true})

		a.die() // while a3 runs: nobody hears of it any more
		died := time.Now()
		b.start("a4")
		if after := time.Since(died); after < queue.DeadAfter-queue.BeatEvery || after > queue.DeadAfter+3*queue.BeatEvery {
			t.Errorf("taken over after %s", after)
		}
		b.let("a4")
		<-time.After(time.Minute)
		if !slices.Equal(b.adopted, []string{"a4", "a5"}) || !slices.Equal(ended, []string{"a3"}) {
			t.Errorf("B took over %v and ended %v", b.adopted, ended)
		}
		b.state("a5", queue.Pending)
		// It was cut off, and comes back: what it still runs has ended, and what waited for it is not run again.
		a.let("a3", "a4")
		a.join("A")
		<-time.After(time.Minute)
		b.ended("a1", "a2", "a3", "a4")
		if got := append(slices.Clone(a.started), b.started...); !slices.Equal(got, []string{"a1", "a2", "a3", "a4"}) {
			t.Errorf("started %v", got)
		}
		a.die()
	})
}

// An outage of the database lets nobody die: time in which nobody could beat does not count.
func TestOutageKillsNobody(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, store.FileName)
		a, b := newServer(t, path, "A", queue.Config{}), newServer(t, path, "B", queue.Config{})
		<-time.After(time.Minute)
		if a.members.Alive("nobody") {
			t.Error("one that was never there lives")
		}
		if _, err := a.db.Exec("ALTER TABLE servers RENAME TO away"); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Minute)
		if !a.members.Alive("nobody") {
			t.Error("nobody can be seen, and one that was not seen is dead")
		}
		if !a.members.Alive("B") || !b.members.Alive("A") {
			t.Error("dead in the outage")
		}
		if _, err := a.db.Exec("ALTER TABLE away RENAME TO servers"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if !a.members.Alive("B") || !b.members.Alive("A") || !a.members.Alive("A") {
			t.Error("dead after the outage")
		}
		if a.members.Alive("nobody") {
			t.Error("one that was never there lives")
		}
		b.die()
		<-time.After(queue.DeadAfter + 2*queue.BeatEvery)
		if a.members.Alive("B") {
			t.Error("B lives")
		}
		a.die()
	})
}

// A copy of a state directory has the id of its original: the first of the two ends.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, store.FileName)
		a := newServer(t, path, "A", queue.Config{})
		second := newServer(t, path, "A", queue.Config{})
		if err := <-a.left; !errors.Is(err, queue.ErrReplaced) {
			t.Errorf("the first one ends with %v", err)
		}
		second.die()
		if err := <-second.left; err != nil {
			t.Errorf("the second one ends with %v", err)
		}
	})
}

// Servers that take each other for dead all the time still execute nothing twice, and end everything once.
func TestNothingRunsTwice(t *testing.T) {
	const servers, runs = 3, 30
	path := filepath.Join(t.TempDir(), store.FileName)
	var mu sync.Mutex
	times := map[string]int{}
	var all []*server
	for i := range servers {
		cfg := queue.Config{Running: 2, Queued: servers * runs, TokenQueued: servers * runs}
		s := newServer(t, path, fmt.Sprint("S", i), cfg)
		cfg.Own, cfg.Worker, cfg.Alive = true, fmt.Sprint("S", i), func(string) bool { return false }
		s.halt()
		s.reopen(cfg)
		all = append(all, s)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var working, done sync.WaitGroup
	done.Add(servers * runs)
	for _, s := range all {
		working.Go(func() {
			err := s.Work(ctx, func(ctx context.Context, e queue.Entry) error {
				mu.Lock()
				times[e.Run]++
				mu.Unlock()
				err := s.Done(ctx, e.Run, nil)
				done.Done()
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for i, s := range all {
		for n := range runs {
			s.submit(fmt.Sprint("t", n%3), fmt.Sprintf("r%d-%d", i, n))
		}
	}
	done.Wait()
	stop()
	working.Wait()
	if len(times) != servers*runs {
		t.Errorf("%d runs, want %d", len(times), servers*runs)
	}
	for run, n := range times {
		if n != 1 {
			t.Errorf("%s ran %d times", run, n)
		}
	}
}
