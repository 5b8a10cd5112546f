package client

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"
)

const (
	dialTimeout   = 10 * time.Second
	headerTimeout = 3 * time.Minute // until an answer begins: a server reads a large request for two
)

// address is where a server is, and how it is reached.
type address struct {
	base   string // http://host:port/path
	socket string // path; "": TCP
	pin    []byte // SHA-256 of the certificate; nil: checked as usual
}

func parseAddress(cfg Config) (address, error) {
	var a address
	u, err := url.Parse(cfg.URL)
	if err != nil {
		var at *url.Error
		if errors.As(err, &at) { // its text may have a password
			err = at.Err
		}
		return a, fmt.Errorf("read the server's address: %w (it is http://HOST:PORT, https://HOST:PORT or unix:///PATH)", err)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return a, errors.New("the server's address is http://HOST:PORT, https://HOST:PORT or unix:///PATH, and nothing else: no user, no query")
	}
	if cfg.Fingerprint != "" {
		if a.pin, err = parseFingerprint(cfg.Fingerprint); err != nil {
			return a, err
		}
	}
	if cfg.HTTPClient != nil && (u.Scheme == "unix" || a.pin != nil) {
		return a, errors.New("an HTTP client of the caller's cannot be used with a unix socket or a fingerprint")
	}
	if a.pin != nil && u.Scheme != "https" {
		return a, fmt.Errorf("a fingerprint is of a certificate, which %s:// has none of; use https://", u.Scheme)
	}
	switch u.Scheme {
	case "unix":
		if u.Host != "" || !path.IsAbs(u.Path) {
			return a, fmt.Errorf("the address of a socket has three slashes: unix:///path/silk.sock, not %s", u)
		}
		a.base, a.socket = "http://localhost", u.Path
		return a, nil
	case "http":
		if !cfg.Token.Empty() && !loopback(u.Hostname()) {
			return a, fmt.Errorf("others on the way to %s could read the token and all output: use https://", u.Host)
		}
	case "https":
	default:
		return a, fmt.Errorf("the server's address begins with http://, https:// or unix://, not with %q", u.Scheme+":")
	}
	if u.Hostname() == "" {
		return a, fmt.Errorf("the server's address %s names no host", u)
	}
	a.base = u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/")
	return a, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

func parseFingerprint(text string) ([]byte, error) {
	plain := strings.ReplaceAll(text, ":", "")
	if len(plain) > 6 && strings.EqualFold(plain[:6], "sha256") {
		plain = plain[6:]
	}
	pin, err := hex.DecodeString(plain)
	if err != nil || len(pin) != sha256.Size {
		return nil, fmt.Errorf("the fingerprint %q is not the SHA-256 of a certificate: 64 hexadecimal digits", text)
	}
	return pin, nil
}

// client makes the HTTP client for the address. It follows no redirect: a token is for one server. It is HTTP/1.1, which
// WebSockets need, and asks no proxy of the environment.
func (a address) client() *http.Client {
	d := net.Dialer{Timeout: dialTimeout}
	t := &http.Transport{
		DialContext: d.DialContext, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: headerTimeout,
		IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8, DisableCompression: true,
	}
	if a.socket != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", a.socket) }
	}
	if a.pin != nil {
		t.TLSClientConfig = &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the certificate itself, which is stricter
			VerifyConnection:   a.verify,
		}
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// verify takes the one certificate that is pinned.
func (a address) verify(state tls.ConnectionState) error {
	sum := sha256.Sum256(state.PeerCertificates[0].Raw)
	if subtle.ConstantTimeCompare(sum[:], a.pin) != 1 {
		return fmt.Errorf("the server's certificate has the fingerprint %x, which is not the one that was named", sum)
	}
	return nil
}
