//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/httpapi"
	"github.com/silk-sandbox/silk/mcp"
	"github.com/silk-sandbox/silk/mcp/local"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// stand is a server of MCP on an engine, and a client of it.
type stand struct {
	*testing.T
	*servetest.Stand
	engine  mcp.Engine
	server  *mcp.Server
	client  *sdk.ClientSession
	ended   chan error // what Server.Run said
	tell    chan *sdk.ProgressNotificationParams
	changed chan string // the list of resources is another one
}

func profiles() ([]api.Profile, error) {
	d := profile.Defaults
	return []api.Profile{{
		Name: servetest.Profile, About: "for tests", Image: servetest.Profile, Language: "sh", Network: "deny",
		Limits: api.Limits{TimeoutMs: d.Timeout.Milliseconds(), MemoryBytes: d.MemoryBytes}, Max: api.Limits{TimeoutMs: 3_600_000},
	}}, nil
}

// engines are those that every tool is tested on.
var engines = map[string]func(t *testing.T) (mcp.Engine, *servetest.Stand){"local": localEngine, "remote": remoteEngine}

func localEngine(t *testing.T) (mcp.Engine, *servetest.Stand) {
	t.Helper()
	e, s := openLocal(t)
	return e.For(auth.LocalOwner), s
}

func openLocal(t *testing.T) (*local.Engine, *servetest.Stand) {
	t.Helper()
	s := servetest.New(t, servetest.Config{})
	e, err := local.Open(local.Config{Home: s.Home, Engine: s.Engine, DB: s.DB, Profiles: profiles})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, s
}

func remoteEngine(t *testing.T) (mcp.Engine, *servetest.Stand) {
	t.Helper()
	s := servetest.New(t, servetest.Config{})
	verifier := auth.NewVerifier(s.DB, auth.VerifierConfig{})
	handler, err := httpapi.New(httpapi.Config{
		Server: s.Server, DB: s.DB, Verifier: verifier, Tickets: auth.NewTickets(verifier, auth.TicketsConfig{}),
		Profiles: profiles, Images: func() ([]api.Image, error) { return nil, nil },
		Metrics: http.NotFoundHandler(), Ready: func() error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	_, secret, err := auth.Create(t.Context(), s.DB, auth.New{By: auth.LocalOwner, Name: "agent", Role: auth.Runner})
	if err != nil {
		t.Fatal(err)
	}
	token, err := client.ParseToken(secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{URL: server.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return mcp.NewRemote(c), s
}

// connect makes a server on an engine, and a client of it over transports in memory.
func connect(t *testing.T, engine mcp.Engine, s *servetest.Stand, cfg mcp.Config) *stand {
	t.Helper()
	cfg.Engine, cfg.Version, cfg.Logger = engine, "test", slog.New(slog.NewTextHandler(t.Output(), nil))
	server, err := mcp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := &stand{T: t, Stand: s, engine: engine, server: server, ended: make(chan error, 1), tell: make(chan *sdk.ProgressNotificationParams, 1000), changed: make(chan string, 1000)}
	here, there := sdk.NewInMemoryTransports()
	go func() { out.ended <- server.Run(context.WithoutCancel(t.Context()), there) }()
	c := sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { out.tell <- r.Params },
		ResourceListChangedHandler:  func(context.Context, *sdk.ResourceListChangedRequest) { out.changed <- "resources" },
	})
	out.client, err = c.Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = out.client.Close() // a test may have closed it
		server.Close()
	})
	return out
}

// each runs a test on each engine.
func each(t *testing.T, test func(s *stand)) {
	for name, open := range engines {
		t.Run(name, func(t *testing.T) {
			engine, s := open(t)
			test(connect(t, engine, s, mcp.Config{}))
		})
	}
}

// args are arguments of a tool.
type args map[string]any

// fake are arguments of run_files: operations of drivertest.Fake, beside a file.
func fake(ops ...string) args {
	return args{"profile": servetest.Profile, "files": []args{{"path": "a.txt", "text": "hello"}}, "command": append([]string{"fake"}, ops...)}
}

func (a args) with(name string, value any) args { a[name] = value; return a }

// call calls a tool that must answer.
func (s *stand) call(tool string, a any) *sdk.CallToolResult {
	s.Helper()
	r, err := s.client.CallTool(s.T.Context(), &sdk.CallToolParams{Name: tool, Arguments: a})
	if err != nil {
		s.T.Fatalf("%s: %v", tool, err)
	}
	return r
}

// text is the text of an answer.
func text(r *sdk.CallToolResult) string {
	var parts []string
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			parts = append(parts, t.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// ran is the structured answer to a run.
type ran struct {
	Run, State, Outcome, Rule, Message, Hint, Reason string
	ExitCode                                         *int `json:"exit_code"`
	Stdout, Stderr                                   struct {
		Bytes     int64
		Text      string
		Omitted   int64 `json:"omitted_bytes"`
		Truncated bool
	}
	Artifacts []struct{ Path, Type, MIME, URI, Note string }
	More      int `json:"more_artifacts"`
}

func structured[T any](s *stand, r *sdk.CallToolResult) (v T) {
	s.Helper()
	data, err := json.Marshal(r.StructuredContent)
	if err != nil {
		s.T.Fatal(err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		s.T.Fatalf("%s: %v", data, err)
	}
	return v
}

// run calls run_files and returns its structured answer.
func (s *stand) run(a args) ran {
	s.Helper()
	return structured[ran](s, s.call("run_files", a))
}

func connectPlain(t *testing.T, engine mcp.Engine, s *servetest.Stand) *stand {
	t.Helper()
	return connect(t, engine, s, mcp.Config{})
}
