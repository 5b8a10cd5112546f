//go:build server || !linux || !amd64

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/mcp"
)

// remoteRunning is how many runs of one client a server is asked for at once: it has quotas of its own.
const remoteRunning = 32

// engines are where the runs of agents happen.
type engines struct {
	verify  func(context.Context, secret.Secret) (auth.Identity, error) // nil: nobody comes over HTTP
	open    func(auth.Identity) mcp.Engine
	running int
	config  config
	close   func() error
}

func (a *app) mcp(f mcpFlags) (err error) {
	if f.running < 0 {
		return usagef("--running %d is not above zero", f.running)
	}
	log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn})) // stdout is the client's
	var e engines
	if a.serverURL() != "" {
		e, err = a.remoteEngine(f)
	} else {
		e, err = a.localEngine(f)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	open := func(id auth.Identity) (*mcp.Server, error) {
		return mcp.New(mcp.Config{Engine: e.open(id), Version: version, Running: cmp.Or(f.running, e.running), Logger: log})
	}
	if f.http != "" {
		return a.mcpHTTP(f.http, e, open, log)
	}
	s, err := open(auth.LocalOwner)
	if err != nil {
		return err
	}
	defer s.Close()
	return a.mcpStdio(s)
}

// mcpStdio speaks on stdin and stdout. Nothing else may write there.
func (a *app) mcpStdio(s *mcp.Server) error {
	err := s.Run(a.ctx, mcp.NewLines(a.in, a.out))
	if err != nil && a.ctx.Err() == nil {
		return fmt.Errorf("speak with the agent: %w", err)
	}
	return nil
}

// drainMCP is how long answers may take once the server stops.
const drainMCP = 5 * time.Second

// mcpHTTP answers streamable HTTP until the end of the app's context.
func (a *app) mcpHTTP(address string, e engines, open func(auth.Identity) (*mcp.Server, error), log *slog.Logger) error {
	handler, err := mcp.NewHandler(mcp.HTTPConfig{Verify: e.verify, Open: open, Origins: e.config.serve.origins, Hosts: auth.NewHosts(e.config.serve.hosts...), Logger: log})
	if err != nil {
		return err
	}
	defer handler.Close()
	l, err := net.Listen("tcp", address) //nolint:noctx // it does not wait
	if err != nil {
		return usagef("--http %s: %v", printable(address), err)
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		l.Close()
		return usagef("--http %s: others could read tokens and output on the way; listen on 127.0.0.1, and put what encrypts in front of it", printable(address))
	}
	a.errorf("agents reach silk at http://%s/mcp with a token", l.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-a.ctx.Done():
	}
	handler.Close() // what runs ends now, and its clients hear of it
	drain, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), drainMCP)
	defer cancel()
	if err := server.Shutdown(drain); err != nil { // streams that their clients keep open
		return server.Close()
	}
	return nil
}

// remoteEngine is that of a running silk serve, which decides what the token may do.
func (a *app) remoteEngine(f mcpFlags) (engines, error) {
	if f.http != "" {
		return engines{}, usagef("--http cannot be used with --server: agents reach a server through silk mcp --server on stdin and stdout, each with its own token")
	}
	c, err := a.server()
	if err != nil {
		return engines{}, err
	}
	return engines{
		running: remoteRunning,
		open:    func(auth.Identity) mcp.Engine { return mcp.NewRemote(c) },
		close:   func() error { c.Close(); return nil },
	}, nil
}
