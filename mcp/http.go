package mcp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/internal/secret"
)

// HTTPConfig is what a [Handler] is made of. Verify and Open are needed.
type HTTPConfig struct {
	// Verify says whose token it is, as an *auth.Verifier does: auth.ErrUnauthorized is one that is no good.
	Verify func(ctx context.Context, token secret.Secret) (auth.Identity, error)

	// Open makes the server of one identity. It is called once for each.
	Open func(id auth.Identity) (*Server, error)

	Origins auth.Origins // of browsers; zero: none
	Hosts   auth.Hosts   // zero: localhost and addresses
	Logger  *slog.Logger // nil discards
}

// Limits on what one client may cost.
const (
	maxBody     = 16 << 20
	idleSession = 30 * time.Minute // a session without a request is over, and what it runs in the background
)

// Handler answers streamable HTTP at every path. Its servers are one for each identity; nobody reaches what another one runs.
type Handler struct {
	cfg      HTTPConfig
	next     http.Handler
	failures *auth.Limiter // of one address, with tokens that were no good

	mu      sync.Mutex
	servers map[string]*Server // by id of the token
	closed  bool
}

// NewHandler makes one. The caller closes it, after the http.Server that it answers for.
func NewHandler(cfg HTTPConfig) (*Handler, error) {
	if cfg.Verify == nil || cfg.Open == nil {
		return nil, errors.New("configure MCP over HTTP: Verify and Open are needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{cfg: cfg, servers: map[string]*Server{}, failures: auth.NewLimiter(auth.LimiterConfig{Every: 10 * time.Second, Burst: 10})}
	h.next = sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server { return h.server(r).sdk }, &sdk.StreamableHTTPOptions{
		Logger: cfg.Logger, SessionTimeout: idleSession, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // Hosts is stricter
	})
	return h, nil
}

// Close ends everything that runs for its clients, and waits for it.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	servers := h.servers
	h.mu.Unlock()
	for _, s := range servers {
		s.Close()
	}
}

type serverKey struct{}

// server is the one that ServeHTTP has found.
func (h *Handler) server(r *http.Request) *Server { return r.Context().Value(serverKey{}).(*Server) }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if !h.cfg.Hosts.Allowed(r.Host) {
		http.Error(w, "the server is not known by this name", http.StatusMisdirectedRequest)
		return
	}
	if !h.cfg.Origins.Allowed(r.Header.Values("Origin")) {
		http.Error(w, "pages of this origin may not talk to the server", http.StatusForbidden)
		return
	}
	id, s, status := h.open(r)
	if status != 0 {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, "send the header Authorization: Bearer TOKEN; `silk token new NAME` makes a token", status)
		return
	}
	if session := r.Header.Get("Mcp-Session-Id"); r.Method == http.MethodDelete && session != "" {
		s.endSession(session) // first, since the end of a session waits for its calls
	}
	known := func(context.Context, string, *http.Request) (*sdkauth.TokenInfo, error) {
		return &sdkauth.TokenInfo{UserID: id.Token, Extra: map[string]any{connection: r.Context()}}, nil
	}
	next := sdkauth.RequireBearerToken(known, &sdkauth.RequireBearerTokenOptions{AllowMissingExpiration: true})(h.next)
	next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, s)))
}

// open finds out who asks and the server for them. A status is why not.
func (h *Handler) open(r *http.Request) (auth.Identity, *Server, int) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return auth.Identity{}, nil, http.StatusUnauthorized
	}
	token := secret.New(strings.TrimSpace(text))
	id, err := h.cfg.Verify(r.Context(), token)
	switch {
	case errors.Is(err, auth.ErrUnauthorized):
		if ok, _ := h.failures.Allow(auth.AddressKey(r.RemoteAddr)); !ok {
			return id, nil, http.StatusTooManyRequests
		}
		return id, nil, http.StatusUnauthorized
	case err != nil:
		h.cfg.Logger.ErrorContext(r.Context(), "verify token", logkey.Error, err)
		return id, nil, http.StatusInternalServerError
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[id.Token]
	if h.closed {
		return id, nil, http.StatusServiceUnavailable
	}
	if s == nil {
		if s, err = h.cfg.Open(id); err != nil {
			h.cfg.Logger.ErrorContext(r.Context(), "open engine", logkey.Error, err)
			return id, nil, http.StatusInternalServerError
		}
		h.servers[id.Token] = s
	}
	return id, s, 0
}
