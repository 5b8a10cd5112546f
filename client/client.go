package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/secret"
)

// MaxRequestBytes is what a server takes for one request at most, which bounds the files that a run can bring.
const MaxRequestBytes = 64 << 20

const (
	maxAnswerBytes  = 64 << 20 // of one JSON answer
	maxProblemBytes = 1 << 20
	defaultPatience = 2 * time.Minute
)

// Token is the secret with which a client says who it is. It does not print itself.
type Token = secret.Secret

// ParseToken makes a token of text as `silk token new` prints it, or as a file holds it: white space around it does not count. An
// error does not repeat the text.
func ParseToken(text string) (Token, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Token{}, errors.New("the token is empty")
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return Token{}, errors.New("the token has characters that no token has")
		}
	}
	return secret.New(text), nil
}

// Config is what a [Client] is made of. Only URL is needed.
type Config struct {
	// URL is the address of the server: http://HOST:PORT, https://HOST:PORT, with or without a path, or unix:///PATH of its socket.
	URL string

	// Token says who asks. It is not needed on a socket.
	Token Token

	// Fingerprint is the SHA-256 of the server's certificate in hex, with or without colons. It is then the only certificate that
	// is taken, whoever signed it and whatever name it has. Empty: the certificate is checked as usual.
	Fingerprint string

	// HTTPClient makes the requests, instead of one of the client's own. It must not follow redirects to other servers. Not with
	// a socket or a fingerprint, which need connections of their own kind.
	HTTPClient *http.Client

	// Patience is how long a Stream goes on trying when there is no connection. 0: two minutes.
	Patience time.Duration
}

// Client speaks to one server. Safe for concurrent use.
type Client struct {
	name     string // as the caller gave it
	base     string // without a slash at the end
	token    Token
	http     *http.Client
	own      bool // http is ours
	patience time.Duration
}

// New checks cfg. It does not connect.
func New(cfg Config) (*Client, error) {
	a, err := parseAddress(cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{name: cfg.URL, base: a.base, token: cfg.Token, http: cfg.HTTPClient, patience: cmp.Or(cfg.Patience, defaultPatience)}
	if c.http == nil {
		c.http, c.own = a.client(), true
	}
	return c, nil
}

// Close lets go of connections that are idle. Requests and streams go on.
func (c *Client) Close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}

// call is one request.
type call struct {
	method, path string // path begins with /v1 and is escaped
	query        url.Values
	body         []byte // JSON; nil: none
	header       http.Header
}

// send makes a request. An answer that is none is an error; the caller closes the body of one that is.
func (c *Client) send(ctx context.Context, q call) (*http.Response, error) {
	resp, err := c.exchange(ctx, q)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, problemOf(resp)
	}
	return resp, nil
}

// exchange makes a request, whatever the status of its answer, whose body the caller closes.
func (c *Client) exchange(ctx context.Context, q call) (*http.Response, error) {
	address := c.base + q.path
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	var body io.Reader
	if q.body != nil {
		body = bytes.NewReader(q.body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, address, body)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	for k, v := range q.header {
		req.Header[k] = v
	}
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.authorize(req.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(ctx, err)
	}
	return resp, nil
}

func (c *Client) authorize(h http.Header) {
	if !c.token.Empty() {
		h.Set("Authorization", "Bearer "+c.token.Reveal())
	}
}

// unreached says that there was no answer.
func (c *Client) unreached(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reach the server %s: %w (is silk serve running there?)", c.name, err)
	}
	return fmt.Errorf("reach the server %s: %w", c.name, err)
}

// problemOf is what the server says is wrong. One that says it in no way that we know is told by its status alone.
func problemOf(resp *http.Response) *api.Problem {
	p := &api.Problem{}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if kind != p.ContentType("") || err != nil && len(text) == 0 || json.Unmarshal(text, p) != nil || p.Title == "" {
		p = &api.Problem{Type: "urn:silk:http", Title: fmt.Sprintf("the server answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))}
	}
	p.Status = resp.StatusCode
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 && p.RetryAfterMs == 0 {
		p.RetryAfterMs = int64(min(seconds, 3600)) * 1000
	}
	return p
}

// do makes a request whose body and answer are JSON. out may be nil.
func (c *Client) do(ctx context.Context, q call, out any) error {
	resp, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return c.unreached(ctx, err)
	case len(text) > maxAnswerBytes:
		return fmt.Errorf("read the answer to %s %s: it is larger than %d bytes", q.method, q.path, maxAnswerBytes)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read the answer to %s %s: it is not what the API describes: %w", q.method, q.path, err)
	}
	return nil
}

// encode is v as JSON, without escapes that only HTML needs: code has many of these characters.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return b.Bytes(), nil
}

// get asks again when there was no answer, or one that says to come later: asking twice changes nothing.
func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.again(ctx, call{method: http.MethodGet, path: path, query: query}, out)
}

// attempts is how often something is asked at most.
const attempts = 5

// again is do for requests that may be repeated.
func (c *Client) again(ctx context.Context, q call, out any) error {
	var b backoff
	for {
		err := c.do(ctx, q, out)
		if err == nil || b.attempts == attempts-1 || !passing(err) || ctx.Err() != nil {
			return err
		}
		if err := b.wait(ctx, err); err != nil {
			return err
		}
	}
}

// passing says whether err may go away by itself: there was no answer, or one of a server that stops, is behind a proxy, or has
// had too many requests in this second. A full queue is none of them.
func passing(err error) bool {
	var p *api.Problem
	if !errors.As(err, &p) {
		return true
	}
	switch p.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return p.Type == "urn:silk:rate"
}

func (c *Client) post(ctx context.Context, path string, in, out any) error {
	body, err := encode(in)
	if err != nil {
		return err
	}
	return c.do(ctx, call{method: http.MethodPost, path: path, body: body}, out)
}

// runPath is the path of a run, and of what is below it.
func runPath(run, below string) string { return "/v1/runs/" + url.PathEscape(run) + below }
