package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/silk-sandbox/silk/api"
)

// TestTraces: a server tells a collector of its runs, with all phases of a real sandbox and nothing of what was run, and of the
// last ones when it stops. No log has the collector's key.
func TestTraces(t *testing.T) {
	const hidden, key = "h1dd3n-c0ntent", "s3cret-k3y"
	var (
		mu   sync.Mutex
		all  []byte
		got  []*traces.Span
		keys = map[string]bool{}
	)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var data traces.TracesData
		if err != nil || proto.Unmarshal(text, &data) != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		mu.Lock()
		defer mu.Unlock()
		keys[r.Header.Get("X-Key")] = true
		all = append(all, text...)
		for _, of := range data.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				got = append(got, scope.Spans...)
			}
		}
	}))
	defer collector.Close()
	headers := filepath.Join(t.TempDir(), "headers")
	if err := put(headers, "# the collector's\nX-Key: "+key+"\n"); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, fmt.Sprintf("  otlp: {endpoint: %q, headers_file: %q}\n", collector.URL, headers))
	s.start()
	request, err := json.Marshal(map[string]any{
		"language": "bash", "code": "cat; echo " + hidden + "; echo " + hidden + " >&2; echo x > " + hidden + ".txt", "env": []string{"A=" + hidden}, "stdin": hidden,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := decodeAs[api.Run](s, http.MethodPost, "/v1/runs", string(request))
	if out := s.outcome(r.ID); out.Kind != "ok" || out.Stdout.Bytes == 0 {
		t.Fatalf("outcome %+v", out)
	}
	began := time.Now()
	if err := s.stop(syscall.SIGTERM); err != nil {
		t.Errorf("%v: %s", err, s.log)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("stopping took %v", took)
	}
	mu.Lock()
	defer mu.Unlock()
	phases := map[string]bool{}
	for _, span := range got {
		phases[span.Name] = true
	}
	for _, name := range []string{"execute_tool lab:text", "accept", "queue", "image", "driver start", "sandbox boot", "program", "collect", "record"} {
		if !phases[name] {
			t.Errorf("there is no span %q among %v", name, phases)
		}
	}
	if len(keys) != 1 || !keys[key] {
		t.Errorf("the collector got keys %v", keys)
	}
	if bytes.Contains(all, []byte(hidden)) {
		t.Error("what was run is in what was sent")
	}
	if strings.Contains(s.log.String(), key) || strings.Contains(s.log.String(), hidden) {
		t.Errorf("log %s", s.log)
	}
}

// TestTracesNowhere: a collector that is not there holds nothing up, and a server that cannot speak to one as it is told to says so.
func TestTracesNowhere(t *testing.T) {
	s := newServer(t, "  otlp: {endpoint: \"http://127.0.0.1:1\"}\n")
	s.start()
	if out := s.outcome(s.shell("echo x").ID); out.Kind != "ok" {
		t.Errorf("outcome %+v", out)
	}
	began := time.Now()
	if err := s.stop(syscall.SIGTERM); err != nil || time.Since(began) > 20*time.Second {
		t.Errorf("stopped after %v: %v: %s", time.Since(began), err, s.log)
	}
	cmd := s.Command(t.Context(), "serve")
	cmd.Env = append(cmd.Environ(), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("silk speaks http/protobuf")) {
		t.Errorf("with gRPC: %v: %s", err, out)
	}
}
