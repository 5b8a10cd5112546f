package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/silk-sandbox/silk/egress"
)

// web passes on the HTTP requests of a sandbox, each of which says for itself which host it is for: a connection that began with the right
// one may go on with another.
type web struct {
	g        *gateway
	server   *http.Server
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
	served   sync.WaitGroup
}

// maxHeader bounds the head of a request, as Go's server does (net/http, DefaultMaxHeaderBytes).
const maxHeader = 1 << 20

type visitKey struct{}

// visit is one connection of a sandbox that speaks HTTP.
type visit struct {
	*spoken

	target  egress.Target
	secrets []egress.Secret
	tls     bool // the client speaks TLS with this gateway, which speaks it with the host
	d       Decision
	sent    atomic.Int64
	taken   atomic.Int64
	quota   *quota
	done    chan struct{}
	once    sync.Once
}

func newWeb(g *gateway) *web {
	w := &web{g: g, accepted: make(chan net.Conn), closed: make(chan struct{})}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			v := r.In.Context().Value(visitKey{}).(*visit)
			scheme := "http"
			if v.tls {
				scheme = "https"
			}
			r.Out.URL = &url.URL{Scheme: scheme, Host: net.JoinHostPort(v.target.Name, strconv.Itoa(int(v.target.Port))), Path: r.In.URL.Path, RawPath: r.In.URL.RawPath, RawQuery: r.In.URL.RawQuery, ForceQuery: r.In.URL.ForceQuery}
			r.Out.Host = r.In.Host
			if _, ok := r.Out.Header["User-Agent"]; !ok {
				r.Out.Header["User-Agent"] = nil // or the transport adds its own
			}
			for _, s := range v.secrets {
				r.Out.Header.Set(s.Header, s.InHeader(r.In.Header.Get(s.Header)))
			}
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				v := ctx.Value(visitKey{}).(*visit)
				return g.dial(ctx, v.target, &v.d)
			},
			TLSClientConfig: &tls.Config{RootCAs: g.cfg.Roots}, TLSHandshakeTimeout: g.cfg.Dial,
			DisableCompression: true, ResponseHeaderTimeout: g.cfg.Idle, IdleConnTimeout: g.cfg.Idle, DisableKeepAlives: true,
		},
		FlushInterval: -1, // as it comes
		ErrorHandler: func(rw http.ResponseWriter, req *http.Request, err error) {
			v := req.Context().Value(visitKey{}).(*visit)
			g.failed(v.d, err)
			status := http.StatusBadGateway
			if _, ok := errors.AsType[*egress.Refusal](err); ok {
				status = http.StatusForbidden
			}
			http.Error(rw, "silk: "+err.Error(), status)
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	w.server = &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			v := req.Context().Value(visitKey{}).(*visit)
			if err := g.table.InForce(v.check(req)); err != nil {
				g.refused(v.d, err)
				rw.Header().Set("Connection", "close")
				http.Error(rw, "silk: "+err.Error(), http.StatusForbidden)
				return
			}
			proxy.ServeHTTP(rw, req)
		}),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, visitKey{}, c) },
		ReadHeaderTimeout: g.cfg.Dial, IdleTimeout: g.cfg.Idle, MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	w.served.Go(func() { _ = w.server.Serve(w) }) // ends with close
	return w
}

// secrets are those for a target.
func (g *gateway) secrets(t egress.Target) (list []egress.Secret) {
	for _, s := range g.cfg.Secrets {
		if s.Host == t.Name && s.Port == t.Port {
			list = append(list, s)
		}
	}
	return list
}

// disguise speaks TLS with a client in the host's place. Nothing but HTTP/1.1 is offered: requests are read one by one.
func (g *gateway) disguise(ctx context.Context, c net.Conn, name string) (net.Conn, error) {
	if g.cfg.Authority == nil {
		return nil, fmt.Errorf("stand in for %s: nobody vouches for this gateway", name)
	}
	cert, err := g.cfg.Authority.Issue(time.Now(), name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Dial)
	defer cancel()
	disguised := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
	if err := disguised.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("the client did not take this gateway for %s, which it stands in for: %w", name, err)
	}
	return disguised, nil
}

// serve serves one connection to its end.
func (w *web) serve(ctx context.Context, c *spoken, target egress.Target, speaks egress.Protocol, secrets []egress.Secret) {
	v := &visit{
		spoken: c, target: target, secrets: secrets, tls: speaks == egress.TLS,
		d: Decision{Kind: "tcp", Host: target.Host(), Port: target.Port, At: time.Now(), Count: 1}, quota: &w.g.quota, done: make(chan struct{}),
	}
	if v.tls {
		disguised, err := w.g.disguise(ctx, c, target.Name)
		if err != nil {
			w.g.ended(v.d, err)
			return
		}
		v.spoken = &spoken{Conn: disguised}
	}
	select {
	case w.accepted <- v:
		<-v.done
	case <-w.closed:
		_ = v.Close()
	}
	v.d.Sent, v.d.Taken = v.sent.Load(), v.taken.Load()
	if v.d.Addr.IsValid() {
		w.g.ended(v.d, nil)
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
	n, err := v.spoken.Read(b)
	v.sent.Add(int64(n))
	return n, firstOf(err, v.quota.take(n))
}

func (v *visit) Write(b []byte) (int, error) {
	if err := v.quota.take(len(b)); err != nil {
		return 0, err
	}
	n, err := v.spoken.Write(b)
	v.taken.Add(int64(n))
	return n, err
}

func (v *visit) Close() error {
	v.once.Do(func() { close(v.done) })
	return v.spoken.Close()
}

// Accept implements [net.Listener] for connections that came through the stack.
func (w *web) Accept() (net.Conn, error) {
	select {
	case c := <-w.accepted:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (w *web) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// Addr implements [net.Listener].
func (w *web) Addr() net.Addr { return &net.TCPAddr{} }

// close ends all connections.
func (w *web) close() {
	_ = w.server.Close()
	w.served.Wait()
}
