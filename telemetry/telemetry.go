// Package telemetry tells an OpenTelemetry collector of the runs of a server, over OTLP with protobuf on HTTP.
//
// Each run that has ended becomes one span, execute_tool, from the request's arrival to the end's record, with a span below it for
// each phase: accept, approval, queue, image, driver start, sandbox boot, program, collect, record. They have the attributes of the
// GenAI conventions for the execution of tools, and silk's own for what came of the run. If the request had a W3C traceparent, the
// run's span is below that one. Code, arguments, environment, input and output are never sent unless Config.Content says so.
//
// A collector that is slow, gone or hostile costs runs nothing: [Exporter.Run] puts a run into a queue of bounded length and bytes
// and returns; what does not fit is dropped and counted. Nothing is kept on the disk: what a server that is killed has not sent yet
// is lost, and its audit trail and records have it.
//
// It is not for metrics, which Prometheus collects, nor for logs.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/silk-sandbox/silk/serve"
)

// Bounds of what waits for a collector.
const (
	maxRuns  = 2048     // that wait
	maxBytes = 32 << 20 // of their content, together
	perBatch = 128      // runs of one request
	runBytes = 4 << 10  // what a run without content counts
)

// Exporter sends runs to a collector. [Exporter.Close] ends it. Safe for concurrent use.
type Exporter struct {
	cfg      Config
	spans    *spans
	exporter *otlptrace.Exporter
	counts   *prometheus.CounterVec

	queue chan serve.Trace
	bytes atomic.Int64 // of the queue

	mu      sync.RWMutex // held for reading while something is put into the queue
	closing bool

	stop   context.CancelFunc // ends a request that is under way
	done   chan struct{}      // closed when the last batch has gone, or was given up
	logged time.Time          // of the last line about a failure
}

// New makes an exporter. It does not look whether there is a collector.
func New(cfg Config) (*Exporter, error) {
	cfg = cfg.withDefaults()
	c, err := newClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("configure traces: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &Exporter{
		cfg: cfg, queue: make(chan serve.Trace, maxRuns), stop: stop, done: make(chan struct{}),
		counts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "silk_traces_total", Help: "Runs that were told to the collector of traces, by what became of that: sent, dropped because too many waited, failed, or rejected by it.",
		}, []string{"result"}),
	}
	for _, result := range []string{"sent", "dropped", "failed", "rejected"} {
		e.counts.WithLabelValues(result)
	}
	c.rejected = func(spans int64) { e.counts.WithLabelValues("rejected").Add(float64(spans)) }
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(e.counts); err != nil {
			return nil, fmt.Errorf("register metrics of traces: %w", err)
		}
	}
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("silk"), semconv.ServiceVersion(cfg.Version)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("describe this server: %w", err)
	}
	e.spans = newSpans(about)
	e.exporter = otlptrace.NewUnstarted(c)
	if err := e.exporter.Start(ctx); err != nil {
		return nil, fmt.Errorf("start exporter of traces: %w", err)
	}
	go e.work(ctx)
	return e, nil
}

// Run takes a run that has ended. It never waits.
func (e *Exporter) Run(t serve.Trace) {
	size := sizeOf(t)
	e.mu.RLock()
	defer e.mu.RUnlock()
	if !e.closing && e.bytes.Add(size) <= maxBytes {
		select {
		case e.queue <- t:
			return
		default:
		}
	}
	if !e.closing {
		e.bytes.Add(-size)
	}
	e.counts.WithLabelValues("dropped").Inc()
}

func sizeOf(t serve.Trace) int64 {
	size := int64(runBytes)
	if c := t.Content; c != nil {
		size += int64(len(c.Request) + len(c.Stdout) + len(c.Stderr))
	}
	return size
}

// Close sends what waits, and gives up what has not gone when ctx ends. Call it once, when no run ends any more.
func (e *Exporter) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closing = true
	close(e.queue)
	e.mu.Unlock()
	defer e.stop()
	select {
	case <-e.done:
	case <-ctx.Done():
		e.stop()
		<-e.done // at once: nothing waits for a collector any more
	}
	return e.exporter.Shutdown(context.WithoutCancel(ctx))
}

// work sends batches until the queue is closed and empty.
func (e *Exporter) work(ctx context.Context) {
	defer close(e.done)
	for first := range e.queue {
		e.send(ctx, e.batch(first))
	}
}

// batch is first and what comes soon after.
func (e *Exporter) batch(first serve.Trace) []serve.Trace {
	list := []serve.Trace{first}
	soon := time.NewTimer(e.cfg.every)
	defer soon.Stop()
	for len(list) < perBatch {
		select {
		case t, ok := <-e.queue:
			if !ok {
				return list
			}
			list = append(list, t)
		case <-soon.C:
			return list
		}
	}
	return list
}

// send sends a batch, or counts it as failed.
func (e *Exporter) send(ctx context.Context, list []serve.Trace) {
	for _, t := range list {
		e.spans.add(t)
		e.bytes.Add(-sizeOf(t))
	}
	err := e.exporter.ExportSpans(ctx, e.spans.take())
	if err == nil {
		e.counts.WithLabelValues("sent").Add(float64(len(list)))
		return
	}
	e.counts.WithLabelValues("failed").Add(float64(len(list)))
	if time.Since(e.logged) >= time.Minute {
		e.logged = time.Now()
		e.cfg.Logger.Warn("traces were lost", "runs", len(list), "error", err)
	}
}

// discard is the logger of those who have none.
func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

var _ sdk.SpanProcessor = (*spans)(nil)
