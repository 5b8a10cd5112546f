//go:build unix

package mcp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/mcp"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// web is a server of MCP over HTTP.
type web struct {
	*testing.T
	stand   *servetest.Stand
	url     string
	secrets map[string]string
}

func newWeb(t *testing.T) *web {
	t.Helper()
	engine, s := openLocal(t)
	origins, err := auth.ParseOrigins([]string{"app://obsidian.md"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := mcp.NewHandler(mcp.HTTPConfig{
		Verify: auth.NewVerifier(s.DB, auth.VerifierConfig{}).Verify,
		Open: func(id auth.Identity) (*mcp.Server, error) {
			return mcp.New(mcp.Config{Engine: engine.For(id)})
		},
		Origins: origins,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(h.Close)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // first
	w := &web{T: t, stand: s, url: server.URL, secrets: map[string]string{}}
	for name, role := range map[string]auth.Role{"runner": auth.Runner, "other": auth.Runner, "viewer": auth.Viewer, "owner": auth.Owner} {
		_, secret, err := auth.Create(t.Context(), s.DB, auth.New{By: auth.LocalOwner, Name: "test-" + name, Role: role})
		if err != nil {
			t.Fatal(err)
		}
		w.secrets[name] = secret.Reveal()
	}
	return w
}

// bearer shows a token with each request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

func (w *web) connect(name string) *stand {
	w.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil)
	session, err := c.Connect(w.Context(), &sdk.StreamableClientTransport{Endpoint: w.url, HTTPClient: &http.Client{Transport: bearer{w.secrets[name]}}, MaxRetries: -1}, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { session.Close() })
	return &stand{T: w.T, Stand: w.stand, client: session}
}

// TestHTTP: who asks sees what its token may see.
func TestHTTP(t *testing.T) {
	w := newWeb(t)
	runner, other, viewer, owner := w.connect("runner"), w.connect("other"), w.connect("viewer"), w.connect("owner")
	got := runner.run(fake("print:x"))
	if got.Outcome != "ok" || got.Stdout.Text != "x" {
		t.Fatalf("answer %+v", got)
	}
	for name, s := range map[string]*stand{"its own": runner, "a viewer": viewer, "the owner": owner} {
		if r := s.call("run_status", args{"run": got.Run}); r.IsError {
			t.Errorf("%s does not see the run: %s", name, text(r))
		}
	}
	for _, tool := range []string{"run_status", "get_record", "cancel_run"} {
		if r := other.call(tool, args{"run": got.Run}); !r.IsError || !strings.Contains(text(r), "no such thing") {
			t.Errorf("%s for another runner: %s", tool, text(r))
		}
	}
	if r := viewer.call("run_files", fake("print:x")); !r.IsError || !strings.Contains(text(r), "role") {
		t.Errorf("a viewer runs: %s", text(r))
	}
	list := func(s *stand) string {
		whole, err := s.client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "silk://runs"})
		if err != nil {
			t.Fatal(err)
		}
		return whole.Contents[0].Text
	}
	if strings.Contains(list(other), got.Run) || !strings.Contains(list(owner), got.Run) {
		t.Errorf("lists: %s, %s", list(other), list(owner))
	}
}

// TestHTTPClientGone: a connection that breaks, and a session that is given up, end what runs for them.
func TestHTTPClientGone(t *testing.T) {
	w := newWeb(t)
	started := begun(w.stand)
	s := w.connect("runner")
	watcher := w.connect("owner")
	background := s.run(fake("sleep").with("background", true))
	wait(t, started, "the start")
	ctx, cut := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(
		`{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"run_files","arguments":{"profile":"test","files":[{"path":"a","text":""}],"command":["fake","sleep"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": s.client.ID(), "Authorization": "Bearer " + w.secrets["runner"]} {
		r.Header.Set(k, v)
	}
	go func() {
		if resp, err := http.DefaultTransport.RoundTrip(r); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	foreground := wait(t, started, "the second start")
	cut()
	if got := watcher.outcome(foreground); got != "canceled" {
		t.Errorf("the call whose connection broke ends %s", got)
	}
	if got := structured[ran](watcher, watcher.call("run_status", args{"run": background.Run})); got.State == "ended" {
		t.Errorf("the one in the background: %+v", got)
	}
	if err := s.client.Close(); err != nil {
		t.Error(err)
	}
	if got := watcher.outcome(background.Run); got != "canceled" {
		t.Errorf("the one in the background ends %s", got)
	}
}

// TestHTTPSessionGivenUp: the end of a session ends the call that waits in it, whose connection is still there.
func TestHTTPSessionGivenUp(t *testing.T) {
	w := newWeb(t)
	started := begun(w.stand)
	watcher := w.connect("owner")
	s := w.connect("runner")
	answered := make(chan error, 1)
	go func() {
		_, err := s.client.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_files", Arguments: fake("sleep")})
		answered <- err
	}()
	run := wait(t, started, "the start")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, w.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.secrets["runner"])
	r.Header.Set("Mcp-Session-Id", s.client.ID())
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := watcher.outcome(run); got != "canceled" {
		t.Errorf("the run ends %s", got)
	}
	wait(t, answered, "an answer, whatever it is")
}

// TestHTTPDoor: who does not show a good token, comes from a page, or by another name, gets nothing.
func TestHTTPDoor(t *testing.T) {
	w := newWeb(t)
	session := w.connect("runner").client.ID()
	for _, test := range []struct {
		name   string
		header map[string]string
		want   int
	}{
		{"no token", map[string]string{"Authorization": ""}, 401},
		{"a bad token", map[string]string{"Authorization": "Bearer silk_x"}, 401},
		{"another scheme", map[string]string{"Authorization": "Basic " + w.secrets["runner"]}, 401},
		{"a page", map[string]string{"Origin": "https://evil.example"}, 403},
		{"a page of this host", map[string]string{"Origin": "http://localhost:8080"}, 403},
		{"an allowed page", map[string]string{"Origin": "app://obsidian.md"}, 200},
		{"another name", map[string]string{"Host": "evil.example"}, 421},
		{"the session of another", map[string]string{"Authorization": "Bearer " + w.secrets["other"], "Mcp-Session-Id": session}, 403},
		{"one's own", map[string]string{"Mcp-Session-Id": session}, 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + w.secrets["runner"], "Mcp-Session-Id": session} {
			r.Header.Set(k, v)
		}
		for k, v := range test.header {
			if k == "Host" {
				r.Host = v
			}
			r.Header.Set(k, v)
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != test.want {
			t.Errorf("%s: %d %s, want %d", test.name, resp.StatusCode, body, test.want)
		}
	}
	huge, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"`+strings.Repeat("x", 17<<20)+`"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + w.secrets["runner"]} {
		huge.Header.Set(k, v)
	}
	if resp, err := http.DefaultTransport.RoundTrip(huge); err == nil {
		if resp.Body.Close(); resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a huge body: %d", resp.StatusCode)
		}
	}
}
