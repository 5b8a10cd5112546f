package mcp

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/silk-sandbox/silk/internal/logkey"
)

// Config is what a [Server] is made of. Only Engine is needed.
type Config struct {
	Engine  Engine // that may be a [Handoffs] too
	Version string // of silk
	Running int    // runs at once, more wait; 0: 4
	Waiting int    // runs that wait, more are refused; 0: 64
	Logger  *slog.Logger
}

// Server is the tools and resources for one identity. Safe for concurrent use.
type Server struct {
	cfg   Config
	given Handoffs // nil: there are none
	sdk   *sdk.Server
	slots chan struct{} // one for each run
	queue chan struct{} // one for each run, those that wait included

	schemas map[string]*jsonschema.Schema // of arguments, by tool

	ctx   context.Context // ends with Close
	close context.CancelCauseFunc
	runs  sync.WaitGroup // and those who watch for the end of sessions

	mu       sync.Mutex
	live     map[string]*live // by id, from the moment that it is known to the end of the run
	sessions map[*sdk.ServerSession]*session
	recent   []string // URIs of resources that are in the list
}

// session is what ends with a client.
type session struct {
	ctx context.Context
	end context.CancelCauseFunc
}

// Causes of the end of a run that its client did not ask to be canceled.
var (
	errClosed = errors.New("the MCP server ends")
	errGone   = errors.New("its client is gone")
)

// New makes a server.
func New(cfg Config) (*Server, error) {
	if cfg.Engine == nil {
		return nil, errors.New("configure MCP server: Engine is needed")
	}
	if cfg.Running == 0 {
		cfg.Running = 4
	}
	if cfg.Waiting == 0 {
		cfg.Waiting = 64
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancelCause(context.Background())
	s := &Server{
		cfg: cfg, slots: make(chan struct{}, cfg.Running), queue: make(chan struct{}, cfg.Running+cfg.Waiting), ctx: ctx, close: end,
		schemas: map[string]*jsonschema.Schema{}, live: map[string]*live{}, sessions: map[*sdk.ServerSession]*session{},
	}
	s.given, _ = cfg.Engine.(Handoffs)
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "silk", Title: "silk sandbox", Version: cfg.Version}, &sdk.ServerOptions{
		Instructions: instructions, Logger: cfg.Logger, Capabilities: &sdk.ServerCapabilities{},
	})
	s.sdk.AddReceivingMiddleware(s.survive, s.plainly)
	s.tools()
	s.resources()
	return s, nil
}

// Run speaks with one client until it is gone or ctx ends. What it ran has ended then.
func (s *Server) Run(ctx context.Context, t sdk.Transport) error {
	err := s.sdk.Run(ctx, t)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Close ends everything that runs, and waits for it.
func (s *Server) Close() {
	s.close(errClosed)
	s.runs.Wait()
}

// survive keeps a bug in one call from ending the server, and with it the runs of others.
func (s *Server) survive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (_ sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.cfg.Logger.ErrorContext(ctx, "panic during a call", "method", method, logkey.Panic, p, logkey.Stack, string(debug.Stack()))
				err = errors.New("silk has a bug; its log says more")
			}
		}()
		return next(ctx, method, req)
	}
}

// lifetime is the context of what a client runs in the background: it ends with the session, or, where a client has none, with the
// server.
func (s *Server) lifetime(req *sdk.CallToolRequest) context.Context {
	ss := req.Session
	if overHTTP(req) && ss.ID() == "" {
		return s.ctx // this session is one request
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.sessions[ss]; at != nil {
		return at.ctx
	}
	ctx, end := context.WithCancelCause(s.ctx)
	s.sessions[ss] = &session{ctx, end}
	gone := make(chan struct{})
	go func() { // ends with the connection, which nothing of ours keeps open
		defer close(gone)
		_ = ss.Wait() // why it ended does not matter
	}()
	s.runs.Go(func() {
		select {
		case <-gone:
		case <-s.ctx.Done():
		}
		end(errGone)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, ss)
	})
	return ctx
}

// endSession ends what runs in a session of HTTP that its client gives up.
func (s *Server) endSession(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ss, at := range s.sessions {
		if ss.ID() == id {
			at.end(errGone)
		}
	}
}

func overHTTP(req *sdk.CallToolRequest) bool { return req.Extra != nil && req.Extra.Header != nil }
