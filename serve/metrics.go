package serve

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/silk-sandbox/silk/run"
)

// metrics are what operators see of the runs of one server. No label holds what a client chose: their number is bounded by
// what silk knows (outcomes, drivers, rules, steps).
type metrics struct {
	ended      *prometheus.CounterVec
	wall       *prometheus.HistogramVec
	steps      *prometheus.HistogramVec
	output     *prometheus.CounterVec
	violations *prometheus.CounterVec
	dropped    prometheus.Counter
}

// newMetrics registers with r what the server counts, and what its parts can be asked for.
func newMetrics(r prometheus.Registerer, s *Server) (*metrics, error) {
	m := &metrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "silk_runs_total", Help: "Runs that have ended."}, []string{"outcome", "driver"}),
		wall: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "silk_run_seconds", Help: "Wall clock time of programs.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 8),
		}, []string{"outcome"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "silk_start_seconds", Help: "Time from a worker's taking a run to a step of its start.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
		}, []string{"step"}),
		output:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "silk_output_bytes_total", Help: "Output of programs."}, []string{"channel"}),
		violations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "silk_violations_total", Help: "Runs that policy ended."}, []string{"rule"}),
		dropped:    prometheus.NewCounter(prometheus.CounterOpts{Name: "silk_events_dropped_total", Help: "Events of sandboxes that were seen and not delivered."}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	counter := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
	}
	for _, c := range []prometheus.Collector{
		m.ended, m.wall, m.steps, m.output, m.violations, m.dropped,
		gauge("silk_runs_waiting", "Runs that wait for their turn.", func() float64 { waiting, _ := s.cfg.Queue.Depth(); return float64(waiting) }),
		gauge("silk_runs_running", "Runs that are running.", func() float64 { _, running := s.cfg.Queue.Depth(); return float64(running) }),
		gauge("silk_runs_unsent", "Accepted runs that the queue's stream does not hold yet.", func() float64 { return float64(s.cfg.Queue.Unsent()) }),
		gauge("silk_viewers", "Viewers of live runs.", func() float64 { return float64(s.cfg.Broker.Stats().Viewers) }),
		counter("silk_frames_total", "Frames that were published.", func() float64 { return float64(s.cfg.Broker.Stats().Frames) }),
		counter("silk_gap_bytes_total", "Bytes that viewers were told they lost.", func() float64 { return float64(s.cfg.Broker.Stats().GapBytes) }),
		counter("silk_follower_waits_total", "Times that a program had to wait for its follower.", func() float64 { return float64(s.cfg.Broker.Stats().Held) }),
		counter("silk_log_faults_total", "Logs of output that ended early.", func() float64 { return float64(s.cfg.Broker.Stats().LogFaults) }),
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// count adds a run that has ended.
func (m *metrics) count(out run.Outcome) {
	driver := out.Driver
	if driver == "" {
		driver = "none" // it never came to one
	}
	m.ended.WithLabelValues(string(out.Kind), driver).Inc()
	if out.Driver != "" {
		m.wall.WithLabelValues(string(out.Kind)).Observe(time.Duration(out.WallMs * int64(time.Millisecond)).Seconds())
	}
	m.output.WithLabelValues("stdout").Add(float64(out.Stdout.Bytes))
	m.output.WithLabelValues("stderr").Add(float64(out.Stderr.Bytes))
	if out.Kind == run.Violated {
		m.violations.WithLabelValues(out.Rule).Inc()
	}
	m.dropped.Add(float64(out.Dropped))
}

// startSteps are the steps of a start that are counted, of those that the engine names.
var startSteps = map[string]string{
	"decided": "decided", "image is open": "image", "start is recorded": "recorded", "workspace is filled": "workspace", "program runs": "running", "first output": "output",
}

// trace returns a function for run.IO that observes the steps of one start.
func (m *metrics) trace(began time.Time) func(step string, at time.Time) {
	var mu sync.Mutex
	seen := map[string]bool{} // "first output" comes once, but steps are named by the engine
	return func(step string, at time.Time) {
		name, ok := startSteps[step]
		mu.Lock()
		ok = ok && !seen[name]
		seen[name] = true
		mu.Unlock()
		if ok {
			m.steps.WithLabelValues(name).Observe(at.Sub(began).Seconds())
		}
	}
}
