//go:build unix

package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/httpapi"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/serve/servetest"
	"github.com/silk-sandbox/silk/workspace"
)

// stand is a service behind its HTTP door.
type stand struct {
	*servetest.Stand
	url     string
	handler http.Handler
	secrets map[auth.Role]string
	ready   error
	skills  string // directory of skills that may be registered
}

func newStand(t *testing.T, cfg servetest.Config) *stand {
	t.Helper()
	s := &stand{Stand: servetest.New(t, cfg), secrets: map[auth.Role]string{}, skills: t.TempDir()}
	origins, err := auth.ParseOrigins([]string{"app://obsidian.md"})
	if err != nil {
		t.Fatal(err)
	}
	verifier := auth.NewVerifier(s.DB, auth.VerifierConfig{})
	s.handler, err = httpapi.New(httpapi.Config{
		Server: s.Server, DB: s.DB, Verifier: verifier, Tickets: auth.NewTickets(verifier, auth.TicketsConfig{}), Origins: origins,
		Profiles: func() ([]api.Profile, error) { return []api.Profile{{Name: servetest.Profile}}, nil },
		Images:   func() ([]api.Image, error) { return []api.Image{{Digest: servetest.Digest}}, nil },
		SkillDir: func(path string) (string, bool) {
			dir, err := workspace.CheckMount(path, workspace.Root+"/skill", []string{s.skills})
			if err != nil || !filepath.IsAbs(path) {
				return "", false
			}
			info, err := os.Stat(dir)
			return dir, err == nil && info.IsDir()
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "silk_viewers 0") }),
		Ready:   func() error { return s.ready },
		Logger:  slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range auth.Roles {
		_, secret, err := auth.Create(t.Context(), s.DB, auth.New{By: auth.LocalOwner, Name: "test-" + string(role), Role: role})
		if err != nil {
			t.Fatal(err)
		}
		s.secrets[role] = secret.Reveal()
	}
	server := httptest.NewUnstartedServer(s.handler)
	server.Config = httpapi.HTTPServer(s.handler)
	server.Start()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// call is one request.
type call struct {
	role    auth.Role // "" without credentials
	method  string
	path    string
	body    string
	headers map[string]string
	from    string // address of the client; "": as the system chooses
}

// do sends a request and returns the answer with its whole body.
func (s *stand) do(c call) (*http.Response, []byte) {
	s.Helper()
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	if c.method == "" {
		c.method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(s.Context(), c.method, s.url+c.path, body)
	if err != nil {
		s.Fatal(err)
	}
	if c.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.role != "" {
		r.Header.Set("Authorization", "Bearer "+s.secrets[c.role])
	}
	for k, v := range c.headers {
		r.Header.Set(k, v)
		if k == "Host" {
			r.Host = v
		}
	}
	transport := &http.Transport{DisableKeepAlives: true}
	if c.from != "" {
		transport.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}}).DialContext
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		s.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close(), note(c.method, c.path, resp.StatusCode)); err != nil {
		s.Error(err)
	}
	return resp, text
}

// get decodes the answer to a request that must succeed.
func get[T any](s *stand, c call, status int) T {
	s.Helper()
	resp, text := s.do(c)
	var v T
	if resp.StatusCode != status {
		s.Fatalf("%s %s: %d %s, want %d", c.method, c.path, resp.StatusCode, text, status)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil && len(text) > 0 {
		s.Fatalf("%s %s: %v: %s", c.method, c.path, err, text)
	}
	return v
}

func body(ops ...string) string {
	text, _ := json.Marshal(api.RunRequest{Profile: servetest.Profile, Args: append([]string{"fake"}, ops...)})
	return string(text)
}

func wideBody() string {
	return strings.TrimSuffix(body("print:x"), "}") + `,"limits":{"timeout_ms":7200000}}`
}

func (s *stand) submit(ops ...string) api.Run {
	s.Helper()
	return get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: body(ops...)}, http.StatusCreated)
}

// ended waits for the end of a run on its event stream.
func (s *stand) ended(run string) {
	s.Helper()
	_, text := s.do(call{role: auth.Viewer, path: "/v1/runs/" + run + "/stream?stdout=0"})
	if !strings.Contains(string(text), `"type":"exit"`) {
		s.Fatalf("stream %s", text)
	}
}

// TestTour goes through the API as its documentation does.
func TestTour(t *testing.T) {
	s := newStand(t, servetest.Config{})
	r := s.submit("print:out\\n", "eprint:err\\n", "write:a.txt=hello")
	s.ended(r.ID)
	got := get[api.Run](s, call{role: auth.Runner, path: "/v1/runs/" + r.ID}, 200)
	if got.State != api.StateEnded || got.Outcome.Kind != "ok" {
		t.Errorf("run %+v", got)
	}
	for channel, want := range map[string]string{"stdout": "out\n", "stderr": "err\n"} {
		if _, text := s.do(call{role: auth.Runner, path: "/v1/runs/" + r.ID + "/output/" + channel}); string(text) != want {
			t.Errorf("%s is %q", channel, text)
		}
	}
	resp, text := s.do(call{role: auth.Runner, path: "/v1/runs/" + r.ID + "/artifact?path=a.txt", headers: map[string]string{"Range": "bytes=1-3"}})
	if resp.StatusCode != http.StatusPartialContent || string(text) != "ell" || resp.Header.Get("Content-Disposition") != "attachment" || resp.Header.Get("ETag") == "" {
		t.Errorf("a part of an artifact: %d %q %v", resp.StatusCode, text, resp.Header)
	}
	record := get[map[string]any](s, call{role: auth.Runner, path: "/v1/runs/" + r.ID + "/record"}, 200)
	if record["run"] != r.ID || record["client"] != "api" {
		t.Errorf("record %v", record)
	}
	if list := get[api.Page[api.Run]](s, call{role: auth.Runner, path: "/v1/runs?outcome=ok&limit=5"}, 200); len(list.Items) != 1 {
		t.Errorf("list %+v", list)
	}
	plan := get[api.Preview](s, call{role: auth.Runner, method: "POST", path: "/v1/plan", body: `{"profile":"test","args":["fake"],"limits":{"memory_bytes":68719476736},"client":"mcp"}`}, 200)
	if plan.Denial == nil || plan.Denial.Rule != "memory" || plan.Denial.Fix == "" {
		t.Errorf("plan %+v", plan)
	}
	session := get[api.Session](s, call{role: auth.Runner, method: "POST", path: "/v1/sessions", body: `{"name":"n"}`}, 201)
	if again := get[api.Session](s, call{role: auth.Runner, path: "/v1/sessions/" + session.ID}, 200); again != session {
		t.Errorf("session %+v, want %+v", again, session)
	}
	if p := get[api.Page[api.Profile]](s, call{role: auth.Viewer, path: "/v1/profiles"}, 200); len(p.Items) != 1 {
		t.Errorf("profiles %+v", p)
	}
	if p := get[api.Page[api.Image]](s, call{role: auth.Viewer, path: "/v1/images"}, 200); len(p.Items) != 1 {
		t.Errorf("images %+v", p)
	}
	events := get[api.Page[api.AuditEvent]](s, call{role: auth.Owner, path: "/v1/audit?event=sandbox_&limit=1"}, 200)
	if len(events.Items) != 1 || events.Next == "" || events.Items[0].IntentID != r.ID {
		t.Errorf("audit %+v", events)
	}
	if more := get[api.Page[api.AuditEvent]](s, call{role: auth.Owner, path: "/v1/audit?event=sandbox_&limit=1&cursor=" + events.Next}, 200); len(more.Items) != 1 || more.Items[0].Seq >= events.Items[0].Seq {
		t.Errorf("the next page %+v", more)
	}
	made := get[api.MadeToken](s, call{role: auth.Owner, method: "POST", path: "/v1/tokens", body: `{"name":"phone","role":"viewer"}`}, 201)
	s.secrets["phone"] = made.Secret
	get[api.Page[api.Run]](s, call{role: "phone", path: "/v1/runs"}, 200)
	get[api.Token](s, call{role: auth.Owner, method: "DELETE", path: "/v1/tokens/phone"}, 200)
	if resp, _ := s.do(call{role: "phone", path: "/v1/runs"}); resp.StatusCode != 401 {
		t.Errorf("a revoked token: %d", resp.StatusCode)
	}
}

func TestApprovals(t *testing.T) {
	s := newStand(t, servetest.Config{})
	r := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: wideBody()}, 201)
	list := get[api.Page[api.Approval]](s, call{role: auth.Owner, path: "/v1/approvals?state=pending"}, 200)
	if len(list.Items) != 1 || list.Items[0].Run != r.ID || list.Items[0].Code != "" {
		t.Errorf("list %+v", list)
	}
	a := get[api.Approval](s, call{role: auth.Owner, path: "/v1/approvals/" + r.ID}, 200)
	path := "/v1/approvals/" + r.ID + "/decision"
	if resp, text := s.do(call{role: auth.Owner, method: "POST", path: path, body: fmt.Sprintf(`{"grant":true,"hash":%q}`, strings.Repeat("0", 64))}); resp.StatusCode != 409 {
		t.Errorf("another hash: %d %s", resp.StatusCode, text)
	}
	answer := fmt.Sprintf(`{"grant":true,"hash":%q}`, a.Hash)
	if decided := get[api.Approval](s, call{role: auth.Owner, method: "POST", path: path, body: answer}, 200); decided.State != "granted" {
		t.Errorf("decided %+v", decided)
	}
	if resp, _ := s.do(call{role: auth.Owner, method: "POST", path: path, body: answer}); resp.StatusCode != 409 {
		t.Errorf("a second time: %d", resp.StatusCode)
	}
	s.ended(r.ID)
}

// TestProblems: each kind of answer that is not the one that was asked for, with the field that it names.
func TestProblems(t *testing.T) {
	s := newStand(t, servetest.Config{Queue: queue.Config{TokenQueued: 1}, Idle: true})
	pending := get[api.Run](s, call{role: auth.Owner, method: "POST", path: "/v1/runs", body: wideBody()}, 201)
	const unknown = "/v1/runs/01M8MV0DH06CVWRW20Q0DREDWD"
	s.submit("print:x") // the one that may wait
	for _, test := range []struct {
		name   string
		call   call
		status int
		kind   string
		field  string
	}{
		{"no credentials", call{path: "/v1/runs"}, 401, "unauthorized", ""},
		{"bad credentials", call{path: "/v1/runs", headers: map[string]string{"Authorization": "Bearer silk_x"}}, 401, "unauthorized", ""},
		{"another scheme", call{path: "/v1/runs", headers: map[string]string{"Authorization": "Basic eDp5"}}, 401, "unauthorized", ""},
		{"a bad ticket", call{path: unknown + "/stream?ticket=x"}, 401, "unauthorized", ""},
		{"a viewer starts a run", call{role: auth.Viewer, method: "POST", path: "/v1/runs", body: body("print:x")}, 403, "forbidden", ""},
		{"a runner reads the audit trail", call{role: auth.Runner, path: "/v1/audit"}, 403, "forbidden", ""},
		{"a runner makes tokens", call{role: auth.Runner, method: "POST", path: "/v1/tokens", body: `{"name":"x","role":"owner"}`}, 403, "forbidden", ""},
		{"a runner lists approvals", call{role: auth.Runner, path: "/v1/approvals"}, 403, "forbidden", ""},
		{"who asked decides", call{role: auth.Owner, method: "POST", path: "/v1/approvals/" + pending.ID + "/decision", body: fmt.Sprintf(`{"grant":true,"hash":%q}`, pending.Hash)}, 403, "own-request", ""},
		{"an unknown run", call{role: auth.Owner, path: unknown}, 404, "not-found", ""},
		{"the stream of an unknown run", call{role: auth.Owner, path: unknown + "/stream"}, 404, "not-found", ""},
		{"an unknown session", call{role: auth.Owner, path: "/v1/sessions/01M8MV0DH06CVWRW20Q0DREDWD"}, 404, "not-found", ""},
		{"an unknown approval", call{role: auth.Owner, path: "/v1/approvals/01M8MV0DH06CVWRW20Q0DREDWD"}, 404, "not-found", ""},
		{"an unknown token", call{role: auth.Owner, method: "DELETE", path: "/v1/tokens/x"}, 404, "not-found", ""},
		{"a name that is taken", call{role: auth.Owner, method: "POST", path: "/v1/tokens", body: `{"name":"test-owner","role":"owner"}`}, 409, "name", ""},
		{"output before the end", call{role: auth.Owner, path: "/v1/runs/" + pending.ID + "/output/stdout"}, 409, "state", ""},
		{"a record before the start", call{role: auth.Owner, path: "/v1/runs/" + pending.ID + "/record"}, 409, "state", ""},
		{"a cursor that is none", call{role: auth.Owner, path: "/v1/runs/" + pending.ID + "/stream?stdout=x"}, 400, "invalid", "query.stdout"},
		{"a cursor behind the end", call{role: auth.Owner, path: "/v1/runs/" + pending.ID + "/stream?stdout=5"}, 416, "cursor", ""},
		{"a full queue", call{role: auth.Runner, method: "POST", path: "/v1/runs", body: body("print:y")}, 429, "full", ""},
		{"an id that is none", call{role: auth.Owner, path: "/v1/runs/x"}, 422, "invalid", "path.run"},
		{"no body", call{role: auth.Owner, method: "POST", path: "/v1/runs"}, 400, "http", ""},
		{"no JSON", call{role: auth.Owner, method: "POST", path: "/v1/runs", body: `{"args":[`}, 400, "http", ""},
		{"an unknown field", call{role: auth.Owner, method: "POST", path: "/v1/runs", body: `{"argz":["x"]}`}, 422, "invalid", "body.argz"},
		{"a field of the wrong type", call{role: auth.Owner, method: "POST", path: "/v1/runs", body: `{"args":["x"],"limits":{"memory_bytes":"1"}}`}, 422, "invalid", "body.limits.memory_bytes"},
		{"a number that underflows", call{role: auth.Owner, method: "POST", path: "/v1/runs", body: `{"args":["x"],"limits":{"memory_bytes":1e-400,"timeout_ms":1}}`}, 422, "invalid", "body.limits.memory_bytes"},
		{"a number that overflows", call{role: auth.Owner, method: "POST", path: "/v1/runs", body: `{"args":["x"],"limits":{"memory_bytes":9223372036854775808}}`}, 422, "invalid", "body.limits.memory_bytes"},
		{"a terminal that is too wide", call{role: auth.Owner, method: "POST", path: "/v1/runs", body: `{"args":["x"],"terminal":{"columns":65536,"rows":1}}`}, 422, "invalid", "body.terminal.columns"},
		{"a limit below zero", call{role: auth.Owner, method: "POST", path: "/v1/runs", body: `{"args":["x"],"limits":{"timeout_ms":-1}}`}, 422, "invalid", "body.limits.timeout_ms"},
		{"base64 that is none", call{role: auth.Owner, method: "POST", path: "/v1/runs", body: `{"args":["x"],"files":[{"path":"a","b64":"!"}]}`}, 422, "invalid", "body.files[0].b64"},
		{"what nobody grants", call{role: auth.Owner, method: "POST", path: "/v1/runs", body: `{"profile":"test","args":["x"],"isolation":"microvm"}`}, 403, "denied", ""},
		{"an unknown parameter", call{role: auth.Owner, path: "/v1/runs?statee=ended"}, 422, "invalid", "query.statee"},
		{"a page that is too long", call{role: auth.Owner, path: "/v1/runs?limit=501"}, 422, "invalid", "query.limit"},
		{"a cursor of another list", call{role: auth.Owner, path: "/v1/audit?cursor=x"}, 422, "invalid", "query.cursor"},
		{"an unknown path", call{role: auth.Owner, path: "/v2/runs"}, 404, "not-found", ""},
		{"an unknown method", call{role: auth.Owner, method: "DELETE", path: "/v1/runs"}, 405, "method", ""},
		{"a form", call{role: auth.Owner, method: "POST", path: "/v1/runs", body: `a=b`, headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}, 415, "http", "body"},
		{"a page of another origin", call{role: auth.Owner, path: "/v1/runs", headers: map[string]string{"Origin": "https://evil.example"}}, 403, "origin", ""},
		{"another host's name", call{role: auth.Owner, path: "/v1/runs", headers: map[string]string{"Host": "evil.example"}}, 421, "host-header", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			resp, text := s.do(test.call)
			var p api.Problem
			if err := json.Unmarshal(text, &p); err != nil {
				t.Fatalf("%d %s: %v", resp.StatusCode, text, err)
			}
			if resp.StatusCode != test.status || p.Status != test.status || p.Type != "urn:silk:"+test.kind || p.Title == "" || resp.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%d %s, want %d %s", resp.StatusCode, text, test.status, test.kind)
			}
			if test.field != "" && (len(p.Errors) == 0 || p.Errors[0].Field != test.field) {
				t.Errorf("errors %+v, want one of %s", p.Errors, test.field)
			}
			if test.status == 429 && resp.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			if test.status == 401 && resp.Header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
		})
	}
}

func TestBrowsers(t *testing.T) {
	s := newStand(t, servetest.Config{})
	resp, _ := s.do(call{method: "OPTIONS", path: "/v1/runs", headers: map[string]string{"Origin": "app://obsidian.md", "Access-Control-Request-Method": "POST"}})
	if resp.StatusCode != 204 || resp.Header.Get("Access-Control-Allow-Origin") != "app://obsidian.md" || !strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight %d %v", resp.StatusCode, resp.Header)
	}
	resp, text := s.do(call{role: auth.Runner, path: "/v1/runs", headers: map[string]string{"Origin": "app://obsidian.md"}})
	if resp.StatusCode != 200 || resp.Header.Get("Access-Control-Allow-Origin") != "app://obsidian.md" || resp.Header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%d %s %v", resp.StatusCode, text, resp.Header)
	}
}

func TestOpenPaths(t *testing.T) {
	s := newStand(t, servetest.Config{})
	for _, path := range []string{"/healthz", "/readyz", "/docs", "/openapi.yaml", "/schemas/handoff.json", "/schemas/record.json", "/schemas/skill.json"} {
		if resp, text := s.do(call{path: path}); resp.StatusCode != 200 || len(text) == 0 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	s.ready = errors.New("/some/path is full")
	if resp, text := s.do(call{path: "/readyz"}); resp.StatusCode != 503 || strings.Contains(string(text), "/some/path") {
		t.Errorf("not ready: %d %s", resp.StatusCode, text)
	}
	if _, text := s.do(call{path: "/docs"}); strings.Contains(string(text), "://") {
		t.Error("the page names another host")
	}
}

func TestMetricsAreNotForRunners(t *testing.T) {
	s := newStand(t, servetest.Config{})
	for role, want := range map[auth.Role]int{"": 401, auth.Runner: 403, auth.Viewer: 200, auth.Owner: 200} {
		if resp, text := s.do(call{role: role, path: "/metrics"}); resp.StatusCode != want {
			t.Errorf("%q: %d %s", role, resp.StatusCode, text)
		}
	}
}

// TestLocal: who comes over the socket is the owner, and sees the server's profiles; over the port nobody does.
func TestLocal(t *testing.T) {
	s := newStand(t, servetest.Config{})
	if resp, _ := s.do(call{role: auth.Owner, path: "/debug/pprof/"}); resp.StatusCode != 404 {
		t.Errorf("profiles on the port: %d", resp.StatusCode)
	}
	server := httptest.NewUnstartedServer(s.handler)
	server.Config = httpapi.Local(httpapi.HTTPServer(s.handler))
	server.Start()
	defer server.Close()
	s.url = server.URL
	if resp, _ := s.do(call{path: "/debug/pprof/"}); resp.StatusCode != 200 {
		t.Errorf("profiles on the socket: %d", resp.StatusCode)
	}
	get[api.Page[api.Token]](s, call{path: "/v1/tokens"}, 200)
}

// TestCostlyBodies: what would take gigabytes to read is refused before.
func TestCostlyBodies(t *testing.T) {
	s := newStand(t, servetest.Config{})
	var unknown strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&unknown, `"x%d":1,`, i)
	}
	for _, test := range []struct {
		name, text string
		status     int
	}{
		{"arguments", `{"args":["` + strings.Repeat(`","`, 5_000_000) + `"]}`, 413},
		{"unknown", `{` + strings.Repeat(`"x":1,`, 3_000_000) + `"y":1}`, 413},
		{"nested", strings.Repeat("[", 5_000_000), 413},
		{"a few unknown", `{` + unknown.String() + `"y":1}`, 422},
		{"many and short", `{"args":[` + strings.Repeat(`"",`, 100_000) + `""]}`, 422},
	} {
		resp, answer := s.do(call{role: auth.Runner, method: "POST", path: "/v1/runs", body: test.text})
		if resp.StatusCode != test.status || len(answer) > 16<<10 {
			t.Errorf("%s: %d %.200s, want %d", test.name, resp.StatusCode, answer, test.status)
		}
	}
}

// TestSlowBodies: a client without credentials that sends its body byte by byte does not keep its connection.
func TestSlowBodies(t *testing.T) {
	s := newStand(t, servetest.Config{})
	var conns []net.Conn
	for _, path := range []string{"/healthz", "/v1/runs"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx", path); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("a connection is still open: %v", err)
		}
	}
}

func TestIdempotency(t *testing.T) {
	s := newStand(t, servetest.Config{})
	c := call{role: auth.Runner, method: "POST", path: "/v1/runs", body: body("print:x"), headers: map[string]string{"Idempotency-Key": "k"}}
	first := get[api.Run](s, c, 201)
	if again := get[api.Run](s, c, 200); again.ID != first.ID {
		t.Errorf("%s, want %s", again.ID, first.ID)
	}
	c.body = body("print:y")
	if resp, text := s.do(c); resp.StatusCode != 409 {
		t.Errorf("another body: %d %s", resp.StatusCode, text)
	}
}

func TestBadCredentialsSlowDown(t *testing.T) {
	s := newStand(t, servetest.Config{})
	var last int
	for range 30 {
		resp, _ := s.do(call{path: "/v1/runs", headers: map[string]string{"Authorization": "Bearer nope"}})
		last = resp.StatusCode
	}
	if last != 429 {
		t.Errorf("after 30 bad attempts: %d", last)
	}
	if resp, text := s.do(call{role: auth.Runner, path: "/v1/runs"}); resp.StatusCode != 200 {
		t.Errorf("good credentials from the same address: %d %s", resp.StatusCode, text)
	}
	if resp, text := s.do(call{path: "/v1/runs"}); resp.StatusCode != 401 {
		t.Errorf("no credentials, as a page's picture has none: %d %s", resp.StatusCode, text)
	}
}
