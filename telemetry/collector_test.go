package telemetry_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/silk-sandbox/silk/telemetry"
)

// collector takes OTLP over HTTP.
type collector struct {
	*testing.T
	url string

	// answer, if not nil, answers in place of the collector when it returns true.
	answer func(http.ResponseWriter, *http.Request) bool

	mu      sync.Mutex
	bytes   []byte // everything that came
	headers http.Header
	spans   []*traces.Span
	service string
}

func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{T: t}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.url = s.URL + "/v1/traces"
	return c
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.answer != nil && c.answer(w, r) {
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			c.Error(err)
			return
		}
		body = z
	}
	text, err := io.ReadAll(body)
	var data traces.TracesData
	if err != nil || proto.Unmarshal(text, &data) != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.Errorf("%s %s %v: %v", r.Method, r.URL, r.Header, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes, c.headers = append(c.bytes, text...), r.Header
	for _, of := range data.ResourceSpans {
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				c.service = a.Value.GetStringValue()
			}
		}
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// roots waits for n spans of runs, and returns them in the order of their arrival with what is below each, by name.
func (c *collector) roots(n int) (roots []*traces.Span, below map[string]map[string]*traces.Span) {
	c.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		roots, below = nil, map[string]map[string]*traces.Span{}
		c.mu.Lock()
		for _, s := range c.spans {
			if strings.HasPrefix(s.Name, "execute_tool ") {
				roots = append(roots, s)
				below[string(s.SpanId)] = map[string]*traces.Span{}
			}
		}
		for _, s := range c.spans {
			if of := below[string(s.ParentSpanId)]; of != nil {
				of[s.Name] = s
			}
		}
		c.mu.Unlock()
		if len(roots) >= n {
			return roots, below
		}
		if time.Since(begin) > 20*time.Second {
			c.Fatalf("%d runs came, want %d", len(roots), n)
		}
	}
}

// attributes are those of a span, as text or number.
func attributes(s *traces.Span) map[string]any {
	out := map[string]any{}
	for _, a := range s.Attributes {
		out[a.Key] = a.Value.GetIntValue()
		if text := a.Value.GetStringValue(); text != "" {
			out[a.Key] = text
		}
	}
	return out
}

// start makes an exporter that the test closes, and its metrics.
func start(t *testing.T, cfg telemetry.Config) (*telemetry.Exporter, func(result string) float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	cfg.Metrics = registry
	e, err := telemetry.New(telemetry.Quick(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return e, func(result string) float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.Metric {
				if f.GetName() == "silk_traces_total" && m.Label[0].GetValue() == result {
					return m.Counter.GetValue()
				}
			}
		}
		return -1
	}
}
