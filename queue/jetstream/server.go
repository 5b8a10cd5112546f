package jetstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// readyTimeout bounds the start of the server, which takes about 0.1 s.
const readyTimeout = 15 * time.Second

// startServer runs a server in this process that listens nowhere and keeps its streams below dir, and connects to it.
func startServer(cfg Config, log *logger) (*server.Server, *nats.Conn, error) {
	srv, err := server.NewServer(&server.Options{
		ServerName: "silk", DontListen: true,
		JetStream: true, StoreDir: cfg.Dir, SyncAlways: true,
		JetStreamMaxStore: cfg.MaxStoreBytes, JetStreamMaxMemory: maxMemoryBytes,
		NoSigs: true, NoLog: true, DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, nil, err
	}
	srv.SetLogger(log, false, false)
	srv.Start()
	fail := func(err error) (*server.Server, *nats.Conn, error) {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, nil, err
	}
	if log.died() || !srv.ReadyForConnections(readyTimeout) || !srv.JetStreamEnabled() {
		return fail(fmt.Errorf("start JetStream server in %s: %w", cfg.Dir, log.trouble()))
	}
	conn, err := nats.Connect("", nats.InProcessServer(srv), nats.NoReconnect(), nats.Name("silk"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			cfg.Logger.Warn("JetStream connection", "error", err)
		}))
	if err != nil {
		return fail(fmt.Errorf("connect to JetStream server: %w", err))
	}
	return srv, conn, nil
}

// open starts the server. If it does not come up with what is in the directory, that is moved aside and it starts anew:
// the table has all that matters.
func (s *Stream) open(ctx context.Context) (*link, error) {
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(s.cfg.Dir, 0o700); err != nil { // one that was there
		return nil, err
	}
	l, err := s.link(ctx)
	if err == nil || ctx.Err() != nil || !damage(err) {
		return l, err
	}
	aside := fmt.Sprintf("%s.damaged-%s", filepath.Clean(s.cfg.Dir), time.Now().UTC().Format("20060102T150405.000"))
	s.cfg.Logger.Error("the queue's stream cannot be opened; it is moved aside and made anew", "aside", aside, "error", err)
	if rerr := os.Rename(s.cfg.Dir, aside); rerr != nil {
		return nil, errors.Join(err, rerr)
	}
	if err := os.Mkdir(s.cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	return s.link(ctx)
}

// damage says whether an error may come from the content of the directory: a full or unwritable disk would stop a new one
// as well.
func damage(err error) bool {
	text := err.Error() // the server does not wrap what it logs
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) || strings.Contains(text, e.Error()) {
			return false
		}
	}
	return true
}
