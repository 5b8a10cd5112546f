package selftest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// Decoys are things on the host that no row may find, reach or change: a file with a secret, a file that is copied in, a
// directory that is mounted, with a file and links that lead out of it, and services on a Unix socket and on the host's own
// loopback. Runs with a way out have pairs of services besides, one of which they may reach.
type Decoys struct {
	Host

	visits    atomic.Int64
	listeners []net.Listener
	serving   sync.WaitGroup

	services []*service
	free     chan *service // those that no run has
}

// decoyFiles are the files of Dir and their content.
var decoyFiles = map[string]string{"secret": "the host's secret\n", "copied": "copied in\n", "mounted/file": "mounted\n"}

// OpenDecoys puts decoys into dir, which exists and is absolute. variable is the name of an environment variable that this
// process has. The caller closes them; the directory is the caller's.
func OpenDecoys(dir, variable string) (_ *Decoys, err error) {
	d := &Decoys{Host: Host{Variable: variable, Dir: dir}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("set up decoys: %w", errors.Join(err, d.Close()))
		}
	}()
	if d.Host.Name, err = os.Hostname(); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, "mounted"), 0o755); err != nil {
		return nil, err
	}
	for name, text := range decoyFiles {
		if err := atomicfile.Write(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	for name, target := range map[string]string{"out": "../secret", "far-out": filepath.Join(dir, "secret")} {
		if err := os.Symlink(target, filepath.Join(dir, "mounted", name)); err != nil {
			return nil, err
		}
	}
	for _, at := range []struct{ network, address string }{
		{"tcp", "127.0.0.1:0"}, {"unix", filepath.Join(dir, "socket")}, {"unix", "@" + filepath.Join(dir, "socket")},
	} {
		l, err := net.Listen(at.network, at.address)
		if err != nil {
			return nil, err
		}
		d.listeners = append(d.listeners, l)
		d.serving.Go(func() { d.serve(l) })
	}
	if _, d.Port, err = net.SplitHostPort(d.listeners[0].Addr().String()); err != nil {
		return nil, err
	}
	d.free = make(chan *service, services)
	for range services {
		s, err := openService()
		if err != nil {
			return nil, err
		}
		s.serve(&d.serving)
		d.services = append(d.services, s)
		d.free <- s
	}
	return d, nil
}

// Owner is what the owner of the host says of the decoys, as in policy.Grants: where names lead, and which of the decoys may be reached.
func (d *Decoys) Owner() (addrs map[string]string, targets []string) {
	for _, s := range d.services {
		targets = append(targets, fmt.Sprintf("%s/32:%d", mine, s.open.port()))
	}
	return maps.Clone(leads), targets
}

// take takes a pair of decoys that no other run has, and fills it in. The caller gives it back.
func (d *Decoys) take(ctx context.Context) (s *service, h Host, err error) {
	select {
	case s = <-d.free:
	case <-ctx.Done():
		return nil, h, context.Cause(ctx)
	}
	s.served.Store(0)
	s.hits.Store(0)
	h = d.Host
	h.Open, h.Closed = strconv.Itoa(int(s.open.port())), strconv.Itoa(int(s.closed.port()))
	return s, h, nil
}

func (d *Decoys) giveBack(s *service) { d.free <- s }

// serve counts who comes.
func (d *Decoys) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed
		}
		d.visits.Add(1)
		_ = c.Close() // nothing was said
	}
}

// Close ends the services.
func (d *Decoys) Close() error {
	var errs []error
	for _, l := range d.listeners {
		errs = append(errs, l.Close())
	}
	for _, s := range d.services {
		errs = append(errs, s.close())
	}
	d.serving.Wait()
	for _, s := range d.services {
		s.visitors.Wait()
	}
	return errors.Join(errs...)
}

// changed says which decoy was changed.
func (d *Decoys) changed() (found []string) {
	for name, want := range decoyFiles {
		path := filepath.Join(d.Dir, name)
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			found = append(found, fmt.Sprintf("%s was changed (%v)", path, err))
		}
	}
	return found
}

// processesWith lists processes of the host that have an argument.
func processesWith(arg string) (found []string) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return []string{err.Error()}
	}
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && slices.Contains(strings.Split(string(line), "\x00"), arg) {
			found = append(found, fmt.Sprintf("process %s of the host stayed: %q", filepath.Base(dir), line))
		}
	}
	return found
}
