package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/silk-sandbox/silk/egress"
)

// visit is one connection of a sandbox that speaks HTTP. It has at most one to the host, which nobody else has.
type visit struct {
	*spoken

	g       *gateway
	target  egress.Target
	secrets []egress.Secret
	tls     bool // the client speaks TLS with this gateway, which speaks it with the host
	ctx     context.Context
	cancel  context.CancelCauseFunc
	host    *http.Transport
	idle    *time.Timer
	done    chan struct{} // closed with the connection
	once    sync.Once

	sent, taken atomic.Int64

	settled func()          // the end of the sandbox need not wait for it
	passing context.Context // of its requests: they end with the visit, not as soon as the client has said all
	halved  sync.Once       // the client has said all
	aborted atomic.Bool     // the server has interrupted a read

	mu     sync.Mutex
	d      Decision       // Addr and Reason come with time
	over   bool           // nothing begins any more
	work   sync.WaitGroup // what has begun
	said   bool           // the client has said something that the host has not got
	silent bool           // and says nothing more
	head   bool           // it has said something that is no request yet
	asks   bool           // it waits for the answer to a request
	answer string         // what the server itself has answered to that
}

func newVisit(ctx context.Context, g *gateway, c *spoken, target egress.Target, d Decision, settled func()) *visit {
	v := &visit{spoken: c, g: g, target: target, d: d, settled: settled, done: make(chan struct{})}
	v.ctx, v.cancel = context.WithCancelCause(ctx)
	v.passing = httptrace.WithClientTrace(v.ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { v.passed() }})
	v.passing = context.WithValue(v.passing, http.ServerContextKey, g.web.server) // by which the proxy knows that it may break off an answer
	v.passing = context.WithValue(v.passing, visitKey{}, v)
	v.host = &http.Transport{
		DialContext: v.dial, TLSClientConfig: &tls.Config{RootCAs: g.cfg.Roots, MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: g.cfg.Dial,
		DisableCompression: true, MaxConnsPerHost: 1, ResponseHeaderTimeout: g.cfg.Idle, MaxResponseHeaderBytes: maxHead,
		ReadBufferSize: httpBufferBytes, WriteBufferSize: httpBufferBytes,
	}
	v.idle = time.AfterFunc(g.cfg.Idle, func() { v.cancel(&limit{"idle", fmt.Sprintf("no byte came for %v", g.cfg.Idle)}) })
	return v
}

// maxAnswer bounds the first line of an answer of the server's own.
const maxAnswer = 200

// httpBufferBytes is what a connection of HTTP to a host reads and writes at once.
const httpBufferBytes = 16 << 10

// begin says whether something may begin, which then says v.work.Done.
func (v *visit) begin() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.over {
		v.work.Add(1)
	}
	return !v.over
}

// end waits until nothing of the visit is left, and tells what it was.
func (v *visit) end() {
	v.mu.Lock()
	v.over = true
	v.mu.Unlock()
	_ = v.Close()
	v.work.Wait()
	v.host.CloseIdleConnections()
	d := v.d
	if (v.head || v.answer != "") && !v.g.hasLeft() {
		v.unreadable()
	}
	cause := context.Cause(v.ctx)
	if _, limited := errors.AsType[*limit](cause); !limited {
		cause = nil
	}
	if !d.Addr.IsValid() && d.Reason == "" && cause == nil {
		return // it was refused, or has asked for nothing
	}
	if d.Addr.IsValid() { // or else what it has got was our word
		d.Sent, d.Taken = v.sent.Load(), v.taken.Load()
	}
	v.g.ended(d, cause)
}

// unreadable tells of what was refused by the server itself, which reads requests.
func (v *visit) unreadable() {
	reason := fmt.Sprintf("the client did not say a whole request in %v", v.g.cfg.Dial)
	if v.answer != "" {
		reason = "what the client says is not passed on: " + v.answer
	}
	if err := v.g.table.InForce(&egress.Refusal{Rule: egress.RefusedProtocol, Reason: reason}); err != nil {
		v.g.refused(v.d, err)
	}
}

// state is told by the server: the client has said something, of which it is not known yet what it is, or has got its answer. What the server says until
// the client has asked for something is its own word.
func (v *visit) state(to http.ConnState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch to {
	case http.StateActive:
		v.head = true
	case http.StateIdle:
		v.asks = false
	}
}

func (v *visit) asked() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.head, v.asks = false, true
}

// heard, passed and hush are what becomes of the client's words: they have come, the host has them or never will, there are no more.
func (v *visit) heard() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said = true
}

func (v *visit) passed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.said = false; v.silent {
		v.settled()
	}
}

func (v *visit) hush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.silent = true; !v.said {
		v.settled()
	}
}

// dial connects to the host. The transport calls it in a goroutine of its own, which may outlast the request.
func (v *visit) dial(context.Context, string, string) (net.Conn, error) {
	if !v.begin() {
		return nil, net.ErrClosed
	}
	defer v.work.Done()
	var d Decision
	c, err := v.g.dial(v.ctx, v.target, &d)
	if err == nil {
		v.mu.Lock()
		v.d.Addr = d.Addr
		v.g.begun(v.d)
		v.mu.Unlock()
	}
	return c, err
}

// failed keeps why a request has failed, and says what the sandbox is told: nothing of the host's own network.
func (v *visit) failed(err error) (status int, text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if refused, ok := errors.AsType[*egress.Refusal](err); ok {
		v.g.refused(v.d, refused)
		return http.StatusForbidden, fmt.Sprintf("%s is refused: %s", v.target.Host(), refused.Rule)
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if v.d.Reason == "" && v.ctx.Err() == nil {
		v.d.Reason = err.Error()
		if untrusted {
			v.d.Reason += "; egress: authorities in the configuration names whom to trust besides this host's own"
		}
	}
	if untrusted {
		return http.StatusBadGateway, v.target.Host() + " has a certificate that this host does not trust"
	}
	return http.StatusBadGateway, v.target.Host() + " does not answer"
}

// byVisit sends a request by the connection of its visit.
type byVisit struct{}

func (byVisit) RoundTrip(r *http.Request) (*http.Response, error) {
	return visitOf(r.Context()).host.RoundTrip(r)
}

// rewrite makes the host's request of the client's.
func (v *visit) rewrite(r *httputil.ProxyRequest) {
	scheme := "http"
	if v.tls {
		scheme = "https"
	}
	in := r.In.URL
	r.Out.URL = &url.URL{Scheme: scheme, Host: net.JoinHostPort(v.target.Name, strconv.Itoa(int(v.target.Port))), Path: in.Path, RawPath: in.RawPath, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery}
	r.Out.Host = r.In.Host
	r.Out.Trailer = r.In.Trailer // not the proxy's copy, which is made before they are there
	if _, ok := r.Out.Header["User-Agent"]; !ok {
		r.Out.Header["User-Agent"] = nil // or the transport adds its own
	}
	if !strings.EqualFold(r.Out.Header.Get("Upgrade"), "websocket") { // after h2c, requests for other hosts would be out of sight
		r.Out.Header.Del("Upgrade")
		r.Out.Header.Del("Connection")
	}
	for _, s := range v.secrets {
		r.Out.Header.Set(s.Header, s.InHeader(r.In.Header.Get(s.Header)))
	}
}

// check says whether a request is for the host of the rule.
func (v *visit) check(req *http.Request) error {
	if req.Method == http.MethodConnect {
		return &egress.Refusal{Rule: egress.RefusedProtocol, Reason: "the sandbox's network has no proxy: CONNECT"}
	}
	hosts := []string{req.Host}
	if req.URL.Host != "" {
		hosts = append(hosts, req.URL.Host)
	}
	for _, host := range hosts {
		name, port := host, v.target.Port
		if h, p, err := net.SplitHostPort(host); err == nil {
			n, err := strconv.ParseUint(p, 10, 16)
			if err != nil {
				n = 0
			}
			name, port = h, uint16(n)
		}
		if !strings.EqualFold(strings.TrimSuffix(name, "."), v.target.Name) || port != v.target.Port {
			return &egress.Refusal{Rule: egress.RefusedName, Reason: fmt.Sprintf("the client asks %s for the host %q", v.target.Host(), host)}
		}
	}
	return nil
}

func (v *visit) Read(b []byte) (int, error) {
	if v.g.hasLeft() { // what it has said is here
		_ = v.spoken.SetReadDeadline(time.Now().Add(afterSilence))
	}
	n, err := v.spoken.Read(b)
	if n > 0 {
		v.heard()
	}
	v.sent.Add(v.count(n))
	if err != nil {
		v.ends(err)
	}
	return n, firstOf(err, v.take(n))
}

// ends is what the end of the client's words means. A program may say all and wait for the answer, or be gone: it is believed for a while.
func (v *visit) ends(err error) {
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF):
		v.hush()
		v.halved.Do(func() {
			taken := v.taken.Load()
			patience := time.AfterFunc(v.g.cfg.Dial, func() {
				if v.taken.Load() == taken {
					v.cancel(nil)
				}
			})
			context.AfterFunc(v.ctx, func() { patience.Stop() })
		})
	case !errors.As(err, &timeout) || !timeout.Timeout():
		v.cancel(nil)
	case v.g.hasLeft() && !v.aborted.Load():
		v.hush()
	}
}

// SetReadDeadline is the server's way to interrupt a read, too.
func (v *visit) SetReadDeadline(t time.Time) error {
	v.aborted.Store(!t.IsZero() && t.Before(time.Now()))
	return v.spoken.SetReadDeadline(t)
}

func (v *visit) Write(b []byte) (int, error) {
	v.mu.Lock()
	if !v.asks && v.answer == "" {
		line, _, _ := strings.Cut(string(b[:min(len(b), maxAnswer)]), "\r\n")
		v.answer = strings.TrimPrefix(line, "HTTP/1.1 ")
	}
	v.mu.Unlock()
	if err := v.take(len(b)); err != nil {
		return 0, err
	}
	n, err := v.spoken.Write(b)
	v.taken.Add(v.count(n))
	return n, err
}

func (v *visit) count(n int) int64 {
	if n > 0 {
		v.idle.Reset(v.g.cfg.Idle)
	}
	return int64(n)
}

func (v *visit) take(n int) error {
	err := v.g.take(v.ctx, n)
	if err != nil {
		v.cancel(err)
	}
	return err
}

func (v *visit) Close() error {
	v.once.Do(func() {
		v.idle.Stop()
		v.cancel(nil)
		close(v.done)
	})
	return v.spoken.Close()
}
