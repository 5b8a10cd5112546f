//go:build unix

package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// TestTraceparent: a run knows the trace of its request, whatever that says.
func TestTraceparent(t *testing.T) {
	ended := make(chan serve.Trace, 3)
	s := newStand(t, servetest.Config{Serve: serve.Config{Traces: func(t serve.Trace) { ended <- t }}})
	for _, parent := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "nonsense", ""} {
		headers := map[string]string{}
		if parent != "" {
			headers = map[string]string{"Traceparent": parent, "Tracestate": "a=b"}
		}
		resp, text := s.do(call{role: auth.Runner, method: http.MethodPost, path: "/v1/runs", body: body("print:x"), headers: headers})
		if resp.StatusCode != http.StatusCreated {
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
		got := <-ended
		if got.Traceparent != parent || parent != "" && got.Tracestate != "a=b" || got.Content != nil || got.Outcome.Kind != "ok" {
			t.Errorf("with %q: %+v", parent, got)
		}
	}
}
