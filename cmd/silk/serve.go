//go:build server

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/httpapi"
	"github.com/silk-sandbox/silk/internal/lockfile"
	"github.com/silk-sandbox/silk/internal/rlimit"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/jetstream"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/store"
)

// service is a running `silk serve`, in the order in which its parts are made. They are released in reverse.
type service struct {
	*app
	host   *host
	cfg    serveConfig
	log    *slog.Logger
	db     *store.DB
	server *serve.Server
	queue  *queue.Queue
	outbox *handoff.Outbox
	http   http.Handler

	members *queue.Members // that share the database; nil: nobody does
}

func (a *app) serve() (err error) {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	if err := rlimit.Enough(c.serve.running + c.serve.ready); err != nil {
		return &hostError{err}
	}
	if a.roles != nil {
		if c.serve.roles, err = readRoles(a.roles); err != nil {
			return usagef("--roles: %v", err)
		}
	}
	if a.ready = c.serve.ready; !c.serve.roles.worker {
		a.ready = 0
	}
	h, err := a.openHost(true) // the host's kernel watches too, where it can: a server pays for that once
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	s := &service{app: a, host: h, cfg: c.serve, log: slog.New(slog.NewJSONHandler(a.err, nil))}
	if err := h.knownDriver(""); err != nil {
		return err
	}
	lock, err := lockfile.Take(filepath.Join(h.home, "serve.lock"))
	if errors.Is(err, lockfile.ErrHeld) {
		return &hostError{fmt.Errorf("another silk serve has the state directory %s: end it, or choose another one with --home", h.home)}
	}
	if err != nil {
		return &hostError{err}
	}
	defer func() { err = errors.Join(err, lock.Leave()) }()
	ctx := a.ctx
	own := *h // the socket and certificates are beside what a shared database makes of it
	h = &own
	db, err := s.openState(ctx, h)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	worker, alive := localWorker, func(string) bool { return false }
	if h.shared != nil {
		if s.cfg.roles != (serveRoles{api: true, worker: true}) {
			return usagef("servers that share a database run what they have accepted themselves: they have both roles, api and worker")
		}
		worker, alive = h.shared.id, h.shared.alive
	}
	s.db = db
	outbox, err := h.outbox(s.log)
	if err != nil {
		return err
	}
	s.outbox = outbox
	for _, dir := range []string{broker.DirName, serve.ArtifactsDir} {
		if err := os.MkdirAll(filepath.Join(h.home, dir), 0o700); err != nil {
			return &hostError{fmt.Errorf("make directory: %w", err)}
		}
	}
	engine, err := a.engine(h)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	streams, err := broker.New(broker.Config{
		Dir: filepath.Join(h.home, broker.DirName), FollowIdle: s.cfg.followIdle, FollowAway: s.cfg.followAway, Logger: s.log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, streams.Close()) }()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	traces, flush, err := s.traces(registry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flush()) }()
	stream, err := jetstream.Open(ctx, jetstream.Config{Dir: filepath.Join(h.home, "queue"), Logger: s.log})
	if err != nil {
		return &hostError{err}
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	s.queue, err = queue.Open(ctx, queue.Config{
		DB: db, Stream: stream, Worker: worker, Alive: alive, Own: h.shared != nil, Running: s.cfg.running, Queued: s.cfg.queued, MemoryBytes: s.cfg.memoryBytes, CPUs: s.cfg.cpus,
		TokenRunning: s.cfg.tokenRunning, TokenQueued: s.cfg.tokenQueued, Grace: s.cfg.grace, Logger: s.log,
		End:   func(ctx context.Context, e queue.Entry) { s.server.End(ctx, e) },
		Adopt: func(ctx context.Context, e queue.Entry) { s.server.Adopt(ctx, e) },
	})
	if err != nil {
		return &hostError{err}
	}
	defer func() { err = errors.Join(err, s.queue.Close()) }()
	s.server, err = serve.New(serve.Config{
		Metrics: registry, Traces: traces, TraceContent: s.cfg.traces.content,
		Handoffs: outbox, Home: h.home, DB: db, Engine: engine, Queue: s.queue, Broker: streams, Decide: h.decide, Salvage: h.salvage,
		ApprovalFor: s.cfg.approvalFor, Keep: s.keep(h), OwnLocal: s.cfg.ownLocal, Logger: s.log,
	})
	if err != nil {
		return err
	}
	if err := s.server.Recover(ctx); err != nil {
		return &hostError{err}
	}
	verifier := auth.NewVerifier(db, auth.VerifierConfig{Log: s.log})
	s.http, err = httpapi.New(httpapi.Config{
		Server: s.server, DB: db, Verifier: verifier, Tickets: auth.NewTickets(verifier, auth.TicketsConfig{}),
		Metrics:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		SkillDir: h.skillDir, Profiles: s.profiles, Images: s.images, Ready: func() error { return s.ready(ctx) },
		Origins: s.cfg.origins, Hosts: auth.NewHosts(s.cfg.hosts...), Version: version, Logger: s.log,
	})
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// keep removes what is old. A shared database has what the other servers ran too: each removes its own files.
func (s *service) keep(h *host) func(context.Context) error {
	return func(ctx context.Context) error {
		report, err := h.keeper(s.db).Keep(ctx, false)
		if len(report.Removals) > 0 || report.OverBytes > 0 {
			s.log.Info("removed what is old", "removals", len(report.Removals), "bytes", report.Bytes, "left", report.LeftBytes, "over", report.OverBytes)
		}
		return err
	}
}

// answers says why this server is better started again. That a database server does not answer is none: what runs would end
// for it, and nothing else change.
func (s *service) answers(ctx context.Context) error {
	if s.db.Shared() {
		return nil
	}
	return s.db.PingContext(ctx)
}

// ready says why nothing can be run now, or nil.
func (s *service) ready(ctx context.Context) error {
	if ctx.Err() != nil {
		return errors.New("the server stops")
	}
	ask, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return s.db.Update(ask, func(tx *sql.Tx) error { // a write, since a full disk lets reads through
		_, err := tx.ExecContext(ask, "UPDATE sessions SET name = name WHERE id = ''")
		return err
	})
}

// readyTimeout is how long the database may take to answer a service that is ready.
const readyTimeout = 3 * time.Second

// run opens the doors and works until ctx ends. Then nothing new is taken, what runs gets its grace and its viewers see its end,
// and only then the doors close.
func (s *service) run(ctx context.Context) error {
	doors, err := s.listen()
	if err != nil {
		return &hostError{err}
	}
	open, closeDoors := context.WithCancel(context.WithoutCancel(ctx))
	defer closeDoors()
	group, open := errgroup.WithContext(open)
	for _, d := range doors {
		group.Go(func() error { return s.answer(open, d) })
	}
	group.Go(func() error {
		defer closeDoors()
		if keep := s.host.tools.KeepReady; keep != nil {
			keep()
		}
		s.notify(daemon.SdNotifyReady)
		defer s.notify(daemon.SdNotifyStopping)
		return s.work(ctx, open)
	})
	return group.Wait()
}

// work runs what is accepted until ctx ends, or a door has failed.
func (s *service) work(ctx, open context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(open, stop)()
	defer context.AfterFunc(ctx, func() {
		_, running := s.queue.Depth()
		s.log.Info("stopping", "running", running, "grace", s.cfg.grace.String())
	})()
	group, ctx := errgroup.WithContext(ctx)
	beat, still := context.WithCancel(context.WithoutCancel(ctx))
	defer still()
	if s.members != nil { // as long as anything runs: to the others it must not be dead
		group.Go(func() error { return s.members.Run(beat) })
	}
	do := s.server.Work
	if !s.cfg.roles.worker {
		do = s.server.Hold
	}
	group.Go(func() error { defer still(); return do(ctx) })
	group.Go(func() error { return s.server.Watch(ctx) })
	group.Go(func() error { return s.server.Expire(ctx) })
	group.Go(func() error { return s.server.Clean(ctx) })
	group.Go(func() error { return s.outbox.Work(ctx, s.db) })
	group.Go(func() error { return s.watchdog(ctx, s.answers) })
	return group.Wait()
}
