package client

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/testenv"
)

func mustToken(t *testing.T) Token {
	t.Helper()
	token, err := ParseToken(" silk_secret\n")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// serverOf is a server with one handler, and a client of it.
func serverOf(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	testenv.NoLeaks(t)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL + "/", Token: mustToken(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	if _, ok := v.(api.Problem); ok {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func TestAddresses(t *testing.T) {
	token := mustToken(t)
	pin := strings.Repeat("ab", 32)
	for _, test := range []struct {
		name string
		cfg  Config
		base string // or
		err  string
	}{
		{"loopback", Config{URL: "http://127.0.0.1:7455", Token: token}, "http://127.0.0.1:7455", ""},
		{"loopback of version 6", Config{URL: "http://[::1]:7455/", Token: token}, "http://[::1]:7455", ""},
		{"behind a path", Config{URL: "https://lab.example/silk/", Token: token}, "https://lab.example/silk", ""},
		{"a socket", Config{URL: "unix:///run/silk.sock"}, "http://localhost", ""},
		{"a fingerprint", Config{URL: "https://lab", Token: token, Fingerprint: pin}, "https://lab", ""},
		{"a fingerprint as others print it", Config{URL: "https://lab", Fingerprint: "SHA256:" + strings.TrimSuffix(strings.Repeat("AB:", 32), ":")}, "https://lab", ""},
		{"without a token in the clear", Config{URL: "http://lab:7455"}, "http://lab:7455", ""},
		{"a token in the clear", Config{URL: "http://lab:7455", Token: token}, "", "could read the token"},
		{"a token in the clear to a name that only begins like loopback", Config{URL: "http://127.0.0.1.example:7455", Token: token}, "", "could read the token"},
		{"nothing", Config{}, "", "begins with http://"},
		{"no scheme", Config{URL: "localhost:7455"}, "", "and nothing else"},
		{"another scheme", Config{URL: "ftp://lab"}, "", "begins with http://"},
		{"no host", Config{URL: "https:///v1"}, "", "names no host"},
		{"a password", Config{URL: "https://me:hunter2@lab"}, "", "no user"},
		{"an address that cannot be read", Config{URL: "https://me:hunter2@la b"}, "", "read the server's address"},
		{"a query", Config{URL: "https://lab?ticket=x"}, "", "no query"},
		{"a socket with two slashes", Config{URL: "unix://run/silk.sock"}, "", "three slashes"},
		{"a fingerprint without TLS", Config{URL: "http://127.0.0.1", Fingerprint: pin}, "", "of a certificate"},
		{"a fingerprint that is none", Config{URL: "https://lab", Fingerprint: pin[2:]}, "", "64 hexadecimal digits"},
		{"a client of one's own on a socket", Config{URL: "unix:///run/silk.sock", HTTPClient: &http.Client{}}, "", "of the caller's"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := New(test.cfg)
			switch {
			case test.err == "" && err != nil:
				t.Error(err)
			case test.err == "" && c.base != test.base:
				t.Errorf("got %s, want %s", c.base, test.base)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("got %v, want %q", err, test.err)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("the error repeats the password: %v", err)
			}
		})
	}
}

func TestParseToken(t *testing.T) {
	for _, text := range []string{"", " \n", "a b", "a\nb", "ä", "a\x00"} {
		if token, err := ParseToken(text); err == nil {
			t.Errorf("%q was taken for the token %q", text, token.Reveal())
		} else if text := strings.TrimSpace(text); text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error repeats the text: %v", err)
		}
	}
	c, err := New(Config{URL: "https://lab", Token: mustToken(t)})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v %#v %v", c, c, Config{Token: mustToken(t)}); strings.Contains(text, "silk_secret") {
		t.Errorf("a client shows its token: %s", text)
	}
}

// Each method, by the request that it makes.
func TestRequests(t *testing.T) {
	const run = testRun
	ctx := t.Context()
	for _, test := range []struct {
		want string // method, address, body
		call func(*Client) error
	}{
		{"GET /v1/runs/" + run, func(c *Client) error { _, err := c.Run(ctx, run); return err }},
		{"GET /v1/runs/a%2Fb%3Fc", func(c *Client) error { _, err := c.Run(ctx, "a/b?c"); return err }},
		{"POST /v1/runs/" + run + "/cancel", func(c *Client) error { return c.Cancel(ctx, run) }},
		{"POST /v1/runs/" + run + `/stdin {"data":"<x>"}`, func(c *Client) error { _, err := c.Input(ctx, run, api.Input{Data: "<x>"}); return err }},
		{"POST /v1/runs/" + run + `/size {"columns":80,"rows":24}`, func(c *Client) error { return c.Resize(ctx, run, api.Size{Columns: 80, Rows: 24}) }},
		{"GET /v1/runs/" + run + "/record", func(c *Client) error { _, err := c.Record(ctx, run); return err }},
		{"GET /v1/runs/" + run + "/envelope", func(c *Client) error { _, err := c.Envelope(ctx, run); return err }},
		{"GET /v1/runs/" + run + "/bundle", func(c *Client) error {
			out, err := c.Bundle(ctx, run)
			if err == nil {
				out.Close()
			}
			return err
		}},
		{"GET /v1/runs/" + run + "/output/stderr", func(c *Client) error {
			out, err := c.Output(ctx, run, "stderr")
			if err == nil {
				out.Close()
			}
			return err
		}},
		{`POST /v1/sessions {"name":"n"}`, func(c *Client) error { _, err := c.NewSession(ctx, "n"); return err }},
		{"GET /v1/sessions/S", func(c *Client) error { _, err := c.Session(ctx, "S"); return err }},
		{"GET /v1/approvals?state=pending", func(c *Client) error { _, err := all(c.Approvals(ctx, "pending")); return err }},
		{"GET /v1/approvals/" + run, func(c *Client) error { _, err := c.Approval(ctx, run); return err }},
		{"POST /v1/approvals/" + run + `/decision {"grant":true,"hash":"h","for_hours":8}`, func(c *Client) error {
			_, err := c.Decide(ctx, run, api.DecisionRequest{Grant: true, Hash: "h", ForHours: 8})
			return err
		}},
		{"GET /v1/profiles", func(c *Client) error { _, err := c.Profiles(ctx); return err }},
		{"GET /v1/images", func(c *Client) error { _, err := c.Images(ctx); return err }},
		{"GET /v1/audit?event=sandbox_&run=" + run, func(c *Client) error { _, err := all(c.Audit(ctx, AuditFilter{"sandbox_", run})); return err }},
		{"GET /v1/tokens", func(c *Client) error { _, err := c.Tokens(ctx); return err }},
		{`POST /v1/tokens {"name":"n","role":"viewer"}`, func(c *Client) error {
			_, err := c.CreateToken(ctx, api.NewToken{Name: "n", Role: "viewer"})
			return err
		}},
		{"DELETE /v1/tokens/a%20b", func(c *Client) error { _, err := c.RevokeToken(ctx, "a b"); return err }},
		{`POST /v1/tickets {"path":"/v1/runs/` + run + `/stream"}`, func(c *Client) error { _, err := c.Ticket(ctx, run); return err }},
		{"GET /readyz", func(c *Client) error { return c.Ready(ctx) }},
		{"GET /v1/runs?cursor=B&limit=7&outcome=ok&profile=lab%3Atext&session=S&state=ended", func(c *Client) error {
			_, err := all(c.Runs(ctx, RunFilter{State: api.StateEnded, Outcome: "ok", Profile: "lab:text", Session: "S", Before: "B", Page: 7}))
			return err
		}},
	} {
		t.Run(strings.Fields(test.want)[1], func(t *testing.T) {
			var got string
			c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = strings.TrimSpace(r.Method + " " + r.RequestURI + " " + strings.TrimSpace(string(body)))
				if r.Header.Get("Authorization") != "Bearer silk_secret" || len(body) > 0 && r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("headers are %v", r.Header)
				}
				answer(w, 200, map[string]any{})
			})
			if err := test.call(c); err != nil {
				t.Error(err)
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(http.ResponseWriter)
		want   api.Problem
	}{
		{"a problem", func(w http.ResponseWriter) {
			answer(w, 403, api.Problem{Type: "urn:silk:denied", Title: "policy refuses this", Status: 200, Rule: "network", Run: testRun})
		}, api.Problem{Type: "urn:silk:denied", Title: "policy refuses this", Status: 403, Rule: "network", Run: testRun}},
		{"a page of a proxy", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(418)
			_, _ = io.WriteString(w, "<html>")
		}, api.Problem{Type: "urn:silk:http", Title: "the server answers 418 I'm a teapot", Status: 418}},
		{"a problem that is none", func(w http.ResponseWriter) { answer(w, 400, "") }, api.Problem{Type: "urn:silk:http", Title: "the server answers 400 Bad Request", Status: 400}},
		{"a full queue", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "7")
			answer(w, 429, api.Problem{Type: "urn:silk:full", Title: "the queue is full"})
		}, api.Problem{Type: "urn:silk:full", Title: "the queue is full", Status: 429, RetryAfterMs: 7000}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := serverOf(t, func(w http.ResponseWriter, _ *http.Request) { test.answer(w) })
			_, err := c.Run(t.Context(), testRun)
			var p *api.Problem
			if !errors.As(err, &p) {
				t.Fatalf("got %v, want a problem", err)
			}
			if diff := cmp.Diff(test.want, *p); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("an answer that is no JSON", func(t *testing.T) {
		c := serverOf(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
		if _, err := c.Run(t.Context(), testRun); err == nil || errors.As(err, new(*api.Problem)) {
			t.Errorf("got %v, want an error about the answer", err)
		}
	})
}

// A token is for one server: it must not go where that server points.
func TestNoRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("was sent there: %v", r.Header) }))
	defer other.Close()
	c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	var p *api.Problem
	if _, err := c.Run(t.Context(), testRun); !errors.As(err, &p) || p.Status != http.StatusTemporaryRedirect {
		t.Errorf("got %v, want the redirect as a problem", err)
	}
	if _, err := allFrames(t.Context(), c.Watch(testRun, Cursor{})); err == nil || !errors.As(err, &p) {
		t.Errorf("got %v of a stream, want a problem", err)
	}
}

// Submit asks again with the same key when there was no answer, and only then.
func TestSubmitAgain(t *testing.T) {
	var keys []string
	status := []int{0, 503, 201}
	c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		switch s := status[len(keys)-1]; s {
		case 0:
			panic(http.ErrAbortHandler) // the connection breaks
		case 201:
			answer(w, s, api.Run{ID: testRun})
		default:
			answer(w, s, api.Problem{Title: "no"})
		}
	})
	run, err := c.Submit(t.Context(), api.RunRequest{}, "")
	if err != nil || run.ID != testRun || len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[0] != keys[2] {
		t.Errorf("got %v, %v with the keys %q", run, err, keys)
	}
	keys, status = nil, []int{429}
	if _, err := c.Submit(t.Context(), api.RunRequest{}, "mine"); !errors.As(err, new(*api.Problem)) || len(keys) != 1 || keys[0] != "mine" {
		t.Errorf("got %v with the keys %q, want one attempt", err, keys)
	}
}

// What only looks is asked again, a wish is not.
func TestAskAgain(t *testing.T) {
	var asked atomic.Int64
	c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch n := asked.Add(1); {
		case n == 1:
			panic(http.ErrAbortHandler)
		case n == 2:
			answer(w, 429, api.Problem{Type: "urn:silk:rate", Title: "too many requests", RetryAfterMs: 10})
		case r.Method == http.MethodPost || n > 3:
			t.Error("it was asked again")
		default:
			answer(w, 200, api.Run{ID: testRun})
		}
	})
	if r, err := c.Run(t.Context(), testRun); err != nil || r.ID != testRun {
		t.Errorf("got %v, %v", r, err)
	}
	for asked.Store(0); asked.Load() < 2; {
		if _, err := c.Input(t.Context(), testRun, api.Input{Data: "x"}); err == nil {
			t.Error("there was no answer, and no error")
		}
	}
}

// A piece of input that says where it begins is sent again when no answer has come.
func TestInputAgain(t *testing.T) {
	var asked atomic.Int32
	c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if string(text) != `{"data":"x","offset":5}`+"\n" {
			t.Errorf("it was sent %s", text)
		}
		if asked.Add(1) < 3 {
			panic(http.ErrAbortHandler)
		}
		answer(w, 200, api.InputTaken{Offset: 6})
	})
	at := int64(5)
	if next, err := c.Input(t.Context(), testRun, api.Input{Data: "x", Offset: &at}); err != nil || next != 6 || asked.Load() != 3 {
		t.Errorf("%d, %v after %d attempts", next, err, asked.Load())
	}
}

func TestSubmitTooLarge(t *testing.T) {
	c := serverOf(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	text := strings.Repeat("x", MaxRequestBytes)
	var large *TooLargeError
	if _, err := c.Submit(t.Context(), api.RunRequest{Files: []api.File{{Path: "f", Text: &text}}}, ""); !errors.As(err, &large) || large.Bytes <= MaxRequestBytes {
		t.Errorf("got %v, want a TooLargeError", err)
	}
}

func TestPages(t *testing.T) {
	asked := 0
	next := map[string]string{"": "b", "b": "c"}
	c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		at := r.FormValue("cursor")
		answer(w, 200, api.Page[api.Run]{Items: []api.Run{{ID: at + "1"}, {ID: at + "2"}}, Next: next[at]})
	})
	runs, err := all(c.Runs(t.Context(), RunFilter{}))
	var ids []string
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	if diff := cmp.Diff([]string{"1", "2", "b1", "b2", "c1", "c2"}, ids); diff != "" || err != nil {
		t.Error(diff, err)
	}
	asked = 0
	for range c.Runs(t.Context(), RunFilter{}) {
		break
	}
	if asked != 1 {
		t.Errorf("%d pages were asked for to read one run", asked)
	}
	next["c"] = "c"
	if _, err := all(c.Runs(t.Context(), RunFilter{})); err == nil {
		t.Error("a list that never ends is read for ever")
	}
}

func TestFingerprint(t *testing.T) {
	testenv.NoLeaks(t)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, api.Run{ID: testRun}) }))
	defer s.Close()
	s.Config.ErrorLog = nil
	sum := sha256.Sum256(s.Certificate().Raw)
	ask := func(pin string) error {
		c, err := New(Config{URL: s.URL, Fingerprint: pin, Token: mustToken(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Run(t.Context(), testRun)
		return err
	}
	if err := ask(fmt.Sprintf("%x", sum)); err != nil {
		t.Errorf("the right fingerprint: %v", err)
	}
	sum[3] ^= 1
	if err := ask(fmt.Sprintf("%x", sum)); err == nil || !strings.Contains(err.Error(), "not the one that was named") {
		t.Errorf("another fingerprint: %v", err)
	}
	if err := ask(""); err == nil {
		t.Error("a certificate that nobody signed was taken")
	}
}

func TestSocket(t *testing.T) {
	testenv.NoLeaks(t)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path) //nolint:noctx // it does not wait
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a token is sent that there is not")
		}
		answer(w, 200, api.Run{ID: testRun})
	})}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	c, err := New(Config{URL: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Run(t.Context(), testRun); err != nil || r.ID != testRun {
		t.Errorf("got %v, %v", r, err)
	}
	c.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-served
}

// cutting writes the answer to a request for an artifact, but no more than most bytes of it.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) > c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

func TestArtifact(t *testing.T) {
	content := strings.Repeat("0123456789", 1000)
	var asked atomic.Int32
	tag := func() string { return `"one"` }
	c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		if r.FormValue("path") != "a/ü b?&.txt" {
			answer(w, 404, api.Problem{Title: "there is no such thing"})
			return
		}
		w.Header().Set("ETag", tag())
		if n > 1 && r.Header.Get("Range") != "" && r.Header.Get("Range") != "bytes=9990-" && r.Header.Get("If-Range") == "" {
			t.Error("a part is asked for of whatever is there")
		}
		most := 3000
		if n == 2 {
			most = 0 // an answer without a byte
		}
		http.ServeContent(&cutting{w, most}, r, "", testTime, strings.NewReader(content))
	})
	read := func(from int64) (string, error) {
		in, err := c.Artifact(t.Context(), testRun, "a/ü b?&.txt", from)
		if err != nil {
			return "", err
		}
		defer in.Close()
		text, err := io.ReadAll(in)
		return string(text), err
	}
	if got, err := read(0); got != content || err != nil || asked.Load() < 5 {
		t.Errorf("got %d bytes, %v in %d answers; want %d", len(got), err, asked.Load(), len(content))
	}
	if got, err := read(9990); got != content[9990:] || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	tag = func() string { return fmt.Sprintf(`"%d"`, asked.Load()) }
	if got, err := read(0); err == nil || !strings.Contains(err.Error(), "another file") || !strings.HasPrefix(content, got) {
		t.Errorf("got %d bytes and %v of a file that changes", len(got), err)
	}
	if _, err := c.Artifact(t.Context(), testRun, "other", 0); !errors.As(err, new(*api.Problem)) {
		t.Errorf("got %v, want a problem", err)
	}
}

// A server, or what is before it, that knows no ranges sends all of it again.
func TestArtifactWithoutRanges(t *testing.T) {
	c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		r.Header.Del("Range")
		http.ServeContent(&cutting{w, 0}, r, "", testTime, strings.NewReader("abc"))
	})
	if _, err := c.Artifact(t.Context(), testRun, "f", 1); err == nil || !strings.Contains(err.Error(), "from byte 0, and not from byte 1") {
		t.Errorf("got %v", err)
	}
}

func TestArtifactThatStaysCutOff(t *testing.T) {
	c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(&cutting{w, 0}, r, "", testTime, strings.NewReader("abc"))
	})
	in, err := c.Artifact(t.Context(), testRun, "f", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if got, err := io.ReadAll(in); err == nil || len(got) > 0 {
		t.Errorf("got %q and %v", got, err)
	}
}

func TestParseRange(t *testing.T) {
	if from, size, err := parseRange("bytes 5-9/10"); from != 5 || size != 10 || err != nil {
		t.Error(from, size, err)
	}
	for _, text := range []string{"", "bytes", "bytes */10", "bytes 5-8/10", "bytes -1-9/10", "bytes 5-9/*", "5"} {
		if _, _, err := parseRange(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
