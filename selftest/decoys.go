package selftest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// Decoys are things on the host that no row may find, reach or change: a file with a secret, a file that is copied in, a
// directory that is mounted, with a file and links that lead out of it, and services on a Unix socket and on the host's own
// loopback.
type Decoys struct {
	Host

	visits    atomic.Int64
	listeners []net.Listener
	serving   sync.WaitGroup
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
	_, d.Port, err = net.SplitHostPort(d.listeners[0].Addr().String())
	return d, err
}

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
	d.serving.Wait()
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
