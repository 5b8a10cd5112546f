package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/store"
)

// Errors that doors turn into answers of their own.
var (
	ErrNotFound = errors.New("not found")                                  // or it is one that the identity may not see
	ErrState    = errors.New("the run is not in a state that allows this") // input to a run that has ended, say
)

// DeniedError says that policy refuses a request whoever approves it. The run has ended already, and has a record.
type DeniedError struct {
	Run    string
	Denial *policy.Denial
}

func (e *DeniedError) Error() string { return e.Denial.Error() }
func (e *DeniedError) Unwrap() error { return e.Denial }

// Config is what a [Server] is made of.
type Config struct {
	// Home is the state directory of Engine and DB. artifacts/ is in it.
	Home   string
	DB     *store.DB
	Engine *run.Engine
	Queue  *queue.Queue
	Broker *broker.Broker

	// Decide is the Engine's.
	Decide func(policy.Request) (policy.Plan, error)

	// Salvage is the Engine's.
	Salvage run.Salvage

	// ApprovalFor is how long a run waits for the owner before it is denied. 0: one hour.
	ApprovalFor time.Duration

	// Keep removes what is old: retention.Keeper. nil: nothing does.
	Keep func(context.Context) error

	// SpoolBytes is how much of each channel is kept on disk while a run runs, for viewers that are slower. 0: 64 MiB.
	SpoolBytes int64

	// Handoffs is the Engine's. nil: one with the default routes, which delivers nothing.
	Handoffs *handoff.Outbox

	// Traces receives the trace of each run that has ended; it must not wait. nil: nobody does.
	Traces func(Trace)

	// TraceContent puts code, environment, input and output into traces. Whoever reads those then reads all that was run.
	TraceContent bool

	// OwnLocal is as in approval.Decision.
	OwnLocal bool

	// Metrics receives what the server counts, once. nil: nobody does.
	Metrics prometheus.Registerer

	// Logger is for operators. nil discards. Neither code nor output is ever logged.
	Logger *slog.Logger
}

// Server is the one way in for every door. Safe for concurrent use.
type Server struct {
	cfg     Config
	metrics *metrics

	traces   *traces
	stopping atomic.Bool
	holding  atomic.Bool // nothing is run here
	decided  func()      // tests: called between a decision and what it means

	mu       sync.Mutex
	live     map[string]*liveRun                // runs that have not ended: their streams, and their inputs while they run
	sessions map[string]map[*SessionStream]bool // who watches a session
	ending   map[string]bool                    // runs that wait and are just being ended
}

// New checks cfg. [Server.Recover] comes next, then [Server.Work].
func New(cfg Config) (*Server, error) {
	if cfg.DB == nil || cfg.Engine == nil || cfg.Queue == nil || cfg.Broker == nil || cfg.Decide == nil || !filepath.IsAbs(cfg.Home) {
		return nil, errors.New("configure server: DB, Engine, Queue, Broker, Decide and an absolute Home are needed")
	}
	if cfg.ApprovalFor == 0 {
		cfg.ApprovalFor = time.Hour
	}
	if cfg.SpoolBytes == 0 {
		cfg.SpoolBytes = defaultSpool
	}
	if cfg.Handoffs == nil {
		var err error
		if cfg.Handoffs, err = handoff.New(handoff.Config{}); err != nil {
			return nil, fmt.Errorf("configure server: %w", err)
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, decided: func() {}, live: map[string]*liveRun{}, sessions: map[string]map[*SessionStream]bool{}, ending: map[string]bool{}}
	s.traces = newTraces(cfg)
	if cfg.Metrics == nil {
		s.cfg.Metrics = prometheus.NewRegistry()
	}
	var err error
	if s.metrics, err = newMetrics(s.cfg.Metrics, s); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return s, nil
}

// visible finds an accepted run that id may see. Runs of others are as good as not there.
func (s *Server) visible(ctx context.Context, id auth.Identity, run string) (queue.Entry, error) {
	e, err := s.cfg.Queue.Get(ctx, run)
	if errors.Is(err, queue.ErrNotFound) || err == nil && !id.Sees(e.Token) {
		return queue.Entry{}, fmt.Errorf("run %q: %w", run, ErrNotFound)
	}
	return e, err
}

// controlled is visible for those who want to change something.
func (s *Server) controlled(ctx context.Context, id auth.Identity, run string) (queue.Entry, error) {
	e, err := s.visible(ctx, id, run)
	if err == nil && !id.Controls(e.Token) {
		return e, auth.ErrForbidden
	}
	return e, err
}
