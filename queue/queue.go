// Package queue stands between the acceptance of a run and its start: it keeps what was accepted, says whose turn it is,
// and hands each run to a worker once.
//
// # Use
//
// [Open] a [Queue] over the store and a [Stream], [Queue.Submit] runs, and let [Queue.Work] call a function for each when
// its turn has come. That function runs it and calls [Queue.Done] with what it writes of the end. A run that waits can be
// let go ([Queue.Release], after an approval), looked at ([Queue.Position], [Queue.Watch]) and canceled ([Queue.Cancel]);
// one that runs is canceled through the context of the function. After a start, [Queue.Lost] names the runs that somebody
// has to end.
//
// # What is kept
//
// The row in the table requests is the truth. Accepted means that it is committed and on the disk; only then the run is
// published to the stream, which delivers it, and may lose, double or keep anything: Open and a loop in the background
// make it agree with the table again. If the stream cannot take a run now, it is accepted all the same and published later.
//
// A run is never executed twice. Its row becomes running, on the disk, before the function is called, and a row that
// is running is not started again, whatever is delivered: if its worker is gone, its end is a matter for Config.End.
//
// # Whose turn it is
//
// Tokens take turns: each start goes to the next token that has a run waiting and fewer than its MaxRunning running, so
// that a thousand runs of a token delay the first one of another by one start at most. Within a token runs start in the order
// in which they were queued.
//
// A run starts when the host has a slot, and its [Need] fits into what others leave of memory and CPUs. The next one that
// does not fit lets others pass: small runs need not wait for a big one. It waits for not more than 16 of them, though:
// then nothing starts until it has room, which is at most the time that the runs of that moment have left. What needs
// more than the whole host has is refused by Submit; if the host was bigger when it was accepted, it runs alone.
//
// # How much may wait
//
// Config.Queued of the host and MaxQueued of a token bound the runs that were accepted and have not started, those that
// wait for an approval included. They are counted in the transaction that accepts, so they hold against any number of
// submissions at once. The stream has the same bounds, as a second line.
//
// # More than one server
//
// Servers may share a table and a stream. Each sees what others have accepted within two seconds, sees a cancelation of
// what it runs within the same time, and takes over nothing: what a server leaves running when it dies is found by
// Config.Alive.
//
// With Config.Own each runs what it has accepted itself, from a stream of its own, since its clients watch the run there.
// Then what waits for a server that has died is taken over. [Members] says who lives. Quotas of what may wait count over all
// servers; those of what runs, and whose turn it is, are each server's own.
package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/store"
)

// Config says how a queue works. DB, Stream and Worker are required; the zero value of the rest works.
type Config struct {
	DB     *store.DB
	Stream Stream // the caller closes it, after the queue
	Worker string // this server's name in the rows that it runs; no other one that lives may have it

	Running     int     // runs at once; 0: one for each CPU
	Queued      int     // runs that wait; 0: 1000
	MemoryBytes int64   // of all runs at once, as they are limited; 0: not bounded here
	CPUs        float64 // the same; 0: not bounded here

	TokenRunning int // of one token at once; 0: Running
	TokenQueued  int // of one token; 0: 100

	// Own binds what this server accepts to it, until it dies. It is for servers that share the table, and nothing else.
	Own bool
	// Adopt is called with a run that waited for a server that has died, and now waits for this one. nil: nobody needs to know.
	Adopt func(ctx context.Context, e Entry)

	// Grace is how long runs may go on when Work is to stop. 0: they are stopped at once.
	Grace time.Duration
	// Alive says whether another worker may still run what its rows say. nil: no other server shares the table, so none may.
	Alive func(worker string) bool
	// End is called, while Work runs, with a run that nobody else ends: its worker is gone, or its function came back
	// without Done, or it was canceled while it waited and whoever did that has not ended it. It calls Done. One call
	// for a run at a time; one that changes nothing is repeated. nil: only Lost tells of such runs.
	End func(ctx context.Context, e Entry)

	Logger *slog.Logger     // nil: discard
	Now    func() time.Time // nil: time.Now

	step func(step, run string) // tests: called between two steps
	sync func() error           // tests: instead of DB.Sync
}

// Bounds of the defaults, and intervals.
const (
	defaultQueued      = 1000
	defaultTokenQueued = 100

	// KeepEvery is how often a [Delivery] must be kept.
	KeepEvery = 10 * time.Second
	// pollEvery bounds how long what another server did, or what went wrong, stays unseen.
	pollEvery = 2 * time.Second
	// opTimeout bounds one operation that must not be given up with the request that led to it.
	opTimeout = 5 * time.Second
	// nextTimeout bounds the wait for a run, in which none starts.
	nextTimeout = time.Second
)

func (c Config) withDefaults() (Config, error) {
	def := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	def(&c.Running, runtime.NumCPU())
	def(&c.Queued, defaultQueued)
	def(&c.TokenRunning, c.Running)
	def(&c.TokenQueued, defaultTokenQueued)
	if c.MemoryBytes == 0 {
		c.MemoryBytes = unbounded
	}
	if c.CPUs == 0 {
		c.CPUs = unbounded / 1000
	}
	if c.Alive == nil {
		c.Alive = func(string) bool { return false }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.sync == nil && c.DB != nil {
		c.sync = c.DB.Sync
	}
	if c.step == nil {
		c.step = func(string, string) {}
	}
	var faults []error
	if c.DB == nil || c.Stream == nil || c.Worker == "" {
		faults = append(faults, errors.New("DB, Stream and Worker are required"))
	}
	if c.Running < 0 || c.Queued < 0 || c.TokenRunning < 0 || c.TokenQueued < 0 || c.MemoryBytes < 0 || c.CPUs < 0 || c.Grace < 0 {
		faults = append(faults, errors.New("a bound is negative"))
	}
	return c, errors.Join(faults...)
}

// Queue is an open queue. Safe for concurrent use.
type Queue struct {
	cfg Config
	db  *store.DB

	mu       sync.Mutex // guards all below
	schedule schedule
	active   map[string]*active // by run: what this server runs
	watchers map[string]map[*watcher]bool
	accepts  map[string]chan struct{} // runs whose rows are on their way to the disk; closed when they are there, or withdrawn
	average  average
	perToken int // the most runs of one token that the stream must take
	limited  int // what of it the stream was told
	unsent   []sending
	undone   map[string]bool // ended, and perhaps still in the stream
	working  bool
	closed   bool

	wake   chan struct{} // something changed for the dispatcher
	settle chan struct{} // the stream and the table differ
	poll   chan struct{} // look at the table now
	dirty  chan struct{} // positions changed

	stop       context.CancelFunc
	background sync.WaitGroup
}

// sending is a run that was accepted and that the stream does not hold yet.
type sending struct{ token, run string }

// active is a run that this server has taken, or is about to take.
type active struct {
	delivery Delivery // nil: the stream has forgotten it
	cancel   context.CancelCauseFunc
	token    string
	began    time.Time
	taken    bool // the row says so

	disk    chan struct{} // closed when that is on the disk, or diskErr says why not; nil before the row says it
	diskErr error
}

// Open makes stream and table agree and returns the queue. Nothing starts before Work is called. The caller calls Close.
func Open(ctx context.Context, cfg Config) (*Queue, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	q := &Queue{
		cfg: cfg, db: cfg.DB,
		schedule: newSchedule(room{slots: cfg.Running, memoryBytes: cfg.MemoryBytes, milliCPUs: int64(cfg.CPUs * 1000)}),
		active:   map[string]*active{},
		watchers: map[string]map[*watcher]bool{},
		accepts:  map[string]chan struct{}{},
		undone:   map[string]bool{},
		wake:     make(chan struct{}, 1),
		settle:   make(chan struct{}, 1),
		poll:     make(chan struct{}, 1),
		dirty:    make(chan struct{}, 1),
	}
	if err := q.recover(ctx); err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	ctx, q.stop = context.WithCancel(context.WithoutCancel(ctx))
	q.background.Go(func() { q.settleLoop(ctx) })
	q.background.Go(func() { q.notifyLoop(ctx) })
	return q, nil
}

// Close ends what the queue does in the background. Work must have returned. The rows stay as they are.
func (q *Queue) Close() error {
	q.mu.Lock()
	if q.working {
		q.mu.Unlock()
		return errors.New("close queue: it is at work")
	}
	already := q.closed
	q.closed = true
	for run := range q.watchers {
		q.unwatch(run)
	}
	q.mu.Unlock()
	if already {
		return nil
	}
	q.stop()
	q.background.Wait()
	return nil
}

// Get returns one run, or [ErrNotFound].
func (q *Queue) Get(ctx context.Context, run string) (Entry, error) { return entry(ctx, q.db, run) }

// Depth is how many runs wait for their turn, and how many this server runs. Those that wait for an approval are in neither.
func (q *Queue) Depth() (waiting, running int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.schedule.depth(), len(q.active)
}

// Unsent is how many accepted runs the stream could not take yet: above zero for long, something is wrong with it.
func (q *Queue) Unsent() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.unsent)
}

// ring tells the receiver of a channel with room for one that there is something new.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// now is the time of the rows.
func (q *Queue) now() int64 { return q.cfg.Now().UnixMilli() }

// change runs one transaction. A request that has gone away begins none, but one that goes away later does not cut it off.
func (q *Queue) change(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	return q.db.Update(ctx, func(tx *sql.Tx) error { return f(ctx, tx) })
}
