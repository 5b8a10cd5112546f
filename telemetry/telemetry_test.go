package telemetry_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	common "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/telemetry"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

func example() serve.Trace {
	at := time.UnixMilli(1_800_000_000_000)
	exit := 7
	return serve.Trace{
		Run: "01M8MV0DH06CVWRW20Q0DREDWD", Token: "01TOKEN", Session: "01SESSION", Profile: "lab:python", Traceparent: "00-" + traceID + "-" + spanID + "-01",
		Began: at, Ended: at.Add(time.Second),
		Phases:  []serve.Phase{{Name: "accept", Began: at, Ended: at.Add(time.Millisecond)}, {Name: "program", Began: at.Add(2 * time.Millisecond), Ended: at.Add(time.Second)}},
		Outcome: run.Outcome{Kind: run.Failed, ExitCode: &exit, Driver: "gvisor", Message: "not for others", WallMs: 990},
	}
}

func closeNow(t *testing.T, e *telemetry.Exporter, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > limit+5*time.Second {
		t.Errorf("Close took %v, with a limit of %v", took, limit)
	}
}

func TestSpans(t *testing.T) {
	c := collect(t)
	e, count := start(t, telemetry.Config{Endpoint: c.url, Gzip: true, Version: "v9", Headers: map[string]secret.Secret{"X-Key": secret.New("k")}})
	e.Run(example())
	closeNow(t, e, 10*time.Second)
	roots, below := c.roots(1)
	root := roots[0]
	if hex.EncodeToString(root.TraceId) != traceID || hex.EncodeToString(root.ParentSpanId) != spanID {
		t.Errorf("trace %x below %x", root.TraceId, root.ParentSpanId)
	}
	if root.Name != "execute_tool lab:python" || root.EndTimeUnixNano-root.StartTimeUnixNano != 1e9 || root.StartTimeUnixNano != 1_800_000_000_000_000_000 {
		t.Errorf("root %v", root)
	}
	if root.Status.GetCode() != common.Status_STATUS_CODE_ERROR || root.Status.GetMessage() != "failed" {
		t.Errorf("status %v", root.Status)
	}
	want := map[string]any{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lab:python", "gen_ai.tool.type": "function", "gen_ai.tool.call.id": "01M8MV0DH06CVWRW20Q0DREDWD",
		"silk.run": "01M8MV0DH06CVWRW20Q0DREDWD", "silk.outcome": "failed", "silk.token": "01TOKEN", "silk.session": "01SESSION", "silk.driver": "gvisor", "error.type": "failed",
		"silk.exit_code": int64(7), "silk.wall_ms": int64(990), "silk.cpu_ms": int64(0), "silk.peak_memory_bytes": int64(0), "silk.stdout_bytes": int64(0), "silk.stderr_bytes": int64(0),
	}
	if diff := cmp.Diff(want, attributes(root)); diff != "" {
		t.Error(diff)
	}
	phases := below[string(root.SpanId)]
	if len(phases) != 2 || phases["accept"] == nil || phases["program"] == nil || phases["program"].EndTimeUnixNano != root.EndTimeUnixNano {
		t.Errorf("phases %v", phases)
	}
	if c.service != "silk" || c.headers.Get("X-Key") != "k" || c.headers.Get("User-Agent") != "silk/v9" {
		t.Errorf("service %q, headers %v", c.service, c.headers)
	}
	if bytes.Contains(c.bytes, []byte("not for others")) {
		t.Error("the message was sent")
	}
	if count("sent") != 1 || count("dropped") != 0 || count("failed") != 0 {
		t.Errorf("sent %v, dropped %v, failed %v", count("sent"), count("dropped"), count("failed"))
	}
}

// TestParents: a parent that makes no sense is none; one that is not sampled is not followed.
func TestParents(t *testing.T) {
	c := collect(t)
	e, count := start(t, telemetry.Config{Endpoint: c.url})
	for _, parent := range []string{"", "nonsense", "00-" + strings.Repeat("0", 32) + "-" + spanID + "-01", strings.Repeat("x", 1<<20), "00-" + traceID + "-" + spanID + "-00"} {
		r := example()
		r.Traceparent = parent
		e.Run(r)
	}
	closeNow(t, e, 10*time.Second)
	roots, _ := c.roots(4)
	if len(roots) != 4 {
		t.Errorf("%d runs came, want 4: the last is not sampled", len(roots))
	}
	for _, root := range roots {
		if len(root.ParentSpanId) != 0 || hex.EncodeToString(root.TraceId) == traceID {
			t.Errorf("below %x of %x", root.ParentSpanId, root.TraceId)
		}
	}
	if count("sent") != 5 {
		t.Errorf("sent %v", count("sent"))
	}
}

// TestCollectors: what collectors do to us.
func TestCollectors(t *testing.T) {
	const key = "s3cret-k3y"
	elsewhere := collect(t)
	for name, c := range map[string]struct {
		answer func(n int, w http.ResponseWriter) bool
		result string
		tries  int
	}{
		"busy once":     {func(n int, w http.ResponseWriter) bool { w.WriteHeader(503); return n == 1 }, "sent", 2},
		"busy for ever": {func(_ int, w http.ResponseWriter) bool { w.WriteHeader(429); return true }, "failed", 4},
		"refuses": {func(_ int, w http.ResponseWriter) bool {
			http.Error(w, "the key is "+key, http.StatusUnauthorized)
			return true
		}, "failed", 1},
		"sends us away": {func(_ int, w http.ResponseWriter) bool {
			w.Header().Set("Location", elsewhere.url)
			w.WriteHeader(307)
			return true
		}, "failed", 1},
		"talks for ever":    {func(_ int, w http.ResponseWriter) bool { io.Copy(w, forever{}); return true }, "sent", 1},
		"breaks":            {func(_ int, _ http.ResponseWriter) bool { panic(http.ErrAbortHandler) }, "failed", 4},
		"takes some of it":  {func(_ int, w http.ResponseWriter) bool { w.Write([]byte{0x0a, 2, 8, 3}); return true }, "rejected", 1},
		"answers with junk": {func(_ int, w http.ResponseWriter) bool { w.Write([]byte{0x0a, 0xff, 0xff, 1, 8}); return true }, "sent", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var tries atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				n := int(tries.Add(1))
				if c.answer(n, silent{w, n == 1 || name != "busy once"}) {
					return
				}
			}))
			defer server.Close()
			var log bytes.Buffer
			e, count := start(t, telemetry.Config{
				Endpoint: server.URL + "/v1/traces?key=" + key, Headers: map[string]secret.Secret{"Authorization": secret.New(key)}, Timeout: 5 * time.Second,
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			e.Run(example())
			began := time.Now()
			closeNow(t, e, 20*time.Second)
			if took := time.Since(began); took > 4*time.Second { // less than one request may take
				t.Errorf("it took %v", took)
			}
			want := 1.0
			if c.result == "rejected" {
				want = 3 // spans
			}
			if count(c.result) != want || int(tries.Load()) != c.tries {
				t.Errorf("%s %v, want %v; %d requests, want %d", c.result, count(c.result), want, tries.Load(), c.tries)
			}
			if strings.Contains(log.String(), key) || c.result == "failed" && !strings.Contains(log.String(), "traces were lost") {
				t.Errorf("log %s", log.String())
			}
		})
	}
	if elsewhere.headers != nil {
		t.Error("a redirect was followed")
	}
}

// silent is a writer whose status is only written if loud.
type silent struct {
	http.ResponseWriter
	loud bool
}

func (s silent) WriteHeader(status int) {
	if s.loud {
		s.ResponseWriter.WriteHeader(status)
	}
}

type forever struct{}

func (forever) Read(p []byte) (int, error) { return len(p), nil }

// TestSlowCollector: runs do not wait for one that does not answer, what is too much is counted, and Close has a bound.
func TestSlowCollector(t *testing.T) {
	c := collect(t)
	answer := make(chan struct{})
	defer close(answer)
	c.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		return true
	}
	e, count := start(t, telemetry.Config{Endpoint: c.url, Timeout: time.Hour})
	began := time.Now()
	const more = 1000
	for range telemetry.MaxRuns + more {
		e.Run(example())
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%d runs waited %v", telemetry.MaxRuns+more, took)
	}
	if n := count("dropped"); n < more-200 || n > more { // a batch may be on its way
		t.Errorf("dropped %v", n)
	}
	closeNow(t, e, 100*time.Millisecond)
	if dropped, failed := count("dropped"), count("failed"); dropped+failed != telemetry.MaxRuns+more {
		t.Errorf("dropped %v and failed %v of %d", dropped, failed, telemetry.MaxRuns+more)
	}
	e.Run(example()) // too late, and harmless
}

// TestManyBytes: content is bounded as a whole.
func TestManyBytes(t *testing.T) {
	c := collect(t)
	hold := make(chan struct{})
	c.answer = func(http.ResponseWriter, *http.Request) bool { <-hold; return false }
	e, count := start(t, telemetry.Config{Endpoint: c.url})
	big := example()
	big.Content = &serve.TraceContent{Stdout: strings.Repeat("x", 1<<20)}
	for range 1000 {
		e.Run(big)
	}
	if n := count("dropped"); n < 1000-2*128-32 {
		t.Errorf("only %v were dropped", n)
	}
	close(hold)
	closeNow(t, e, 20*time.Second)
}

func TestNoCollector(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close() // nobody listens there now
	e, count := start(t, telemetry.Config{Endpoint: server.URL})
	e.Run(example())
	closeNow(t, e, 10*time.Second)
	if count("failed") != 1 {
		t.Errorf("failed %v", count("failed"))
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]telemetry.Config{
		"no URL":         {Endpoint: "collector:4318"},
		"another scheme": {Endpoint: "ftp://collector/"},
		"a password":     {Endpoint: "https://me:s3cret@collector/"},
		"a bad header":   {Headers: map[string]secret.Secret{"X-Key": secret.New("s3cret\r\nX: y")}},
		"a bad name":     {Headers: map[string]secret.Secret{"X Key": secret.New("s3cret")}},
		"no such file":   {Certificate: "/nonexistent"},
	} {
		if _, err := telemetry.New(cfg); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	for _, test := range []struct {
		env         string
		want        string
		wanted, off bool
		err         string
	}{
		{"", "", false, false, ""},
		{"ENDPOINT=http://c:4318", "http://c:4318/v1/traces", true, false, ""},
		{"ENDPOINT=http://c:4318/base/ TRACES_ENDPOINT=https://d/x", "https://d/x", true, false, ""},
		{"PROTOCOL=grpc TRACES_PROTOCOL=http/protobuf", "", false, false, ""},
		{"PROTOCOL=grpc", "", false, false, "http/protobuf"},
		{"HEADERS=a=s3cret%20x,b=y", "", false, false, ""},
		{"HEADERS=s3cret", "", false, false, "OTEL_EXPORTER_OTLP_HEADERS is not"},
		{"TIMEOUT=soon", "", false, false, "milliseconds"},
		{"COMPRESSION=zip", "", false, false, "gzip"},
		{"OTEL_SDK_DISABLED=true ENDPOINT=http://c", "http://c/v1/traces", true, true, ""},
		{"OTEL_TRACES_EXPORTER=none", "", false, true, ""},
	} {
		env := map[string]string{}
		for _, pair := range strings.Fields(test.env) {
			name, value, _ := strings.Cut(pair, "=")
			if !strings.HasPrefix(name, "OTEL_") {
				name = "OTEL_EXPORTER_OTLP_" + name
			}
			env[name] = value
		}
		c, wanted, off, err := telemetry.FromEnvironment(func(name string) string { return env[name] })
		if c.Endpoint != test.want || wanted != test.wanted || off != test.off || (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %q %t %t %v", test.env, c.Endpoint, wanted, off, err)
		}
		if a, ok := c.Headers["a"]; ok && a.Reveal() != "s3cret x" {
			t.Errorf("header a is %q", a.Reveal())
		}
		if text := fmt.Sprintf("%+v", c); strings.Contains(text, "s3cret") {
			t.Errorf("printed: %s", text)
		}
	}
}
