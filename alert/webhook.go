package alert

import (
	"bytes"
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

// Webhook is a server that is told by an HTTP POST of the JSON form, signed as https://www.standardwebhooks.com says: the
// header webhook-signature is "v1," and the base64 of HMAC-SHA256 over webhook-id, webhook-timestamp (Unix seconds) and
// the body, joined by dots. Both attempts have the same id, which is the run and the time of the alert.
type Webhook struct {
	// URL is https, or http to a loopback address: an alert says what is on this host.
	URL string

	// SecretFile holds the key of the signature: text of 16 to 1024 bytes, or "whsec_" and base64, without the white space
	// around it. It must be readable by its owner alone, and is read for each alert.
	SecretFile string

	// Timeout bounds both attempts together. 0: 5 s. At most a minute, for which the end of a run waits.
	Timeout time.Duration
}

const (
	maxTimeout = time.Minute
	maxSecret  = 1024
	minSecret  = 16 // 128 bits, if it is random
	attempts   = 2
)

// Check says what is wrong with w as it stands, without opening anything.
func (w Webhook) Check() error {
	u, err := url.Parse(w.URL)
	switch {
	case err != nil:
		return fmt.Errorf("webhook: %w", withoutURL(err))
	case u.User != nil:
		return errors.New("webhook: the URL has a user or password; the signature says who sent it")
	case u.Host == "" || u.Hostname() == "" || u.Fragment != "":
		return fmt.Errorf("webhook: %s is not the URL of a server", u.Redacted())
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return fmt.Errorf("webhook: %s://%s is not https, nor http to a loopback address", u.Scheme, u.Host)
	case w.SecretFile == "":
		return fmt.Errorf("webhook %s: no secret_file: whoever receives an alert must be able to tell that it is one", u.Host)
	case w.Timeout < 0 || w.Timeout > maxTimeout:
		return fmt.Errorf("webhook %s: a timeout of %v is not between 0 and %v", u.Host, w.Timeout, maxTimeout)
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

// webhook is the sink of a Webhook.
type webhook struct {
	url    *url.URL
	secret string // a file
	most   time.Duration
	client *http.Client
	dialer *net.Dialer
}

func newWebhook(w Webhook) (*webhook, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	u, err := url.Parse(w.URL)
	if err != nil {
		return nil, err
	}
	if w.Timeout == 0 {
		w.Timeout = defaultTimeout
	}
	h := &webhook{url: u, secret: w.SecretFile, most: w.Timeout, dialer: &net.Dialer{}}
	h.client = &http.Client{
		// An alert goes where the configuration says, and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:             nil, // the environment of whoever starts a run must not divert or stop its alerts
			DialContext:       h.dialer.DialContext,
			DisableKeepAlives: true, // nothing is left behind
			TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
		},
	}
	return h, nil
}

// name leaves the path out: it may have a token in it.
func (h *webhook) name() string { return "webhook " + h.url.Scheme + "://" + h.url.Host }

func (h *webhook) timeout() time.Duration { return h.most }

func (h *webhook) raise(ctx context.Context, a Alert) error {
	body, err := a.MarshalJSON()
	if err != nil {
		return err
	}
	key, err := readSecret(h.secret)
	if err != nil {
		return err
	}
	id := "alert_" + a.Run + "_" + strconv.FormatInt(a.At.UnixMilli(), 10)
	var first error
	for left := attempts; ; left-- {
		// The first attempt has half of the time, so that the second has some too.
		deadline, _ := ctx.Deadline()
		one, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		again, err := h.post(one, key, id, body)
		cancel()
		switch {
		case err == nil:
			return nil
		case first == nil && again && ctx.Err() == nil:
			first = err
		case first == nil:
			return err
		case first.Error() == err.Error():
			return fmt.Errorf("%w (twice)", err)
		default:
			return fmt.Errorf("%w; then %w", first, err)
		}
	}
}

// post makes one attempt. again says whether another may go better.
func (h *webhook) post(ctx context.Context, key []byte, id string, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url.String(), bytes.NewReader(body))
	if err != nil {
		return false, withoutURL(err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "silk")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", "v1,"+sign(key, id, at, body))
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

// sign is the signature of https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.
func sign(key []byte, id, at string, body []byte) string {
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

// check reads the secret and connects, with TLS where the alert would.
func (h *webhook) check(ctx context.Context) error {
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
