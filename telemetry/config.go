package telemetry

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/silk-sandbox/silk/internal/secret"
)

// DefaultEndpoint is where collectors listen on their own host.
const DefaultEndpoint = "http://localhost:4318/v1/traces"

// Config is what an [Exporter] is made of. Its zero value sends to [DefaultEndpoint].
type Config struct {
	Endpoint string                   // URL to post to; empty: DefaultEndpoint
	Headers  map[string]secret.Secret // of each request
	Timeout  time.Duration            // of each request; 0: 10 s
	Gzip     bool

	Certificate          string // file with the certificates that the collector's is signed by; empty: the host's
	ClientCertificate    string // file with ours, with ClientKey; empty: none
	ClientCertificateKey string

	Version string                // of silk
	Metrics prometheus.Registerer // nil: nobody reads what was dropped
	Logger  *slog.Logger          // nil discards

	every time.Duration // from the first run of a batch to its sending; 0: 1 s
	retry time.Duration // before the second attempt; 0: 1 s
}

func (c Config) withDefaults() Config {
	c.Endpoint = cmp.Or(c.Endpoint, DefaultEndpoint)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.every, c.retry = cmp.Or(c.every, time.Second), cmp.Or(c.retry, time.Second)
	if c.Logger == nil {
		c.Logger = discard()
	}
	return c
}

func (c Config) check() error {
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("the collector's endpoint is no URL of the form https://HOST:PORT/PATH") // which may have a secret in it
	case u.User != nil:
		return errors.New("the collector's endpoint has a user or a password in it: put them into a header")
	}
	for name, value := range c.Headers {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("()<>@,;:\\\"/[]?={}", r) }) {
			return errors.New("a header for the collector has a name that is none")
		}
		if strings.ContainsFunc(value.Reveal(), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return fmt.Errorf("the value of header %s for the collector has control characters", name)
		}
	}
	return nil
}

func (c Config) tls() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.Certificate != "" {
		text, err := os.ReadFile(c.Certificate)
		if err != nil {
			return nil, fmt.Errorf("read the collector's certificate: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read the collector's certificate: %s has none", c.Certificate)
		}
	}
	if c.ClientCertificate != "" {
		pair, err := tls.LoadX509KeyPair(c.ClientCertificate, c.ClientCertificateKey)
		if err != nil {
			return nil, fmt.Errorf("read the certificate for the collector: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// Below is the address for traces of a collector's base address.
func Below(base string) string { return strings.TrimSuffix(base, "/") + "/v1/traces" }

// FromEnvironment reads the variables OTEL_EXPORTER_OTLP_* and OTEL_EXPORTER_OTLP_TRACES_*, of which the latter count more
// (OpenTelemetry specification, "OpenTelemetry Protocol Exporter"). wanted says that they name a collector; off that tracing is
// switched off (OTEL_SDK_DISABLED, OTEL_TRACES_EXPORTER). Errors do not repeat values.
func FromEnvironment(get func(string) string) (c Config, wanted, off bool, err error) {
	off = strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") || get("OTEL_TRACES_EXPORTER") == "none"
	either := func(name string) (value, variable string) {
		for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if value := get(variable); value != "" {
				return value, variable
			}
		}
		return "", ""
	}
	if c.Endpoint = get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); c.Endpoint == "" && get("OTEL_EXPORTER_OTLP_ENDPOINT") != "" {
		c.Endpoint = Below(get("OTEL_EXPORTER_OTLP_ENDPOINT"))
	}
	wanted = c.Endpoint != ""
	if p, name := either("PROTOCOL"); p != "" && p != "http/protobuf" {
		err = errors.Join(err, fmt.Errorf("%s is %q: silk speaks http/protobuf, which collectors take on port 4318", name, p))
	}
	if text, name := either("HEADERS"); text != "" {
		headers, ok := parseHeaders(text)
		if !ok {
			err = errors.Join(err, fmt.Errorf("%s is not of the form NAME=VALUE,NAME=VALUE", name))
		}
		c.Headers = headers
	}
	if text, name := either("TIMEOUT"); text != "" {
		ms, bad := strconv.Atoi(text)
		if bad != nil || ms < 1 || ms > 3_600_000 {
			err = errors.Join(err, fmt.Errorf("%s is not a number of milliseconds", name))
		}
		c.Timeout = time.Duration(ms) * time.Millisecond
	}
	if text, name := either("COMPRESSION"); text != "" {
		if c.Gzip = text == "gzip"; !c.Gzip && text != "none" {
			err = errors.Join(err, fmt.Errorf("%s is %q; there are gzip and none", name, text))
		}
	}
	c.Certificate, _ = either("CERTIFICATE")
	c.ClientCertificate, _ = either("CLIENT_CERTIFICATE")
	c.ClientCertificateKey, _ = either("CLIENT_KEY")
	return c, wanted, off, err
}

// parseHeaders reads W3C Baggage without properties: names and values in percent encoding.
func parseHeaders(text string) (map[string]secret.Secret, bool) {
	headers := map[string]secret.Secret{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			return nil, false
		}
		headers[strings.TrimSpace(name)] = secret.New(decoded)
	}
	return headers, true
}
