package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/packet"
)

// controlFD is where a gateway process hears its orders and reports: a SOCK_SEQPACKET socket.
const controlFD = 3

// Main is the gateway process. It serves a sandbox for each order, until whoever gives them is gone. It returns the exit status.
func Main() int {
	if err := errors.Join(closeInherited(), Confine()); err != nil {
		fmt.Fprintln(os.Stderr, "silk-gateway: confine:", err)
		return 1
	}
	if err := Control(context.Background(), controlFD); err != nil {
		fmt.Fprintln(os.Stderr, "silk-gateway:", err)
		return 1
	}
	return 0
}

// closeInherited closes what whoever has started this process had open, but for what is the gateway's: the executable, and what silk itself
// was given. Go opens nothing without close-on-exec, so that is what tells them apart.
func closeInherited() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= controlFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}

// Control obeys orders from a socket until its other end is closed; then every sandbox's network ends.
func Control(ctx context.Context, sock int) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var mu sync.Mutex
	report := func(r egress.Report) {
		mu.Lock()
		defer mu.Unlock()
		if packet.Send(sock, r) != nil {
			cancel() // nobody hears what is decided
		}
	}
	for {
		var order egress.Order
		fds, err := packet.Receive(sock, &order)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("hear orders: %w", err)
		case len(fds) != 1:
			packet.CloseAll(fds)
			return fmt.Errorf("an order came with %d descriptors, want 1", len(fds))
		}
		sock := fds[0]
		cfg, err := configOf(order)
		if err != nil {
			report(egress.Report{ID: order.ID, Ended: true, Error: errors.Join(err, unix.Close(sock)).Error()})
			continue
		}
		all.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = unix.Shutdown(sock, unix.SHUT_RDWR) })()
			report(egress.Report{ID: order.ID, Ready: true})
			own := Config{
				Limits: order.Limits, Secrets: order.Secrets, Authority: order.Authority, Roots: rootsOf(order),
				Decided: func(d Decision) { report(egress.Report{ID: order.ID, Decision: &d}) },
				Begun:   func(d Decision) { report(egress.Report{ID: order.ID, Begun: &d}) },
			}
			controlled(&cfg, &own)
			err := errors.Join(Serve(ctx, sock, egress.New(cfg), own), unix.Close(sock))
			end := egress.Report{ID: order.ID, Ended: true}
			if err != nil {
				end.Error = err.Error()
			}
			report(end)
		})
	}
}

// rootsOf is whom to trust as the host that a secret is for; nil: the host's own alone.
func rootsOf(o egress.Order) *x509.CertPool {
	if len(o.Roots) == 0 {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM(o.Roots)
	return pool
}

// resolver is Go's own: another one would do in this process what its filter does not know.
var resolver = &net.Resolver{PreferGo: true}

func configOf(o egress.Order) (cfg egress.Config, err error) {
	cfg = egress.Config{Open: o.Open, Owner: egress.Owner{Hosts: o.Hosts}}
	for _, list := range []struct {
		texts []string
		to    *[]egress.Rule
	}{{o.Rules, &cfg.Rules}, {o.Targets, &cfg.Owner.Targets}} {
		for _, text := range list.texts {
			r, err := egress.ParseRule(text)
			if err != nil {
				return cfg, err
			}
			*list.to = append(*list.to, r)
		}
	}
	cfg.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
		return resolver.LookupNetIP(ctx, "ip", name+".") // the name, not one of the host's own domain
	}
	if cfg.Own, err = ownAddresses(); err != nil {
		return cfg, fmt.Errorf("list the host's addresses: %w", err)
	}
	return cfg, nil
}
