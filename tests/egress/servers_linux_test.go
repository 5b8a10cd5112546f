package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// journal is what servers and resolver have seen, by the words of the attempts.
type journal struct {
	mu   sync.Mutex
	seen map[string][]string
	all  []string
}

// word is how each attempt marks what it sends.
var word = regexp.MustCompile(`(?i)w[0-9]+[rcudm]w`)

// note writes down what somebody has seen.
func (j *journal) note(who, what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, who+" "+what)
	for _, w := range word.FindAllString(what, -1) {
		w = strings.ToLower(w)
		j.seen[w] = append(j.seen[w], who+" "+what)
	}
}

// of is what was seen of an attempt; who filters it, "" does not.
func (j *journal) of(word, who string) (seen []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.seen[word] {
		if strings.HasPrefix(s, who) {
			seen = append(seen, s)
		}
	}
	return seen
}

// awaits is whether something of an attempt is seen soon: what ends a connection travels when the program is gone.
func (j *journal) awaits(word, what string) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 500 {
		if slices.Contains(j.of(word, ""), what) {
			return true
		}
		<-tick.C
	}
	return false
}

// now is where the journal ends, for asked.
func (j *journal) now() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.all)
}

// asked are the names that the resolver was asked for since then.
func (j *journal) asked(since int) (names []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.all[since:] {
		if f := strings.Fields(s); f[0] == "resolver" && len(f) == 3 {
			names = append(names, strings.ToLower(strings.TrimSuffix(f[2], ".")))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// authority vouches for all servers.
type authority struct {
	pem  []byte
	leaf tls.Certificate
}

func newAuthority() (a authority, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return a, err
	}
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of the tests"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		return a, err
	}
	if root, err = x509.ParseCertificate(der); err != nil { // with the key identifier that it has got
		return a, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "a server"}, NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for name := range zone {
		leaf.DNSNames = append(leaf.DNSNames, name)
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return a, err
	}
	cert, err := x509.CreateCertificate(rand.Reader, leaf, root, own.Public(), key)
	if err != nil {
		return a, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.leaf = tls.Certificate{Certificate: [][]byte{cert, der}, PrivateKey: own}
	return a, nil
}

// serve starts the servers of the internet. They end with the process.
func (w *world) serve() error {
	ctx := context.Background()
	var lc net.ListenConfig
	errs := []error{w.resolver.serve(ctx, resolverAddr+":53")}
	for _, s := range []struct {
		port  string
		serve func(net.Listener)
	}{
		{":80", w.web}, {":8080", w.web}, {":443", w.webTLS}, {":8443", w.webTLS}, {":7", w.echo}, {":22", w.speaksFirst}, {":3128", w.proxy}, {":9", w.resets}, {":101", w.sum}, {":102", w.source},
	} {
		l, err := lc.Listen(ctx, "tcp", s.port)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		go s.serve(l)
	}
	for _, addr := range []string{"93.184.215.14:443", "93.184.215.14:7", "[2606:4700::14]:443"} {
		c, err := lc.ListenPacket(ctx, "udp", addr)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		go w.echoPackets(c)
	}
	return errors.Join(errs...)
}

// serveAtHome starts servers on the host that silk runs on.
func (w *world) serveAtHome() error {
	ctx := context.Background()
	var lc net.ListenConfig
	web, err := lc.Listen(ctx, "tcp", ":80")
	if err != nil {
		return err
	}
	secure, err := lc.Listen(ctx, "tcp", ":8443")
	if err != nil {
		return err
	}
	go w.web(web)
	go w.webTLS(secure)
	return nil
}

func accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}

// web answers requests with what it was asked. ?to=URL leads on.
func (w *world) web(l net.Listener) { w.handle("http", l) }

func (w *world) webTLS(l net.Listener) {
	w.handle("https", tls.NewListener(l, &tls.Config{
		Certificates: []tls.Certificate{w.ca.leaf}, NextProtos: []string{"http/1.1"},
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			w.note("hello", h.ServerName)
			return nil, nil
		},
	}))
}

func (w *world) handle(scheme string, l net.Listener) {
	server := &http.Server{
		ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(io.LimitReader(req.Body, 1<<20))
			at := req.Context().Value(http.LocalAddrContextKey).(net.Addr)
			if to := req.URL.Query().Get("to"); to != "" { // which is not to be noted: what is there then would seem to have come
				http.Redirect(rw, req, to, http.StatusFound)
				return
			}
			w.note(scheme, fmt.Sprintf("%s %s %s at %s with %v and %q", req.Method, req.Host, req.URL, at, req.Header, body))
			fmt.Fprintf(rw, "hello from %s %s", scheme, req.URL.Path)
		}),
	}
	_ = server.Serve(l)
}

// heard notes the words in what was heard.
func (w *world) heard(who string, c net.Addr, data []byte) {
	for _, found := range word.FindAll(data, -1) {
		w.note(who, fmt.Sprintf("%s at %s", found, c))
	}
}

// echo says back what it hears.
func (w *world) echo(l net.Listener) {
	accept(l, func(c net.Conn) {
		b := make([]byte, 32<<10)
		for {
			n, err := c.Read(b)
			w.heard("echo", c.LocalAddr(), b[:n])
			if n > 0 {
				if _, err := c.Write(b[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
}

func (w *world) echoPackets(c net.PacketConn) {
	b := make([]byte, 64<<10)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		w.heard("udp", c.LocalAddr(), b[:n])
		_, _ = c.WriteTo(b[:n], from)
	}
}

// speaksFirst greets, as SSH servers do, and hears one line.
func (w *world) speaksFirst(l net.Listener) {
	accept(l, func(c net.Conn) {
		if _, err := io.WriteString(c, "SSH-2.0-OpenSSH_10.0\r\n"); err != nil {
			return
		}
		line, _ := bufio.NewReader(c).ReadBytes('\n')
		w.heard("ssh", c.LocalAddr(), line)
	})
}

// sum hears all there is, and says then what it was: the client has closed its half.
func (w *world) sum(l net.Listener) {
	accept(l, func(c net.Conn) {
		h := sha256.New()
		n, err := io.Copy(h, c)
		fmt.Fprintf(c, "%d %x %v", n, h.Sum(nil), err)
	})
}

// source is asked for a number of bytes, says them and closes its half; then it hears what there is.
func (w *world) source(l net.Listener) {
	accept(l, func(c net.Conn) {
		r := bufio.NewReader(c)
		line, _ := r.ReadString('\n')
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return
		}
		if _, err := io.Copy(c, io.LimitReader(&numbers{}, n)); err != nil {
			return
		}
		_ = c.(*net.TCPConn).CloseWrite()
		rest, _ := io.ReadAll(r)
		for _, found := range word.FindAll(rest, -1) {
			w.note("source", string(found)+" has ended")
		}
	})
}

// numbers is what source says, from its first byte on.
type numbers struct{ at int }

func (n *numbers) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte((n.at + i) * 7)
	}
	n.at += len(b)
	return len(b), nil
}

// resets answers in part, and breaks off when it hears more. If the client breaks off, it notes that.
func (w *world) resets(l net.Listener) {
	accept(l, func(c net.Conn) {
		b := make([]byte, 1024)
		n, _ := c.Read(b)
		w.heard("resets", c.LocalAddr(), b[:n])
		if _, err := io.WriteString(c, "part"); err != nil {
			return
		}
		if _, err := c.Read(b); errors.Is(err, syscall.ECONNRESET) {
			w.note("resets", string(b[:n])+" the client broke off")
		}
		_ = c.(*net.TCPConn).SetLinger(0)
	})
}

// proxy connects to wherever it is told.
func (w *world) proxy(l net.Listener) {
	accept(l, func(c net.Conn) {
		r := bufio.NewReader(c)
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		w.note("proxy", req.Method+" "+req.Host)
		if _, err := io.WriteString(c, "HTTP/1.1 200 Connected\r\n\r\n"); err != nil {
			return
		}
		// Whom it connects to is this very server: what the client says then is what matters.
		b := make([]byte, 4096)
		n, _ := r.Read(b)
		w.heard("tunnel", c.LocalAddr(), b[:n])
		_, _ = io.Copy(c, io.MultiReader(bytes.NewReader([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"))))
	})
}
