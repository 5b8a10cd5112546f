package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
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

// maxHead bounds the head of a request, and of an answer: servers take 8 to 32 KiB, and a sandbox has many connections.
const maxHead = 64 << 10

type visitKey struct{}

func visitOf(ctx context.Context) *visit { return ctx.Value(visitKey{}).(*visit) }

func newWeb(g *gateway) *web {
	w := &web{g: g, accepted: make(chan net.Conn), closed: make(chan struct{})}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { visitOf(r.In.Context()).rewrite(r) },
		Transport:     byVisit{},
		FlushInterval: -1, // as it comes
		ErrorHandler: func(rw http.ResponseWriter, req *http.Request, err error) {
			status, text := visitOf(req.Context()).failed(err)
			rw.Header().Set("Connection", "close")
			http.Error(rw, "silk: "+text, status)
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	w.server = &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			v := visitOf(req.Context())
			if !v.begin() {
				panic(http.ErrAbortHandler)
			}
			defer v.work.Done()
			v.asked()
			defer v.passed() // if it was refused
			if err := g.table.InForce(v.check(req)); err != nil {
				g.refused(v.d, err)
				rw.Header().Set("Connection", "close")
				http.Error(rw, "silk: "+err.Error(), http.StatusForbidden)
				return
			}
			rw.Header()["Content-Type"] = nil // what the host does not say is not guessed
			proxy.ServeHTTP(rw, req.WithContext(v.passing))
		}),
		ConnContext:       func(_ context.Context, c net.Conn) context.Context { return c.(*visit).passing },
		ConnState:         func(c net.Conn, to http.ConnState) { c.(*visit).state(to) },
		ReadHeaderTimeout: g.cfg.Dial, IdleTimeout: g.cfg.Idle, MaxHeaderBytes: maxHead, DisableGeneralOptionsHandler: true, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
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
		return nil, fmt.Errorf("the client did not take this gateway for %s, in whose place it adds a secret (the run's certificate authority is in SSL_CERT_FILE): %w", name, err)
	}
	return disguised, nil
}

// serve serves one connection to its end. settled is called when the host has got what the client has said, and it says nothing more.
func (w *web) serve(ctx context.Context, c *spoken, target egress.Target, speaks egress.Protocol, secrets []egress.Secret, d Decision, settled func()) {
	if speaks == egress.TLS {
		disguised, err := w.g.disguise(ctx, c, target.Name)
		if err != nil {
			w.g.ended(d, err)
			return
		}
		c = &spoken{Conn: disguised}
	}
	v := newVisit(ctx, w.g, c, target, d, settled)
	v.secrets, v.tls = secrets, speaks == egress.TLS
	defer context.AfterFunc(v.ctx, func() { _ = v.Close() })()
	select {
	case w.accepted <- v:
		<-v.done
	case <-w.closed:
		_ = v.Close()
	}
	v.end()
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
