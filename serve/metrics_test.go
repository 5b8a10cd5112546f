//go:build unix

package serve_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
)

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := servetest.New(t, servetest.Config{Serve: serve.Config{Metrics: registry}})
	for _, ops := range [][]string{{"print:four"}, {"eprint:x", "exit:1"}, {"violate:file.accounts,openat,/etc/passwd"}} {
		end(t, s, submit(t, s, servetest.Runner, program(ops...)).ID)
	}
	const want = `
# HELP silk_output_bytes_total Output of programs.
# TYPE silk_output_bytes_total counter
silk_output_bytes_total{channel="stderr"} 1
silk_output_bytes_total{channel="stdout"} 4
# HELP silk_runs_total Runs that have ended.
# TYPE silk_runs_total counter
silk_runs_total{driver="fake",outcome="failed"} 1
silk_runs_total{driver="fake",outcome="ok"} 1
silk_runs_total{driver="fake",outcome="violated"} 1
# HELP silk_violations_total Runs that policy ended.
# TYPE silk_violations_total counter
silk_violations_total{rule="file.accounts"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "silk_output_bytes_total", "silk_runs_total", "silk_violations_total"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"silk_start_seconds", "silk_run_seconds", "silk_runs_waiting", "silk_runs_running", "silk_viewers", "silk_frames_total"} {
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n == 0 {
			t.Errorf("%s has %d series, %v", name, n, err)
		}
	}
}
