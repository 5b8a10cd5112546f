package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	maxAnswer    = 64 << 10         // of a collector's answer
	maxRetryWait = 10 * time.Second // whatever a collector asks for
	attempts     = 4
)

// client speaks OTLP (OTLP specification 1.9, section "OTLP/HTTP") for otlptrace.Exporter. The one that comes with it links all of
// gRPC: see docs/adr/0010-traces.md.
type client struct {
	cfg      Config
	http     *http.Client
	rejected func(spans int64)
}

func newClient(cfg Config) (*client, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	tlsConfig, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	return &client{cfg: cfg, http: &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: tlsConfig, MaxConnsPerHost: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxAnswer},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the headers are for one host
	}}, nil
}

// Start implements otlptrace.Client.
func (*client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. What may pass is tried again, a few times.
func (c *client) UploadTraces(ctx context.Context, list []*traces.ResourceSpans) error {
	if len(list) == 0 { // none was sampled
		return nil
	}
	body, err := proto.Marshal(&traces.TracesData{ResourceSpans: list}) // the same bytes as an ExportTraceServiceRequest
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	if c.cfg.Gzip {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write(body)
		if err := errors.Join(err, w.Close()); err != nil {
			return fmt.Errorf("compress spans: %w", err)
		}
		body = out.Bytes()
	}
	wait := c.cfg.retry
	for attempt := 1; ; attempt++ {
		again, after, err := c.post(ctx, body)
		if err == nil || !again || attempt == attempts || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(min(max(wait, after), maxRetryWait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		wait *= 2
	}
}

// post makes one request. again says that another one may do better, after a while.
func (c *client) post(ctx context.Context, body []byte) (again bool, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.Endpoint, bytes.NewReader(body))
	if err != nil {
		return false, 0, hideURL(err)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "silk/"+c.cfg.Version)
	if c.cfg.Gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	for name, value := range c.cfg.Headers {
		r.Header.Set(name, value.Reveal())
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return true, 0, hideURL(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		if n := rejectedSpans(text); err == nil && n > 0 && c.rejected != nil {
			c.rejected(n)
		}
		return false, 0, nil
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusBadGateway,
		resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusGatewayTimeout: // those that the specification names
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
			after = min(time.Duration(s), maxRetryWait/time.Second) * time.Second
		}
		return true, after, fmt.Errorf("the collector answers %d", resp.StatusCode)
	}
	return false, 0, fmt.Errorf("the collector answers %d", resp.StatusCode) // its text is not ours to log
}

// hideURL takes the address out of an error: it may have a secret in its query.
func hideURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return fmt.Errorf("ask the collector: %w", u.Err)
	}
	return err
}

// rejectedSpans reads how many spans a collector did not want: field 1 of field 1 of an ExportTraceServiceResponse.
func rejectedSpans(answer []byte) int64 {
	partial, ok := field(answer, protowire.BytesType)
	if !ok {
		return 0
	}
	text, n := protowire.ConsumeBytes(partial)
	if n < 0 {
		return 0
	}
	count, ok := field(text, protowire.VarintType)
	if !ok {
		return 0
	}
	v, n := protowire.ConsumeVarint(count)
	if n < 0 || v > 1<<31 {
		return 0
	}
	return int64(v)
}

// field finds the value of field 1.
func field(message []byte, kind protowire.Type) ([]byte, bool) {
	for len(message) > 0 {
		number, found, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		if message = message[n:]; number == 1 && found == kind {
			return message, true
		}
		if n = protowire.ConsumeFieldValue(number, found, message); n < 0 {
			return nil, false
		}
		message = message[n:]
	}
	return nil, false
}
