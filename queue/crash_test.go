package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/jetstream"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// host is what a queue stands on.
type host struct {
	dir    string
	db     *store.DB
	stream *jetstream.Stream
}

func (h *host) streamDir() string { return filepath.Join(h.dir, "stream") }

func startHost(ctx context.Context, dir string, cfg queue.Config) (_ *host, _ *queue.Queue, err error) {
	h := &host{dir: dir}
	if h.db, err = storetest.Open(ctx, filepath.Join(dir, store.FileName)); err != nil {
		return nil, nil, err
	}
	if h.stream, err = jetstream.Open(ctx, jetstream.Config{Dir: h.streamDir(), Logger: cfg.Logger}); err != nil {
		return nil, nil, errors.Join(err, h.db.Close())
	}
	cfg.DB, cfg.Stream = h.db, h.stream
	q, err := queue.Open(ctx, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, h.stream.Close(), h.db.Close())
	}
	return h, q, nil
}

func (h *host) close(q *queue.Queue) error {
	return errors.Join(q.Close(), h.stream.Close(), h.db.Close())
}

// end ends a run as a service does: with something that it writes in the same transaction.
func end(ctx context.Context, q *queue.Queue, run, how string) error {
	return q.Done(ctx, run, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO sessions VALUES (?, '', ?, 1)", run, how)
		return err
	})
}

// crash is what was on the disk at one step, and what the world had seen by then.
type crash struct {
	name     string
	dir      string
	accepted []string // Submit had returned
	executed []string // the function had been called
	ended    []string // Done had returned
}

// recorder makes a copy of the disk at every step: what a kill at that moment leaves.
type recorder struct {
	t *testing.T
	h *host

	mu      sync.Mutex
	crashes []*crash
	now     crash
}

func (r *recorder) note(list *[]string, run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, run)
}

func (r *recorder) step(step, run string) {
	if r.h == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &crash{
		name: fmt.Sprintf("%d %s %s", len(r.crashes), run, step), dir: filepath.Join(r.t.TempDir(), fmt.Sprint(len(r.crashes))),
		accepted: slices.Clone(r.now.accepted), executed: slices.Clone(r.now.executed), ended: slices.Clone(r.now.ended),
	}
	stop := errors.New("nothing was written")
	err := r.h.db.Update(context.Background(), func(*sql.Tx) error { // nobody writes the table meanwhile
		if err := copyTree(c.dir, r.h.dir); err != nil {
			return err
		}
		if err := storetest.Copy(context.Background(), filepath.Join(r.h.dir, store.FileName), filepath.Join(c.dir, store.FileName)); err != nil {
			return err
		}
		return stop
	})
	if !errors.Is(err, stop) {
		r.t.Error(err)
	}
	r.crashes = append(r.crashes, c)
}

// copyTree copies what is there; the stream goes on writing, so its files may come and go.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if e.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
}

// TestCrashAtEveryStep runs a day of a server, with a copy of the disk at each step, and starts another server on each copy:
// nothing that was accepted is lost, run twice or left.
func TestCrashAtEveryStep(t *testing.T) {
	testenv.NoLeaks(t)
	r := &recorder{t: t}
	h, q, err := startHost(t.Context(), t.TempDir(), queue.Config{Worker: "first", Running: 2, Logger: slog.New(slog.DiscardHandler)}.WithStep(r.step))
	if err != nil {
		t.Fatal(err)
	}
	r.h = h
	submit := func(s queue.Submission) {
		t.Helper()
		if _, _, err := q.Submit(t.Context(), s, nil); err != nil {
			t.Fatal(err)
		}
		r.note(&r.now.accepted, s.Run)
	}
	submit(queue.Submission{Run: "a1", Token: "a", Key: "k-a1"})
	submit(queue.Submission{Run: "a2", Token: "a", Key: "k-a2"})
	submit(queue.Submission{Run: "b1", Token: "b", Key: "k-b1"})
	submit(queue.Submission{Run: "p1", Token: "b", Key: "k-p1", Pending: true})
	submit(queue.Submission{Run: "c1", Token: "c", Key: "k-c1"})
	if waiting, err := q.Cancel(t.Context(), "c1"); err != nil || !waiting {
		t.Fatal(waiting, err)
	}
	if err := end(t.Context(), q, "c1", "canceled"); err != nil {
		t.Fatal(err)
	}
	r.note(&r.now.ended, "c1")
	if err := q.Release(t.Context(), "p1", nil); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped, ended := make(chan error), make(chan struct{}, 10)
	go func() {
		stopped <- q.Work(ctx, func(ctx context.Context, e queue.Entry) error {
			if err := q.OnDisk(e.Run); err != nil {
				return err
			}
			r.note(&r.now.executed, e.Run)
			r.step("running", e.Run)
			if err := end(ctx, q, e.Run, "ran"); err != nil {
				return err
			}
			r.note(&r.now.ended, e.Run)
			ended <- struct{}{}
			return nil
		})
	}()
	submit(queue.Submission{Run: "a3", Token: "a", Key: "k-a3"})
	for range 5 {
		<-ended
	}
	stop()
	if err := errors.Join(<-stopped, h.close(q)); err != nil {
		t.Fatal(err)
	}
	steps := map[string]bool{}
	for _, c := range r.crashes {
		steps[strings.SplitN(c.name, " ", 3)[2]] = true
		t.Run(c.name, func(t *testing.T) { c.check(t) })
	}
	for _, step := range []string{
		"submit: committed", "submit: synced", "published", "release: committed", "release: synced", "cancel: committed", "fetched", "turn",
		"taken", "taken: synced", "running", "done: begin", "done: committed", "ran", "acked",
	} {
		if !steps[step] {
			t.Errorf("no crash at %q", step)
		}
	}
}

// check starts a server after the crash.
func (c *crash) check(t *testing.T) {
	h, q, err := startHost(t.Context(), c.dir, queue.Config{Worker: "second", Running: 2, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.close(q); err != nil {
			t.Error(err)
		}
	}()
	lost, err := q.Lost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	how := map[string]string{}
	for _, e := range lost {
		how[e.Run] = "host restarted"
		if e.Waiting() {
			how[e.Run] = "canceled"
		}
		if err := end(t.Context(), q, e.Run, how[e.Run]); err != nil {
			t.Error(err)
		}
	}
	// Clients that had no answer ask again.
	for _, run := range []string{"a1", "a2", "b1", "a3"} {
		e, existed, err := q.Submit(t.Context(), queue.Submission{Run: run + "-again", Token: run[:1], Key: "k-" + run}, nil)
		if err != nil || existed && e.Run != run || !existed && slices.Contains(c.accepted, run) {
			t.Errorf("%s asked for again: %s, existed %t, %v", run, e.Run, existed, err)
		}
	}
	if e, err := q.Get(t.Context(), "p1"); err == nil && e.State == queue.Pending {
		if err := q.Release(t.Context(), "p1", nil); err != nil {
			t.Error(err)
		}
	}
	runs := map[string]int{}
	for _, run := range c.executed {
		runs[run]++
	}
	var mu sync.Mutex
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	stopped := make(chan error)
	go func() {
		stopped <- q.Work(ctx, func(ctx context.Context, e queue.Entry) error {
			if err := q.OnDisk(e.Run); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			runs[e.Run]++
			err := end(context.WithoutCancel(ctx), q, e.Run, "ran")
			if n := open(t, h); n == 0 {
				stop()
			}
			return err
		})
	}()
	if open(t, h) == 0 {
		stop()
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if n := open(t, h); n > 0 {
		t.Errorf("%d runs have not ended", n)
	}
	for _, run := range c.accepted {
		if e, err := q.Get(t.Context(), run); err != nil || e.State != queue.Ended {
			t.Errorf("%s was accepted: %v, %s", run, err, e.State)
		}
	}
	for run, n := range runs {
		if n > 1 {
			t.Errorf("%s was executed %d times", run, n)
		}
	}
	for run, what := range how {
		if what == "canceled" && runs[run] > 0 {
			t.Errorf("%s was canceled and executed", run)
		}
		if slices.Contains(c.ended, run) {
			t.Errorf("%s had ended and was lost", run)
		}
	}
	if all, err := h.stream.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("the stream still has %v, %v", all, err)
	}
}

// open counts the rows that have not ended.
func open(t *testing.T, h *host) (n int) {
	t.Helper()
	if err := h.db.QueryRow("SELECT count(*) FROM requests WHERE state <> 'ended'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
