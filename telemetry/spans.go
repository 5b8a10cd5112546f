package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/serve"
)

// scope names what made the spans.
const scope = "github.com/silk-sandbox/silk/telemetry"

// spans makes spans of runs. It is the processor of its own provider, and collects what ends. Not for concurrent use.
type spans struct {
	tracer trace.Tracer
	ended  []sdk.ReadOnlySpan
}

func newSpans(about *resource.Resource) *spans {
	s := &spans{}
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = -1 // what is long was cut when it was read
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(s), sdk.WithResource(about), sdk.WithRawSpanLimits(limits))
	s.tracer = provider.Tracer(scope)
	return s
}

// add makes the spans of a run.
func (s *spans) add(t serve.Trace) {
	carrier := propagation.MapCarrier{"traceparent": t.Traceparent, "tracestate": t.Tracestate}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier) // what is not valid is as if it were not there
	ctx, root := s.tracer.Start(ctx, "execute_tool "+tool(t), trace.WithTimestamp(t.Began), trace.WithAttributes(attributes(t)...))
	for _, p := range t.Phases {
		_, child := s.tracer.Start(ctx, p.Name, trace.WithTimestamp(p.Began))
		child.End(trace.WithTimestamp(p.Ended))
	}
	if t.Outcome.Kind != run.OK {
		root.SetStatus(codes.Error, string(t.Outcome.Kind))
	}
	root.End(trace.WithTimestamp(t.Ended))
}

// tool is what the conventions call the tool: the profile.
func tool(t serve.Trace) string {
	if t.Profile == "" {
		return "unknown"
	}
	return t.Profile
}

// attributes are those of the GenAI conventions and ours. A message of the outcome is not among them, nor the argument of a
// violation: they may repeat what was run.
func attributes(t serve.Trace) []attribute.KeyValue {
	out := t.Outcome
	list := []attribute.KeyValue{
		semconv.GenAIOperationNameExecuteTool,
		semconv.GenAIToolName(tool(t)),
		semconv.GenAIToolType("function"),
		semconv.GenAIToolCallID(t.Run),
		attribute.String("silk.run", t.Run),
		attribute.String("silk.outcome", string(out.Kind)),
		attribute.Int64("silk.stdout_bytes", out.Stdout.Bytes),
		attribute.Int64("silk.stderr_bytes", out.Stderr.Bytes),
	}
	for _, a := range []struct{ key, value string }{
		{"silk.token", t.Token},
		{"silk.session", t.Session},
		{"silk.driver", out.Driver},
		{"silk.image", out.Image},
		{"silk.reason", string(out.Reason)},
		{"silk.rule", out.Rule},
		{"silk.syscall", out.Syscall},
		{"silk.compile", out.Phase},
	} {
		if a.value != "" {
			list = append(list, attribute.String(a.key, a.value))
		}
	}
	if out.Kind != run.OK {
		list = append(list, semconv.ErrorTypeKey.String(string(out.Kind)))
	}
	if out.ExitCode != nil {
		list = append(list, attribute.Int("silk.exit_code", *out.ExitCode))
	}
	if out.Signal != 0 {
		list = append(list, attribute.Int("silk.signal", out.Signal))
	}
	if out.Driver != "" {
		list = append(list, attribute.Int64("silk.wall_ms", out.WallMs), attribute.Int64("silk.cpu_ms", out.Usage.CPUMs), attribute.Int64("silk.peak_memory_bytes", out.Usage.PeakMemoryBytes))
	}
	if c := t.Content; c != nil {
		list = append(list,
			attribute.String("gen_ai.tool.call.arguments", c.Request), attribute.String("gen_ai.tool.call.result", c.Stdout), attribute.String("silk.stderr", c.Stderr))
	}
	return list
}

// take returns the spans that have ended since the last call.
func (s *spans) take() []sdk.ReadOnlySpan {
	list := s.ended
	s.ended = nil
	return list
}

// OnStart implements sdk.SpanProcessor.
func (*spans) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (s *spans) OnEnd(span sdk.ReadOnlySpan) {
	if span.SpanContext().IsSampled() {
		s.ended = append(s.ended, span)
	}
}

// Shutdown implements sdk.SpanProcessor.
func (*spans) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.SpanProcessor.
func (*spans) ForceFlush(context.Context) error { return nil }
