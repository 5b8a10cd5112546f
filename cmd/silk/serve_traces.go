//go:build server

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/telemetry"
)

// flushTimeout is how long a server that stops tries to tell a collector of its last runs.
const flushTimeout = 5 * time.Second

// traces is where traces go: nil if nobody wants them. The caller calls leave when no run ends any more.
func (s *service) traces(metrics prometheus.Registerer) (to func(serve.Trace), leave func() error, err error) {
	cfg, wanted, off, err := telemetry.FromEnvironment(s.env)
	own := s.cfg.traces
	if off || !wanted && !own.wanted {
		return nil, func() error { return nil }, nil
	}
	if err != nil {
		return nil, nil, usagef("traces: %v", err)
	}
	if own.endpoint != "" {
		cfg.Endpoint = telemetry.Below(own.endpoint)
	}
	if own.headersFile != "" {
		if cfg.Headers, err = readHeaders(own.headersFile); err != nil {
			return nil, nil, err
		}
	}
	cfg.Certificate, cfg.Gzip = cmp.Or(own.certificate, cfg.Certificate), own.gzip || cfg.Gzip
	cfg.Version, cfg.Metrics, cfg.Logger = version, metrics, s.log
	e, err := telemetry.New(cfg)
	if err != nil {
		return nil, nil, usagef("%v (serve: otlp: of the configuration, and variables OTEL_EXPORTER_OTLP_*)", err)
	}
	s.log.Info("traces are sent", "content", own.content) // not where to: an address may have a secret in it
	return e.Run, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		return e.Close(ctx)
	}, nil
}

// readHeaders reads headers from a file, so that they are in no configuration and no process list.
func readHeaders(file string) (map[string]secret.Secret, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingf("serve: otlp: headers_file: there is no %s", file)
	}
	if err != nil {
		return nil, &hostError{fmt.Errorf("read headers for the collector of traces: %w", err)}
	}
	headers := map[string]secret.Secret{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, usagef("%s:%d is not of the form NAME: VALUE", file, n)
		}
		headers[strings.TrimSpace(name)] = secret.New(strings.TrimSpace(value))
	}
	return headers, nil
}
