package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/internal/secret"
)

// open are the paths that need no credentials.
var open = map[string]bool{"/healthz": true, "/readyz": true, "/docs": true, "/openapi.yaml": true, "/schemas/handoff.json": true, "/schemas/record.json": true, "/schemas/skill.json": true}

// front is what every request passes: who asks, from where, and how often.
func (h *handler) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer h.recover(w, r)
		inTime(w, r, headerTimeout)
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if !h.cfg.Hosts.Allowed(r.Host) && !isLocal(r) {
			h.refuse(w, problem(http.StatusMisdirectedRequest, "host-header", "the server is not known by this name", "add the name to serve: hosts: in the configuration"))
			return
		}
		if !h.cors(w, r) {
			return
		}
		if open[r.URL.Path] {
			next.ServeHTTP(w, r)
			return
		}
		id, err := h.identify(r)
		if err != nil {
			h.refuse(w, h.problemOf(r.Context(), err))
			return
		}
		if ok, after := h.requests.Allow(id.Token); !ok {
			h.refuse(w, problem(http.StatusTooManyRequests, "rate", "too many requests", "").after(after))
			return
		}
		leave, ok := h.bodies.enter(r.Context(), r)
		if !ok {
			h.refuse(w, problem(http.StatusServiceUnavailable, "busy", "too many long requests at once", "").after(bodyWait))
			return
		}
		defer leave()
		inTime(w, r, bodyTimeout)
		if err := check(r); err != nil {
			h.refuse(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), id)))
	})
}

// cors answers browsers. It says whether the request goes on.
func (h *handler) cors(w http.ResponseWriter, r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	if !h.cfg.Origins.Allowed(origins) {
		h.refuse(w, problem(http.StatusForbidden, "origin", "pages of this origin may not talk to the server", "add the origin to serve: origins: in the configuration"))
		return false
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", origins[0])
	header.Add("Vary", "Origin")
	header.Set("Access-Control-Expose-Headers", "Retry-After, Location, ETag, Accept-Ranges, Content-Range")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return true
	}
	header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, If-None-Match, Range, traceparent, tracestate")
	header.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return false
}

// identify says who asks: the owner on the unix socket, who has a token, or on a stream's path who has a ticket.
func (h *handler) identify(r *http.Request) (auth.Identity, error) {
	if isLocal(r) {
		return auth.LocalOwner, nil
	}
	id, err := h.credentials(r)
	if !errors.Is(err, auth.ErrUnauthorized) || !shown(r) {
		return id, err
	}
	// Those who show good credentials are never slowed down by what others show from the same address.
	if ok, after := h.failures.Allow(auth.AddressKey(r.RemoteAddr)); !ok {
		return auth.Identity{}, problem(http.StatusTooManyRequests, "rate", "too many attempts with bad credentials", "").after(after)
	}
	return id, err
}

// shown says whether r shows credentials at all.
func shown(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || r.URL.Query().Get("ticket") != ""
}

func (h *handler) credentials(r *http.Request) (auth.Identity, error) {
	if ticket := r.URL.Query().Get("ticket"); ticket != "" {
		return h.cfg.Tickets.Redeem(r.Context(), secret.New(ticket), r.URL.Path)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return auth.Identity{}, auth.ErrUnauthorized
	}
	return h.cfg.Verifier.Verify(r.Context(), secret.New(strings.TrimSpace(token)))
}

// localKey marks the context of connections of the unix socket.
type localKey struct{}

// isLocal says whether r came over the unix socket, whose listener has checked the peer: see [Local].
func isLocal(r *http.Request) bool {
	local, _ := r.Context().Value(localKey{}).(bool)
	return local
}

// refuse answers with a problem.
func (h *handler) refuse(w http.ResponseWriter, err error) { refuse(w, err) }

func refuse(w http.ResponseWriter, err error) {
	a, ok := err.(answer) //nolint:errorlint // it is one, or a bug
	if !ok {
		a = problem(http.StatusInternalServerError, "host", "the server could not do it; its log says why", "")
	}
	for k, v := range a.headers {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", a.ContentType(""))
	w.WriteHeader(a.Status)
	if err := json.NewEncoder(w).Encode(a.Problem); err != nil {
		return // the client has gone
	}
}

// recover keeps a bug in one request from ending the server.
func (h *handler) recover(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		panic(p)
	}
	h.cfg.Logger.ErrorContext(r.Context(), "panic during a request", logkey.Panic, p, logkey.Stack, string(debug.Stack()))
	h.refuse(w, problem(http.StatusInternalServerError, "host", "the server has a bug; its log says more", ""))
}

// known answers what the API does not have as it answers everything: with problem details.
func known(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		standard, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		said := &statusOnly{header: http.Header{}}
		standard.ServeHTTP(said, r)
		switch said.status {
		case http.StatusNotFound:
			refuse(w, problem(http.StatusNotFound, "not-found", "there is no such thing", "/docs describes what there is"))
		case http.StatusMethodNotAllowed:
			a := problem(http.StatusMethodNotAllowed, "method", "there is no such operation", "it has "+said.header.Get("Allow"))
			a.headers.Set("Allow", said.header.Get("Allow"))
			refuse(w, a)
		default: // a redirect to the same path, cleaned
			mux.ServeHTTP(w, r)
		}
	})
}

// statusOnly hears what a handler would say.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
