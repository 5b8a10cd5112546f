package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/lockfile"
	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/store"
)

// teardownTimeout bounds everything that is done for a run after its sandbox is gone, whatever happened to its context.
const teardownTimeout = 10 * time.Second

// Engine takes requests through their life. Safe for concurrent use; several engines, in one process or many, may share
// a state directory.
type Engine struct {
	cfg Config
	id  string // names us in the records of runs that have no end yet: the server, a slash, and the name of the lock file that says that we are alive

	mu         sync.Mutex // held while the state is opened
	db         *store.DB
	lock       *lockfile.Lock
	unrecorded sync.Map // ids of runs whose end could not be written

	cancel     context.CancelFunc
	background sync.WaitGroup
	settled    chan struct{} // closed by settle
	settle     func()        // says that no start waits for processors
}

// New checks cfg and begins to open the state and to sweep in the background; faults of the state show in [Engine.Run].
func New(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure engine: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &Engine{cfg: cfg.withDefaults(), id: newID(), cancel: cancel, settled: make(chan struct{})}
	e.settle = sync.OnceFunc(func() { close(e.settled) })
	if cfg.Server != "" {
		e.id = cfg.Server + "/" + e.id
	}
	e.background.Go(func() { e.clean(ctx) })
	return e, nil
}

// Close ends the sweep if it still runs, waits for it, and closes the state. No Run may be in progress.
func (e *Engine) Close() error {
	e.cancel()
	e.settle()
	e.background.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.db == nil {
		return nil
	}
	err := errors.Join(e.closeStore((*store.DB).Close), e.unlock())
	e.db = nil
	return err
}

// Leave is Close for a process that ends right after it: it lets the sweep finish, and leaves closing the state to the
// end of the process unless there is a reason; see [store.DB.Leave]. That saves four fsyncs a run.
func (e *Engine) Leave() error {
	e.settle()
	e.background.Wait()
	e.cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.db == nil {
		return nil
	}
	return errors.Join(e.closeStore((*store.DB).Leave), e.unlock())
}

// closeStore closes the store if it is the engine's.
func (e *Engine) closeStore(how func(*store.DB) error) error {
	if e.cfg.Store != nil {
		return nil
	}
	return how(e.db)
}

// unlock says that the engine is gone. Where a run has no end in its record, the file stays, so that others write it.
func (e *Engine) unlock() error {
	for range e.unrecorded.Range {
		return e.lock.Leave()
	}
	return e.lock.Remove()
}

// settleDelay is how long an engine without a run does not clean up. A start takes 50 ms.
const settleDelay = 200 * time.Millisecond

// enginesDir holds one locked file for each living engine.
const enginesDir = "engines"

// state opens the store when it is first needed, and again when that did not work: a disk may have become free.
func (e *Engine) state(ctx context.Context) (*store.DB, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.db != nil {
		return e.db, nil
	}
	db, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(e.cfg.Home, enginesDir)
	err = os.MkdirAll(dir, 0o700)
	if err == nil {
		e.lock, err = lockfile.Create(filepath.Join(dir, path.Base(e.id)))
	}
	e.db = db
	if err != nil {
		err = errors.Join(err, e.closeStore((*store.DB).Close))
		e.db = nil
		return nil, err
	}
	return db, nil
}

func (e *Engine) open(ctx context.Context) (*store.DB, error) {
	if e.cfg.Store != nil {
		return e.cfg.Store, nil
	}
	return store.Open(ctx, filepath.Join(e.cfg.Home, store.FileName))
}

// alive says whether an owner may still run its runs. Who is of this server has a lock file; another server is asked about.
func (e *Engine) alive(owner string) bool {
	server, id := names(owner)
	if server != e.cfg.Server {
		return e.cfg.Alive == nil || e.cfg.Alive(server)
	}
	return lockHeld(e.cfg.Home, id)
}

// names are the parts of an owner: its server, which is empty where the state is a file, and its lock file.
func names(owner string) (server, lock string) {
	if server, lock, ok := strings.Cut(owner, "/"); ok {
		return server, lock
	}
	return "", owner
}

// clean opens the state early and, when the first run has started, repairs what engines left that died: on two processors the
// start would wait for it.
func (e *Engine) clean(ctx context.Context) {
	db, stateErr := e.state(ctx)
	select {
	case <-e.settled:
	case <-time.After(settleDelay):
	}
	if e.cfg.Sweep != nil { // whatever is wrong with the state
		if err := e.cfg.Sweep(ctx); err != nil {
			e.cfg.Logger.Warn("sweep what an earlier crash left", logkey.Error, err)
		}
	}
	if stateErr != nil {
		return // each run tries again, and says so
	}
	if err := e.recover(ctx, db); err != nil && ctx.Err() == nil {
		e.cfg.Logger.Warn("complete the records of runs that a crash ended", logkey.Error, err)
	}
	if _, err := audit.Rotate(ctx, db, e.cfg.Audit); err != nil && ctx.Err() == nil {
		e.cfg.Logger.Warn("move old audit events into files", logkey.Error, err)
	}
}

// pick chooses the driver of a plan. Where none is named it is the first one that keeps what the plan promises, or the first, which says why it does not.
func (e *Engine) pick(plan policy.Plan) (driver.Driver, error) {
	var names []string
	var first driver.Driver
	for _, d := range e.cfg.Drivers {
		switch {
		case plan.Driver == d.Name():
			return d, nil
		case plan.Driver != "auto" && plan.Driver != "":
		case holds(d, plan):
			return d, nil
		case first == nil:
			first = d
		}
		names = append(names, d.Name())
	}
	if first != nil {
		return first, nil
	}
	if len(names) == 0 {
		return nil, &fault{ReasonMissing, errors.New("this host has no sandbox driver; `silk doctor` says what is missing")}
	}
	return nil, &fault{ReasonMissing, fmt.Errorf("there is no driver %q here; there is %s", plan.Driver, strings.Join(names, ", "))}
}

// holds says whether a driver keeps what a plan promises, as far as it knows without asking the host.
func holds(d driver.Driver, plan policy.Plan) bool {
	h, ok := d.(Holder)
	if !ok {
		return true
	}
	spec, err := specOf("", plan)
	return err != nil || h.Holds(spec) == nil
}

// Plan says what Run would do. A refusal comes as a [*policy.Denial]; with one that only an approval could lift comes
// the plan that would be approved.
func (e *Engine) Plan(ctx context.Context, req policy.Request) (Preview, error) {
	plan, err := e.cfg.Decide(req)
	p := Preview{Plan: plan, Notes: []string{}}
	if err != nil {
		return p, err
	}
	d, err := e.pick(plan)
	if err != nil {
		return p, err
	}
	p.Driver = d.Name()
	image, err := e.cfg.Images.Open(ctx, plan.Image)
	if err != nil {
		return p, fmt.Errorf("find image %s: %w", plan.Image, err)
	}
	p.Image = image.Digest
	if err := image.Root.Close(); err != nil {
		return p, fmt.Errorf("close image %s: %w", plan.Image, err)
	}
	spec, err := specOf(newID(), plan)
	if err != nil {
		return p, err
	}
	if spec.Network == driver.NetworkLink && e.cfg.Egress == nil {
		return p, noGateway()
	}
	prober, ok := d.(Prober)
	if !ok {
		return p, nil
	}
	notes, err := prober.Probe(ctx, spec)
	var unheld *driver.Unheld
	if errors.As(err, &unheld) { // as Run would
		return p, &policy.Denial{Rule: unheld.Promise, Detail: unheld.Detail, Fix: unheld.Fix}
	}
	if err != nil {
		return p, &fault{ReasonMissing, fmt.Errorf("driver %s: %w", d.Name(), err)}
	}
	p.Notes = append(p.Notes, notes...)
	return p, nil
}

// Refuse ends a request before policy sees it, because err kept the caller from making it whole: a file that is not
// there, say. It leaves a record and an audit event, as [Engine.Run] does, and returns as that does. reason counts where err
// does not say itself what it is: a [*policy.Denial] is Denied, and context.Canceled is Canceled.
func (e *Engine) Refuse(ctx context.Context, req policy.Request, io IO, reason Reason, err error) (Outcome, error) {
	l := e.life(req, io)
	l.refuse(ctx, &fault{reason, err})
	l.out.Flags = map[string]int64{}
	l.complete()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
	defer cancel()
	if err := l.finish(end); err != nil {
		return l.out, fmt.Errorf("record run %s: %w", l.id, err)
	}
	return l.out, nil
}
