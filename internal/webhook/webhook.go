// Package webhook tells a server of something by an HTTP POST of JSON that is signed, and that goes nowhere else.
//
// The signature is that of https://www.standardwebhooks.com: the header webhook-signature is "v1," and the base64 of
// HMAC-SHA256 over webhook-id, webhook-timestamp (Unix seconds) and the body, joined by dots. Who receives one with an id that it
// has seen already has seen all of it.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Config is one server.
type Config struct {
	// URL is https, or http to a loopback address: what is sent says what is on this host.
	URL string

	// SecretFile holds the key of the signature: text of 16 to 1024 bytes, or "whsec_" and base64, without the white space
	// around it. It must be readable by its owner alone, and is read for each message.
	SecretFile string

	// Timeout is the caller's: how long it waits for one message. At most [MaxTimeout]; 0: [DefaultTimeout].
	Timeout time.Duration
}

// Bounds of [Config.Timeout].
const (
	DefaultTimeout = 5 * time.Second
	MaxTimeout     = time.Minute
)

const (
	maxSecret = 1024
	minSecret = 16 // 128 bits, if it is random
)

// Check says what is wrong with w as it stands, without opening anything.
func (w Config) Check() error {
	u, err := url.Parse(w.URL)
	switch {
	case w.URL == "":
		return errors.New("webhook: no url; give the https address that messages go to")
	case err != nil:
		return fmt.Errorf("webhook: the url cannot be read: %w", withoutURL(err))
	case u.User != nil:
		return errors.New("webhook: the url has a user or password; leave them out, the signature says who sent it")
	case u.Host == "" || u.Hostname() == "" || u.Fragment != "":
		return fmt.Errorf("webhook: the url %.200q is not that of a server, such as https://example.org/silk", u.Redacted())
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return fmt.Errorf("webhook: the url %s://%s is not https, nor http to a loopback address", u.Scheme, u.Host)
	case w.SecretFile == "":
		return fmt.Errorf("webhook %s: no secret_file; name a file with 16 bytes or more, by which the receiver can tell that a message is one of ours", u.Host)
	case w.Timeout < 0 || w.Timeout > MaxTimeout:
		return fmt.Errorf("webhook %s: timeout is %v; it is between 0 and %v", u.Host, w.Timeout, MaxTimeout)
	}
	return nil
}

// withoutURL is an error of net/url or net/http without the URL, which may have a token in it.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Hook sends. Safe for concurrent use.
type Hook struct {
	url    *url.URL
	secret string // a file
	most   time.Duration
	client *http.Client
	dialer *net.Dialer
}

// New checks w. It connects to nothing and opens nothing.
func New(w Config) (*Hook, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	u, err := url.Parse(w.URL)
	if err != nil {
		return nil, err
	}
	h := &Hook{url: u, secret: w.SecretFile, most: cmp.Or(w.Timeout, DefaultTimeout), dialer: &net.Dialer{}}
	h.client = &http.Client{
		// A message goes where the configuration says, and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:             nil, // the environment of whoever starts a run must not divert or stop its messages
			DialContext:       h.dialer.DialContext,
			DisableKeepAlives: true, // nothing is left behind
			TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
		},
	}
	return h, nil
}

// Name is the server, for people. It leaves the path out: it may have a token in it.
func (h *Hook) Name() string { return "webhook " + h.url.Scheme + "://" + h.url.Host }

// Timeout is [Config.Timeout], or the default.
func (h *Hook) Timeout() time.Duration { return h.most }

// Post makes one attempt to send body, which is JSON, until ctx ends. again says whether another one may go better. id names the
// message: each attempt to send it has the same.
func (h *Hook) Post(ctx context.Context, id string, body []byte) (again bool, err error) {
	key, err := readSecret(h.secret)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url.String(), bytes.NewReader(body))
	if err != nil {
		return false, withoutURL(err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "silk")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", "v1,"+Sign(key, id, at, body))
	resp, err := h.client.Do(req)
	if err != nil {
		return true, withoutURL(err)
	}
	defer resp.Body.Close() // its content does not matter
	if _, err := io.CopyN(io.Discard, resp.Body, 4096); err != nil && !errors.Is(err, io.EOF) {
		return true, fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	again = resp.StatusCode/100 == 5 || resp.StatusCode == http.StatusTooManyRequests
	return again, fmt.Errorf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}

// Sign is the signature, without its version, of the body of a message with an id at a time in Unix seconds:
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.
func Sign(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// readSecret reads a key. Errors do not have it in them.
func readSecret(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlock, 0)
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	defer f.Close() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("secret %s is not a file that only its owner may read", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	text := strings.TrimSpace(string(data))
	key := []byte(text)
	if coded, ok := strings.CutPrefix(text, "whsec_"); ok {
		if key, err = base64.StdEncoding.DecodeString(coded); err != nil {
			return nil, fmt.Errorf("secret %s has whsec_ and then no base64", path)
		}
	}
	if len(key) < minSecret || len(data) > maxSecret {
		return nil, fmt.Errorf("secret %s has not %d to %d bytes", path, minSecret, maxSecret)
	}
	return key, nil
}

// Reach reads the secret and connects, with TLS where a message would. It sends nothing.
func (h *Hook) Reach(ctx context.Context) error {
	if _, err := readSecret(h.secret); err != nil {
		return err
	}
	port := h.url.Port()
	dial := h.dialer.DialContext
	if h.url.Scheme == "https" {
		dial = (&tls.Dialer{NetDialer: h.dialer, Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext
	}
	if port == "" {
		port = h.url.Scheme // the name of a service is a port too
	}
	c, err := dial(ctx, "tcp", net.JoinHostPort(h.url.Hostname(), port))
	if err != nil {
		return err
	}
	return c.Close()
}
