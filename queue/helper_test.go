package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/queuetest"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// bench is a queue over a new store and a stream in memory, whose runs end when the test says so.
type bench struct {
	*queue.Queue
	t      *testing.T
	db     *store.DB
	stream *queuetest.Stream

	mu      sync.Mutex
	started []string
	gates   map[string]chan struct{} // closed: the run may end
	causes  map[string]error         // why the context of a run was done
	news    chan string              // runs, as they start
	failed  chan error               // of Done
	open    bool                     // runs end at once
	stop    context.CancelFunc
	stopped chan struct{}
}

func newBench(t *testing.T, cfg queue.Config) *bench {
	t.Helper()
	db, err := storetest.Open(t.Context(), filepath.Join(t.TempDir(), store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{
		t: t, db: db, stream: new(queuetest.Stream), gates: map[string]chan struct{}{}, causes: map[string]error{},
		news: make(chan string, 10000),
	}
	b.reopen(cfg)
	return b
}

// reopen opens another queue over the same store.
func (b *bench) reopen(cfg queue.Config) {
	b.t.Helper()
	cfg.DB, cfg.Stream = b.db, b.stream
	if cfg.Worker == "" {
		cfg.Worker = "me"
	}
	cfg.Logger = slog.New(slog.NewTextHandler(b.t.Output(), nil))
	q, err := queue.Open(b.t.Context(), cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { // before the store
		b.halt()
		if err := q.Close(); err != nil {
			b.t.Error(err)
		}
	})
	b.Queue = q
}

func (b *bench) gate(run string) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gates[run] == nil {
		b.gates[run] = make(chan struct{})
	}
	return b.gates[run]
}

// let lets runs end.
func (b *bench) let(runs ...string) {
	for _, run := range runs {
		close(b.gate(run))
	}
}

// work starts Work; halt stops it and waits.
func (b *bench) work() {
	ctx, stop := context.WithCancel(context.WithoutCancel(b.t.Context()))
	b.stop, b.stopped = stop, make(chan struct{})
	go func() {
		defer close(b.stopped)
		if err := b.Work(ctx, b.do); err != nil {
			b.t.Error(err)
		}
	}()
}

func (b *bench) halt() {
	if b.stop != nil {
		b.stop()
		<-b.stopped
		b.stop = nil
	}
}

func (b *bench) do(ctx context.Context, e queue.Entry) error {
	if err := b.OnDisk(e.Run); err != nil && !errors.Is(err, queue.ErrNotFound) { // another queue's
		return err
	}
	b.mu.Lock()
	b.started = append(b.started, e.Run)
	open := b.open
	b.mu.Unlock()
	b.news <- e.Run
	if !open {
		select {
		case <-b.gate(e.Run):
		case <-ctx.Done():
			b.mu.Lock()
			b.causes[e.Run] = context.Cause(ctx)
			b.mu.Unlock()
		}
	}
	err := b.Done(context.WithoutCancel(ctx), e.Run, nil)
	if err != nil && b.failed != nil {
		b.failed <- err
	}
	return err
}

// start waits until the next runs have started and checks which.
func (b *bench) start(want ...string) {
	b.t.Helper()
	for _, w := range want {
		if got := <-b.news; got != w {
			b.t.Fatalf("%s started, want %s", got, w)
		}
	}
}

func (b *bench) submit(token string, runs ...string) {
	b.t.Helper()
	for _, run := range runs {
		b.put(queue.Submission{Run: run, Token: token, Hash: "h", Request: []byte(`{}`)})
	}
}

func (b *bench) put(s queue.Submission) queue.Entry {
	b.t.Helper()
	e, existed, err := b.Submit(b.t.Context(), s, nil)
	if err != nil || existed {
		b.t.Fatalf("submit %s: existed %t, %v", s.Run, existed, err)
	}
	return e
}

func (b *bench) state(run string, want queue.State) queue.Entry {
	b.t.Helper()
	e, err := b.Get(b.t.Context(), run)
	if err != nil {
		b.t.Fatal(err)
	}
	if e.State != want {
		b.t.Errorf("%s is %s, want %s", run, e.State, want)
	}
	return e
}

// ended checks that runs have ended.
func (b *bench) ended(runs ...string) {
	b.t.Helper()
	for _, run := range runs {
		b.state(run, queue.Ended)
	}
}

func names(format string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func nothing(*sql.Tx) error { return nil }
