package alert

import (
	"bytes"
	"context"
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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/internal/webhook"
)

const testKey = "a key of more than sixteen bytes"

func secret(t *testing.T, text string, perm os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, perm); err != nil {
		t.Fatal(err)
	}
	return name
}

// private is a directory that others cannot write, whatever the umask.
func private(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func sinks(t *testing.T, cfg Config) *Sinks {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// trail collects what is audited.
type trail struct {
	mu     sync.Mutex
	events []string
}

func (l *trail) append(ctx context.Context, e *audit.Event) error {
	if ctx.Err() != nil { // as a database would
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, fmt.Sprint(e.Run, " ", e.Name, " ", string(e.Data)))
	return nil
}

func TestStderr(t *testing.T) {
	var out bytes.Buffer
	if err := sinks(t, Config{Stderr: &out}).Raise(t.Context(), sample()); err != nil {
		t.Error(err)
	}
	if want := sample().Line(false) + "\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestNobody(t *testing.T) {
	if err := sinks(t, Config{}).Raise(t.Context(), sample()); err != nil {
		t.Error(err)
	}
}

// receiver is a webhook that answers with one status after another, the last one for ever.
func receiver(t *testing.T, statuses ...int) (url string, got *[]*http.Request, bodies *[]string) {
	t.Helper()
	var mu sync.Mutex
	got, bodies = &[]*http.Request{}, &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*got, *bodies = append(*got, r), append(*bodies, string(body))
		status := statuses[min(len(*got), len(statuses))-1]
		if status/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL, got, bodies
}

func TestWebhook(t *testing.T) {
	for _, test := range []struct {
		name     string
		statuses []int
		calls    int
		failure  string
	}{
		{"told", []int{200}, 1, ""},
		{"told, nothing to say", []int{204}, 1, ""},
		{"the second attempt", []int{503, 200}, 2, ""},
		{"too many requests, then room", []int{429, 202}, 2, ""},
		{"down", []int{500}, 2, "answered 500 Internal Server Error (twice)"},
		{"down in two ways", []int{500, 404}, 2, "500 Internal Server Error; then the server answered 404"},
		{"refused", []int{401}, 1, "401"},
		{"sent elsewhere", []int{307, 200}, 1, "307"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, got, bodies := receiver(t, test.statuses...)
			var l trail
			s := sinks(t, Config{Webhooks: []Webhook{{URL: url + "/hook?token=hidden", SecretFile: secret(t, testKey+"\n", 0o600)}}, Audit: l.append})
			err := s.Raise(t.Context(), sample())
			if (err != nil) != (test.failure != "") || err != nil && (!strings.Contains(err.Error(), test.failure) || strings.Contains(err.Error(), "hidden")) {
				t.Errorf("got %v, want %q", err, test.failure)
			}
			if (len(l.events) == 1) != (test.failure != "") || strings.Contains(strings.Join(l.events, ""), `\n`) {
				t.Errorf("audited: %v", l.events)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
			if len(*got) != test.calls {
				t.Fatalf("%d calls, want %d", len(*got), test.calls)
			}
			for i, r := range *got {
				body := (*bodies)[i]
				var a wire
				if err := json.Unmarshal([]byte(body), &a); err != nil || a.Schema != Schema || a.Argument != "/etc/passwd" {
					t.Errorf("body %s, %v", body, err)
				}
				id, at := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
				if r.Method != http.MethodPost || r.URL.Path != "/hook" || id != (*got)[0].Header.Get("Webhook-Id") || !strings.Contains(id, sample().Run) {
					t.Errorf("%s %s, id %q", r.Method, r.URL, id)
				}
				if got, want := r.Header.Get("Webhook-Signature"), "v1,"+webhook.Sign([]byte(testKey), id, at, []byte(body)); got != want {
					t.Errorf("signature %q, want %q", got, want)
				}
			}
		})
	}
}

// A server that never answers costs the end of a run no more than the timeout, whatever else is told meanwhile.
func TestTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out bytes.Buffer
	var said trail
	const most = 200 * time.Millisecond
	hook := Webhook{URL: "http://" + l.Addr().String(), SecretFile: secret(t, testKey, 0o600), Timeout: most}
	s := sinks(t, Config{Stderr: &out, Webhooks: []Webhook{hook, hook, hook}, Audit: said.append})
	began := time.Now()
	err = s.Raise(t.Context(), sample())
	if took := time.Since(began); took > 10*most || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it took %v: %v", took, err)
	}
	if out.Len() == 0 || len(said.events) != 3 {
		t.Errorf("stderr has %q, the trail %v", out.String(), said.events)
	}
}

// stuck is a writer that does not come back, as on a file server that is gone.
type stuck struct{ until chan struct{} }

func (s stuck) Write([]byte) (int, error) {
	<-s.until
	return 0, errors.New("too late")
}

func TestStuckSinkIsLeftBehind(t *testing.T) {
	until := make(chan struct{})
	defer close(until)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var said trail
	name := filepath.Join(private(t), "alerts")
	err := sinks(t, Config{Stderr: stuck{until}, Files: []string{name}, Audit: said.append}).Raise(ctx, sample())
	if !errors.Is(err, context.DeadlineExceeded) || len(said.events) != 1 || !strings.Contains(said.events[0], `alert_failed {"error":"gave up: context deadline exceeded","intentId":"01JF4Z7M6W8V4Y2K3T5R9QXBCD","sink":"stderr"}`) {
		t.Errorf("got %v; audited %v", err, said.events)
	}
	if _, err := os.Stat(name); err != nil {
		t.Errorf("the other sink was not told: %v", err)
	}
}

func TestFailureIsLogged(t *testing.T) {
	var log bytes.Buffer
	s := sinks(t, Config{Files: []string{"/nonexistent/alerts"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := s.Raise(t.Context(), sample()); err == nil || !strings.Contains(log.String(), "run=01JF4Z7M6W8V4Y2K3T5R9QXBCD") || !strings.Contains(log.String(), "/nonexistent/alerts") {
		t.Errorf("got %v, logged %s", err, log.String())
	}
	s = sinks(t, Config{Files: []string{"/nonexistent/alerts"}, Audit: func(context.Context, *audit.Event) error { return errors.New("no room") }})
	if err := s.Raise(t.Context(), sample()); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("got %v", err)
	}
}

func TestFile(t *testing.T) {
	name := filepath.Join(private(t), "alerts.jsonl")
	if err := os.WriteFile(name, []byte(`{"schema":"silk.al`), 0o600); err != nil { // a line that a full disk cut off
		t.Fatal(err)
	}
	s := sinks(t, Config{Files: []string{name}})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := s.Raise(t.Context(), sample()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	whole := 0
	for _, line := range lines[1:] {
		var a wire
		if line == "" { // two began a new line at once
			continue
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil || a.Rule != "file.accounts" {
			t.Errorf("line %q: %v", line, err)
		}
		whole++
	}
	if whole != 20 {
		t.Errorf("%d alerts, want 20", whole)
	}
}

func TestFileIsMadeForItsOwnerAlone(t *testing.T) {
	name := filepath.Join(private(t), "alerts.jsonl")
	if err := sinks(t, Config{Files: []string{name}}).Raise(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// Both Raise and Check refuse what must not be written to, or cannot be.
func TestUnfitSinks(t *testing.T) {
	dir := private(t)
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.WriteFile(open, nil, 0o600), os.Chmod(open, 0o622)); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	url, told, _ := receiver(t, 200)
	hook := func(secretFile string) Config {
		return Config{Webhooks: []Webhook{{URL: url, SecretFile: secretFile}}}
	}
	for name, cfg := range map[string]Config{
		"a file that others write":      {Files: []string{open}},
		"a link":                        {Files: []string{link}},
		"a directory":                   {Files: []string{dir}},
		"a directory that is not there": {Files: []string{filepath.Join(dir, "no", "alerts")}},
		"a file as directory":           {Files: []string{filepath.Join(open, "alerts")}},
		"nobody listens":                {Webhooks: []Webhook{{URL: "http://127.0.0.1:1/?token=hidden", SecretFile: secret(t, testKey, 0o600)}}},
		"no secret":                     hook(filepath.Join(dir, "nowhere")),
		"a secret that others read":     hook(secret(t, testKey, 0o644)),
		"a short secret":                hook(secret(t, "short", 0o600)),
		"a long secret":                 hook(secret(t, strings.Repeat("x", 2000), 0o600)),
		"a broken secret":               hook(secret(t, "whsec_&&&&", 0o600)),
	} {
		s := sinks(t, cfg)
		if err := s.Raise(t.Context(), sample()); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
		if found := s.Check(t.Context()); len(found) != 1 || found[0].Err == nil || found[0].Sink == "" {
			t.Errorf("%s: checked %+v", name, found)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "target")); err == nil || len(*told) > 0 {
		t.Error("the link was followed, or the server told")
	}
}

// Check changes nothing and tells nobody.
func TestCheck(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	url, got, _ := receiver(t, 200)
	name := filepath.Join(private(t), "alerts")
	key := secret(t, testKey, 0o600)
	found := sinks(t, Config{Stderr: io.Discard, Files: []string{name}, Webhooks: []Webhook{{URL: url + "/hook", SecretFile: key}, {URL: server.URL, SecretFile: key}}}).Check(t.Context())
	if len(found) != 4 || found[0].Err != nil || found[1].Err != nil || found[2].Err != nil || found[2].Sink != "webhook "+url {
		t.Errorf("got %+v", found)
	}
	if found[3].Err == nil || !strings.Contains(found[3].Err.Error(), "certificate") {
		t.Errorf("a server that nobody vouches for: %v", found[3].Err)
	}
	if _, err := os.Stat(name); err == nil || len(*got) > 0 || requests.Load() > 0 {
		t.Error("the check left a file, or told a server")
	}
}

func TestWebhookCheck(t *testing.T) {
	good := Webhook{URL: "https://example.org/hook", SecretFile: "/etc/silk/key"}
	for name, change := range map[string]func(*Webhook){
		"no URL":                func(w *Webhook) { w.URL = "" },
		"plain to elsewhere":    func(w *Webhook) { w.URL = "http://example.org/hook" },
		"plain to a private IP": func(w *Webhook) { w.URL = "http://10.0.0.1/hook" },
		"a password":            func(w *Webhook) { w.URL = "https://user:hidden@example.org/hook" },
		"a fragment":            func(w *Webhook) { w.URL = "https://example.org/#a" },
		"another scheme":        func(w *Webhook) { w.URL = "file:///etc/passwd" },
		"no URL at all":         func(w *Webhook) { w.URL = "https://hidden\x7f" },
		"no secret":             func(w *Webhook) { w.SecretFile = "" },
		"a long timeout":        func(w *Webhook) { w.Timeout = time.Hour },
		"a timeout below zero":  func(w *Webhook) { w.Timeout = -1 },
	} {
		w := good
		change(&w)
		if err := w.Check(); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := New(Config{Webhooks: []Webhook{w}}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, url := range []string{"https://example.org/hook", "http://127.0.0.1:8080/hook", "http://localhost/", "http://[::1]:1/x"} {
		good.URL = url
		if err := good.Check(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
