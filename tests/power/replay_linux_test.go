package power_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/internal/disktrace"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/jetstream"
	"github.com/silk-sandbox/silk/queue/queuetest"
	"github.com/silk-sandbox/silk/store"
)

// replayEnv has the directory of the traced server.
const replayEnv = "SILK_POWER_TEST_DIR"

// index says which file SQLite maps, and makes anew from the log when nobody has it.
func index(name string) bool { return strings.HasSuffix(name, "-shm") }

// say tells the world what it can rely on from now on, as an answer of a server does.
func say(what, run string) { os.Stdout.WriteString(what + " " + run + "\n") }

// event has a fact about a run written into the audit trail, in the transaction that makes it one.
func event(ctx context.Context, run string, name audit.Name) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		e, err := audit.New(run, name, time.Now(), map[string]any{"intentId": run})
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, &e)
	}
}

// traced is the server whose files are recorded: two days of it, with a stop between them.
func traced(ctx context.Context, dir string) error {
	for day := range 2 {
		if err := tracedDay(ctx, dir, day); err != nil {
			return err
		}
	}
	return nil
}

const (
	tracedTokens = 3
	tracedRuns   = 4 // of each token on each day
)

func tracedDay(ctx context.Context, dir string, day int) error {
	db, err := store.Open(ctx, filepath.Join(dir, store.FileName))
	if err != nil {
		return err
	}
	stream, err := jetstream.Open(ctx, jetstream.Config{Dir: filepath.Join(dir, "stream")})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	q, err := queue.Open(ctx, queue.Config{DB: db, Stream: stream, Worker: "first", Running: 2})
	if err != nil {
		return errors.Join(err, stream.Close(), db.Close())
	}
	var left atomic.Int32
	left.Add(tracedTokens * tracedRuns)
	work, stop := context.WithCancel(ctx)
	defer stop()
	ended := func() {
		if left.Add(-1) == 0 {
			stop()
		}
	}
	var group errgroup.Group
	for n := range tracedTokens {
		group.Go(func() error {
			for i := range tracedRuns {
				if err := tracedClient(ctx, q, fmt.Sprintf("t%d", n), fmt.Sprintf("t%d-%d-%d", n, day, i), i, ended); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		return q.Work(work, func(ctx context.Context, e queue.Entry) error {
			if err := q.OnDisk(e.Run); err != nil {
				return err
			}
			say("ran", e.Run)
			ctx = context.WithoutCancel(ctx)
			if err := q.Done(ctx, e.Run, event(ctx, e.Run, audit.SandboxCompleted)); err != nil {
				return err
			}
			say("ended", e.Run)
			ended()
			return nil
		})
	})
	return errors.Join(group.Wait(), q.Close(), stream.Close(), db.Close())
}

// tracedClient asks for one run. The second of a token waits for an approval, the third is canceled.
func tracedClient(ctx context.Context, q *queue.Queue, token, run string, i int, ended func()) error {
	say("asks", run)
	s := queue.Submission{Run: run, Token: token, Key: run, Request: []byte(strings.Repeat("x", 3000)), Pending: i == 1}
	if _, _, err := q.Submit(ctx, s, event(ctx, run, audit.ApprovalRequested)); err != nil {
		return err
	}
	say("accepted", run)
	switch i {
	case 1:
		if err := q.Release(ctx, run, event(ctx, run, audit.ApprovalGranted)); err != nil {
			return err
		}
		say("released", run)
	case 2:
		waiting, err := q.Cancel(ctx, run)
		if err != nil && !errors.Is(err, queue.ErrEnded) {
			return err
		}
		if waiting {
			say("canceled", run)
			if err := q.Done(ctx, run, event(ctx, run, audit.SandboxError)); err != nil {
				return err
			}
			say("ended", run)
			ended()
		}
	}
	return nil
}

// TestEveryPrefixOfTheDisk records a server's writes and syncs in their order, and starts another server on what each prefix of
// them leaves: after a kill, after the worst power loss, and after one that leaves some of what was not synced. Whatever
// the first one had said by then is true.
func TestEveryPrefixOfTheDisk(t *testing.T) {
	if dir := os.Getenv(replayEnv); dir != "" {
		if err := traced(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		return
	}
	testenv.Require(t, testenv.Strace)
	r := newReplay(t)
	at := map[int]bool{}
	for _, moment := range r.trace.Syncs {
		at[moment] = true
		at[moment-1] = true // and had it not come
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		at[r.trace.Changes[random.IntN(len(r.trace.Changes))]] = true
	}
	r.all(slices.Sorted(maps.Keys(at)), 8)
	t.Logf("%d moments of %d changes and %d syncs; %d different states, %d of them with the stream's own server", len(at), len(r.trace.Changes), len(r.trace.Syncs), len(r.done), r.streams)
	for _, fault := range r.faults {
		t.Error(fault)
	}
}

// TestEveryPrefixFindsAMissingSync is the test of the test above: had the log of the database never been synced, the server would
// have said what is not true.
func TestEveryPrefixFindsAMissingSync(t *testing.T) {
	testenv.Require(t, testenv.Strace)
	r := newReplay(t)
	r.trace.Unsync(store.FileName + "-wal")
	var at []int
	for _, s := range r.trace.Said {
		at = append(at, s.At)
	}
	r.all(at, 0)
	for _, want := range []string{"was accepted and is lost", "had begun and is queued"} {
		if !slices.ContainsFunc(r.faults, func(fault string) bool { return strings.Contains(fault, want) }) {
			t.Errorf("nobody notices that a run %s: %d faults", want, len(r.faults))
		}
	}
}

// replay checks the states of one trace.
type replay struct {
	t     *testing.T
	trace *disktrace.Trace
	dir   string // for states

	mu      sync.Mutex
	done    map[string]bool // by digest and what had been said
	streams int
	faults  []string
}

func newReplay(t *testing.T) *replay {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), replayEnv+"="+dir)
	trace, err := disktrace.Record(t.Context(), dir, index, env, os.Args[0], "-test.run=^TestEveryPrefixOfTheDisk$", "-test.timeout=60s")
	if err != nil {
		t.Fatal(err)
	}
	last, err := disktrace.Read(dir, index)
	if err != nil {
		t.Fatal(err)
	}
	if got := trace.Killed(trace.Moments); got.Sum() != last.Sum() {
		t.Fatalf("the trace ends with other files than the server: %v, %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(last)))
	}
	r := &replay{t: t, trace: trace, dir: t.TempDir(), done: map[string]bool{}}
	if testenv.Probe(testenv.Root) == nil {
		r.dir = testenv.SmallDisk(t, "1g") // where syncs cost nothing
	}
	return r
}

// all checks the states at some moments. Each so many-th is checked with the stream that the server had; the others with
// one in memory, which has nothing: the table is the truth.
func (r *replay) all(moments []int, each int) {
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i, at := range moments {
		if r.t.Context().Err() != nil {
			break
		}
		own := each > 0 && i%each == 0
		random := rand.New(rand.NewPCG(uint64(at), 0))
		for kind, state := range map[string]disktrace.State{
			"killed": r.trace.Killed(at), "power loss": r.trace.PowerLoss(at), "torn": r.trace.Torn(at, random),
		} {
			group.Go(func() error {
				r.one(fmt.Sprintf("%s at %d", kind, at), at, state, own)
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		r.t.Error(err)
	}
}

func (r *replay) one(name string, at int, state disktrace.State, own bool) {
	said, n := r.said(at)
	id := fmt.Sprint(state.Sum(), n, own)
	r.mu.Lock()
	known := r.done[id]
	r.done[id] = true
	if own && !known {
		r.streams++
	}
	dir := filepath.Join(r.dir, fmt.Sprint(len(r.done)))
	r.mu.Unlock()
	if known {
		return
	}
	err := state.Write(dir)
	if err == nil {
		err = said.check(r.t.Context(), dir, own)
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.faults = append(r.faults, name+": "+err.Error())
	}
}

// promises are the runs that something was said of.
type promises map[string]map[string]bool

func (r *replay) said(at int) (p promises, n int) {
	p = promises{}
	for _, what := range []string{"asks", "accepted", "released", "canceled", "ran", "ended"} {
		p[what] = map[string]bool{}
	}
	for _, s := range r.trace.Said {
		if s.At > at {
			break
		}
		n++
		lines := bufio.NewScanner(strings.NewReader(s.Text))
		for lines.Scan() {
			if what, run, ok := strings.Cut(lines.Text(), " "); ok && p[what] != nil {
				p[what][run] = true
			}
		}
	}
	return p, n
}

// check starts a server on what is in dir.
func (p promises) check(ctx context.Context, dir string, own bool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	db, err := store.Open(ctx, filepath.Join(dir, store.FileName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var sound string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
		return fmt.Errorf("the database is not sound: %s, %w", sound, err)
	}
	if _, err := audit.Verify(ctx, db); err != nil {
		return err
	}
	if err := p.rows(ctx, db); err != nil {
		return err
	}
	var stream queue.Stream = new(queuetest.Stream)
	if own {
		js, err := jetstream.Open(ctx, jetstream.Config{Dir: filepath.Join(dir, "stream")})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, js.Close()) }()
		stream = js
	}
	q, err := queue.Open(ctx, queue.Config{DB: db, Stream: stream, Worker: "second", Running: 4, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	if err := p.finish(ctx, db, q); err != nil {
		return err
	}
	if left, err := stream.List(ctx); err != nil || len(left) > 0 {
		return fmt.Errorf("the stream still has %v: %w", left, err)
	}
	_, err = audit.Verify(ctx, db)
	return err
}

// rows compares the table with what was said.
func (p promises) rows(ctx context.Context, db *store.DB) (err error) {
	rows, err := db.QueryContext(ctx, `SELECT run, state, cancel, (SELECT count(*) FROM audit_events WHERE intent_id = run AND event = 'approval_requested'),
		(SELECT count(*) FROM audit_events WHERE intent_id = run AND event = 'approval_granted'),
		(SELECT count(*) FROM audit_events WHERE intent_id = run AND event IN ('sandbox_completed', 'sandbox_error')) FROM requests`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	there := map[string]bool{}
	for rows.Next() {
		var run string
		var state queue.State
		var canceled bool
		var asked, granted, ended int
		if err := rows.Scan(&run, &state, &canceled, &asked, &granted, &ended); err != nil {
			return err
		}
		there[run] = true
		if !p["asks"][run] {
			fault("%s was never asked for", run)
		}
		if asked != 1 || granted > 1 || ended > 1 || (ended == 1) != (state == queue.Ended) {
			fault("%s is %s, and the trail has %d, %d and %d events of it", run, state, asked, granted, ended)
		}
		waits := state == queue.Pending || state == queue.Queued
		switch {
		case p["ran"][run] && waits:
			fault("%s had begun and is %s", run, state)
		case p["canceled"][run] && waits && !canceled:
			fault("%s was canceled and is %s", run, state)
		case p["released"][run] && (state == queue.Pending || granted != 1):
			fault("%s was released and is %s with %d grants", run, state, granted)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for run := range p["accepted"] {
		if !there[run] {
			fault("%s was accepted and is lost", run)
		}
	}
	return errors.Join(faults...)
}

// finish does what a server does after its start, until nothing is left.
func (p promises) finish(ctx context.Context, db *store.DB, q *queue.Queue) error {
	lost, err := q.Lost(ctx)
	if err != nil {
		return err
	}
	for _, e := range lost {
		if err := q.Done(ctx, e.Run, event(ctx, e.Run, audit.SandboxError)); err != nil {
			return err
		}
	}
	waiting, err := q.Waiting(ctx)
	if err != nil {
		return err
	}
	for _, e := range waiting {
		if e.State == queue.Pending {
			if err := q.Release(ctx, e.Run, event(ctx, e.Run, audit.ApprovalGranted)); err != nil {
				return err
			}
		}
	}
	if len(waiting) > 0 {
		if err := p.work(ctx, q, len(waiting)); err != nil {
			return err
		}
	}
	var open int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM requests WHERE state <> 'ended'").Scan(&open); err != nil || open > 0 {
		return fmt.Errorf("%d runs have not ended: %w", open, err)
	}
	return nil
}

// work runs n runs, each of which must be one that may run.
func (p promises) work(ctx context.Context, q *queue.Queue, n int) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var faults []error
	ran := map[string]bool{}
	err := q.Work(work, func(ctx context.Context, e queue.Entry) error {
		ctx = context.WithoutCancel(ctx)
		err := errors.Join(q.OnDisk(e.Run), q.Done(ctx, e.Run, event(ctx, e.Run, audit.SandboxCompleted)))
		mu.Lock()
		defer mu.Unlock()
		if ran[e.Run] || p["ran"][e.Run] || p["ended"][e.Run] || p["canceled"][e.Run] {
			err = errors.Join(err, fmt.Errorf("%s runs again", e.Run))
		}
		ran[e.Run] = true
		faults = append(faults, err)
		if len(ran) == n {
			stop()
		}
		return nil
	})
	if len(ran) != n {
		faults = append(faults, fmt.Errorf("%d of %d runs that wait have run", len(ran), n))
	}
	return errors.Join(append(faults, err)...)
}
