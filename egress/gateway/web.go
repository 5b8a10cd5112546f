package gateway

import (
	"context"
	"fmt"
	"io"
	"log"
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

	target egress.Target
	d      Decision
	sent   atomic.Int64
	taken  atomic.Int64
	quota  *quota
	done   chan struct{}
	once   sync.Once
}

func newWeb(g *gateway) *web {
	w := &web{g: g, accepted: make(chan net.Conn), closed: make(chan struct{})}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			v := r.In.Context().Value(visitKey{}).(*visit)
			r.Out.URL = &url.URL{Scheme: "http", Host: net.JoinHostPort(v.target.Name, strconv.Itoa(int(v.target.Port))), Path: r.In.URL.Path, RawPath: r.In.URL.RawPath, RawQuery: r.In.URL.RawQuery, ForceQuery: r.In.URL.ForceQuery}
			r.Out.Host = r.In.Host
			if _, ok := r.Out.Header["User-Agent"]; !ok {
				r.Out.Header["User-Agent"] = nil // or the transport adds its own
			}
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				v := ctx.Value(visitKey{}).(*visit)
				return g.dial(ctx, v.target, &v.d)
			},
			DisableCompression: true, ResponseHeaderTimeout: g.cfg.Idle, IdleConnTimeout: g.cfg.Idle, DisableKeepAlives: true,
		},
		FlushInterval: -1, // as it comes
		ErrorHandler: func(rw http.ResponseWriter, req *http.Request, err error) {
			v := req.Context().Value(visitKey{}).(*visit)
			g.failed(v.d, err)
			http.Error(rw, "silk: "+err.Error(), http.StatusBadGateway)
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	w.server = &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			v := req.Context().Value(visitKey{}).(*visit)
			if err := v.check(req); err != nil {
				g.refused(v.d, err)
				rw.Header().Set("Connection", "close")
				http.Error(rw, "silk: "+err.Error(), http.StatusForbidden)
				return
			}
			proxy.ServeHTTP(rw, req)
		}),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, visitKey{}, c) },
		ReadHeaderTimeout: g.cfg.Dial, IdleTimeout: g.cfg.Idle, MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0),
	}
	w.served.Go(func() { _ = w.server.Serve(w) }) // ends with close
	return w
}

// serve serves one connection to its end.
func (w *web) serve(c *spoken, target egress.Target) {
	v := &visit{spoken: c, target: target, d: Decision{Kind: "tcp", Host: target.Host(), Port: target.Port, At: time.Now(), Count: 1}, quota: &w.g.quota, done: make(chan struct{})}
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
