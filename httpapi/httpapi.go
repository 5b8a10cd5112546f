// Package httpapi is the HTTP door of the service: it says who asks, translates between the wire and package serve, and turns
// errors into problem details (RFC 9457). It decides nothing about runs.
//
// [New] makes the handler of everything below /v1, of /docs, /openapi.yaml, /healthz, /readyz and /metrics. [Spec] is the
// description of the API, made from the same operations that answer: api/openapi.yaml is what it returns.
package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/store"
)

// Config is what a handler is made of. All but Logger, Origins and Hosts are needed.
type Config struct {
	Server   *serve.Server
	DB       *store.DB
	Verifier *auth.Verifier
	Tickets  *auth.Tickets
	Profiles func() ([]api.Profile, error)
	Images   func() ([]api.Image, error)

	Origins auth.Origins // of browsers; zero: none
	Hosts   auth.Hosts   // zero: localhost and addresses

	// SkillDir says where a directory that a client names as that of a skill's files leads, if it lies inside of what the owner lets
	// others name. nil: none does.
	SkillDir func(path string) (dir string, ok bool)

	// Metrics answers /metrics.
	Metrics http.Handler

	// Ready says why the server takes no runs at the moment, or nil.
	Ready func() error

	Version string
	Logger  *slog.Logger // nil discards
}

// Limits on what one client may cost.
const (
	maxBodyBytes   = 64 << 20 // of a request for a run, which may bring files
	maxHeaderBytes = 32 << 10
	bodyTimeout    = 2 * time.Minute // for 64 MiB at 0.5 MiB/s
	idleTimeout    = 2 * time.Minute
	headerTimeout  = 10 * time.Second
)

// handler answers requests.
type handler struct {
	cfg      Config
	api      huma.API
	requests *auth.Limiter // of one identity
	failures *auth.Limiter // of one address, with credentials that were no good
	bodies   bodies
}

// New makes the handler.
func New(cfg Config) (http.Handler, error) {
	if cfg.Server == nil || cfg.DB == nil || cfg.Verifier == nil || cfg.Tickets == nil || cfg.Profiles == nil || cfg.Images == nil || cfg.Metrics == nil || cfg.Ready == nil {
		return nil, errors.New("configure HTTP API: Server, DB, Verifier, Tickets, Profiles, Images, Metrics and Ready are needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &handler{
		cfg:      cfg,
		requests: auth.NewLimiter(auth.LimiterConfig{Every: 10 * time.Millisecond, Burst: 500}),
		failures: auth.NewLimiter(auth.LimiterConfig{Every: 10 * time.Second, Burst: 10}),
		bodies:   newBodies(),
	}
	mux := http.NewServeMux()
	h.register(mux)
	return h.front(known(mux)), nil
}

// HTTPServer is an http.Server for the handler with limits against slow clients. The caller sets Addr and listens.
func HTTPServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		// No limit on reading or writing as a whole: streams last as long as runs. Bodies have bodyTimeout, and each write to a
		// stream has its own.
	}
}

// Spec is the OpenAPI 3.1 description in YAML.
func Spec() ([]byte, error) {
	h := &handler{}
	h.register(http.NewServeMux())
	return h.api.OpenAPI().YAML()
}

// once sets what the library keeps in a package variable.
var once = sync.OnceFunc(func() { huma.NewError, huma.DefaultArrayNullable = humaError, false })

func (h *handler) register(mux *http.ServeMux) {
	once()
	config := huma.DefaultConfig("silk", "v1")
	config.Info.Description = "Run code that you do not trust in a sandbox, and watch it live."
	config.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	config.Servers = []*huma.Server{{URL: "/"}}
	config.CreateHooks = nil // no $schema in answers: they are as documented
	config.DocsPath, config.SchemasPath, config.OpenAPIPath = "", "", ""
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "`silk token new NAME` makes one. The unix socket needs none."},
	}
	h.api = humago.New(mux, config)
	h.runs()
	h.approvals()
	h.handoffs()
	h.notes()
	h.look()
	h.skills()
	h.tokens()
	h.streams(mux)
	h.health(mux)
	h.docs(mux)
	h.profile(mux)
}

// everywhere are the statuses of front, which stands before every operation.
var everywhere = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest, http.StatusTooManyRequests}

// operation registers one operation of the API.
func operation[In, Out any](h *handler, op huma.Operation, do func(context.Context, auth.Identity, *In) (*Out, error)) {
	op.Security = []map[string][]string{{"token": {}}}
	op.Errors = append(op.Errors, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusServiceUnavailable)
	op.Errors = append(op.Errors, everywhere...)
	if _, ok := typeOf[In]().FieldByName("Body"); ok {
		op.Errors = append(op.Errors, http.StatusBadRequest, http.StatusUnsupportedMediaType)
	}
	if op.Method == http.MethodPost {
		op.Errors = append(op.Errors, http.StatusRequestEntityTooLarge)
	}
	if op.Method != http.MethodGet {
		op.Errors = append(op.Errors, http.StatusInsufficientStorage)
	}
	slices.Sort(op.Errors)
	op.Errors = slices.Compact(op.Errors)
	op.BodyReadTimeout = -1 // front sees to it
	huma.Register(h.api, op, func(ctx context.Context, in *In) (*Out, error) {
		id, _ := auth.FromContext(ctx) // nobody may do nothing
		out, err := do(ctx, id, in)
		if err != nil {
			return nil, h.problemOf(ctx, err)
		}
		return out, nil
	})
}
