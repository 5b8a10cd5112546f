// Package servetest makes a whole service for tests, but for its doors and for what isolates: engine, queue, broker and store are
// the real ones; the driver is drivertest.Fake, the stream queuetest's.
package servetest

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/queuetest"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// Profile is the name of the profile that there is: one hour at most without an approval is its time, 512 MiB its memory. Its
// programs are those of drivertest.Fake.
const Profile = "test"

// Digest is that of its image.
const Digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// Identities of the three roles, whose tokens are in the database without a secret that anybody knows.
var (
	Owner  = auth.Identity{Token: "01OWNER", Name: "ann", Role: auth.Owner}
	Runner = auth.Identity{Token: "01RUNNER", Name: "bob", Role: auth.Runner}
	Other  = auth.Identity{Token: "01OTHER", Name: "eve", Role: auth.Runner}
	Viewer = auth.Identity{Token: "01VIEWER", Name: "vic", Role: auth.Viewer}
)

// Config changes what a stand is made of.
type Config struct {
	Home   string // made earlier by another stand, to start again; empty: a new one
	Store  string // home of another stand, whose database this one shares; empty: its own
	Server string // its name there; empty: "w"
	Stream *queuetest.Stream
	Queue  queue.Config
	Serve  serve.Config
	Broker broker.Config
	Idle   bool // nothing is worked on until Work is called
}

// Stand is a service under test.
type Stand struct {
	*testing.T
	Home   string
	DB     *store.DB
	Fake   *drivertest.Fake
	Engine *run.Engine
	Queue  *queue.Queue
	Stream *queuetest.Stream
	Broker *broker.Broker
	Server *serve.Server
	Keys   *record.Keyring

	Processes atomic.Int64 // what the profile gives; 0: the usual number

	stop func()
	done chan error
}

// New makes a stand, recovers what the home holds, and works unless cfg is Idle. The end of the test closes it.
func New(t *testing.T, cfg Config) *Stand {
	t.Helper()
	s := &Stand{T: t, Home: cfg.Home, Fake: &drivertest.Fake{}, Stream: cfg.Stream}
	if s.Home == "" {
		s.Home = t.TempDir()
	}
	cfg.Server, cfg.Store = cmp.Or(cfg.Server, "w"), cmp.Or(cfg.Store, s.Home)
	if s.Stream == nil {
		s.Stream = &queuetest.Stream{}
	}
	dir := filepath.Join(s.Home, broker.DirName)
	s.must(os.MkdirAll(dir, 0o700))
	var err error
	s.DB, err = storetest.Open(t.Context(), filepath.Join(cfg.Store, store.FileName))
	s.must(err)
	s.must(s.DB.Update(t.Context(), func(tx *sql.Tx) error {
		for _, id := range []auth.Identity{Owner, Runner, Other, Viewer} {
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO tokens (id, name, role, hash, max_running, max_queued, created_at)
				VALUES (?, ?, ?, ?, 0, 0, 1) ON CONFLICT DO NOTHING`, id.Token, id.Name, id.Role, id.Token); err != nil {
				return err
			}
		}
		return nil
	}))
	salvage := func(run, channel string) ([]byte, error) { return broker.Salvage(dir, run, channel) }
	if cfg.Serve.Handoffs == nil {
		cfg.Serve.Handoffs, err = handoff.New(handoff.Config{})
		s.must(err)
	}
	s.Keys, err = record.OpenKeyring(t.Context(), filepath.Join(s.Home, "keys"))
	s.must(err)
	s.Engine, err = run.New(run.Config{Signer: s.Keys, Home: s.Home, Store: s.DB, Server: cfg.Server, Alive: cfg.Queue.Alive, Decide: s.Decide, Drivers: []driver.Driver{s.Fake}, Images: oneImage{s.Home}, Salvage: salvage, Handoffs: cfg.Serve.Handoffs})
	s.must(err)
	streams := cfg.Broker
	streams.Dir = dir
	s.Broker, err = broker.New(streams)
	s.must(err)
	q := cfg.Queue
	q.DB, q.Stream, q.Worker = s.DB, s.Stream, cfg.Server
	q.Adopt = func(ctx context.Context, e queue.Entry) { s.Server.Adopt(ctx, e) }
	q.End = func(ctx context.Context, e queue.Entry) { s.Server.End(ctx, e) }
	s.Queue, err = queue.Open(t.Context(), q)
	s.must(err)
	c := cfg.Serve
	c.Home, c.DB, c.Engine, c.Queue, c.Broker, c.Decide, c.Salvage = s.Home, s.DB, s.Engine, s.Queue, s.Broker, s.Decide, salvage
	s.Server, err = serve.New(c)
	s.must(err)
	s.must(s.Server.Recover(t.Context()))
	t.Cleanup(s.Close)
	if !cfg.Idle {
		s.Work()
	}
	return s
}

// Work begins to run what waits.
func (s *Stand) Work() {
	ctx, stop := context.WithCancel(context.WithoutCancel(s.Context()))
	s.stop, s.done = stop, make(chan error, 3)
	go func() { s.done <- s.Server.Watch(ctx) }()
	go func() { s.done <- s.Server.Work(ctx) }()
	go func() { s.done <- s.Server.Expire(ctx) }()
}

// Stop ends the work as SIGTERM does, and does not wait for it.
func (s *Stand) Stop() { s.stop() }

// Close ends the stand, once, as SIGTERM ends a server without grace.
func (s *Stand) Close() {
	if s.stop != nil {
		s.stop()
		for range cap(s.done) {
			if err := <-s.done; err != nil {
				s.Error(err)
			}
		}
		s.stop = nil
	}
	if s.DB == nil {
		return
	}
	if err := errors.Join(s.Queue.Close(), s.Broker.Close(), s.Engine.Close(), s.DB.Close()); err != nil {
		s.Error(err)
	}
	s.DB = nil
	if n := s.Fake.Running(); n != 0 {
		s.Errorf("%d sandboxes are left", n)
	}
}

func (s *Stand) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Decide is policy.Decide with the stand's profile.
func (s *Stand) Decide(req policy.Request) (policy.Plan, error) {
	if name := policy.ProfileFor(req); name != Profile {
		return policy.Plan{}, &policy.RequestError{Faults: []string{fmt.Sprintf("there is no profile %q", name)}, Field: "profile"}
	}
	prof := profile.Profile{
		Name: Profile, Image: Profile, Language: "sh", Network: profile.NetworkDeny, Limits: profile.Defaults, Ignore: profile.CommonIgnore,
		Max: profile.Limits{Timeout: time.Hour}, Env: map[string]string{"HOME": policy.Workspace},
	}
	if n := s.Processes.Load(); n != 0 {
		prof.Limits.Processes = int(n)
	}
	return policy.Decide(req, prof, policy.Grants{})
}

// oneImage has the profile's image, an empty file.
type oneImage struct{ home string }

func (o oneImage) Open(_ context.Context, ref string) (run.Image, error) {
	if ref != Profile {
		return run.Image{}, fmt.Errorf("there is no image %s: %w", ref, fs.ErrNotExist)
	}
	root, err := os.OpenFile(filepath.Join(o.home, "image"), os.O_RDONLY|os.O_CREATE, 0o600)
	return run.Image{Digest: Digest, Root: root}, err
}
