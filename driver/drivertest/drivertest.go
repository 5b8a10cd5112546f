// Package drivertest holds every driver to the same behaviour: [Run] is the conformance suite, [Fake] a driver in plain
// Go that passes it and that tests of other packages use.
//
// A driver's own test calls Run with programs for its images, usually [Shell]:
//
//	drivertest.Run(t, func(t *testing.T) driver.Driver { return d }, openLabText, drivertest.Shell)
//
// The suite says what a driver must do, not how fast, and asks only for what package driver promises.
package drivertest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// Programs gives each case of the suite its program: Spec.Args by the name of the case. A case without one is left out.
type Programs map[string][]string

// Guard bounds a wait for something that must come. It is long, because a loaded machine is no fault of the driver; a test of a driver
// whose sandboxes are slow, as emulated machines are, makes it longer before it calls Run.
var Guard = time.Minute

// Run checks a driver. newDriver is called once for each case; root opens the image that the programs run on, which Run
// closes.
func Run(t *testing.T, newDriver func(t *testing.T) driver.Driver, root func(t *testing.T) *os.File, programs Programs) {
	for _, c := range slices.Concat(cases, linkCases) {
		args, ok := programs[c.name]
		if !ok {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			d := newDriver(t) // what a driver keeps for its whole life is no leak of a run
			testenv.NoLeaks(t)
			b := &bench{T: t, driver: d, root: root(t), args: args}
			t.Cleanup(func() { b.root.Close() })
			c.check(b)
		})
	}
	for name := range programs {
		if !known(name) {
			t.Errorf("there is no case %q", name)
		}
	}
}

type testCase struct {
	name  string
	check func(b *bench)
}

func known(name string) bool {
	for _, c := range slices.Concat(cases, linkCases) {
		if c.name == name {
			return true
		}
	}
	return false
}

// bench is what a case works with.
type bench struct {
	*testing.T
	driver driver.Driver
	root   *os.File
	args   []string
}

var runs atomic.Int64

// spec is a spec with room for an ordinary program.
func (b *bench) spec() driver.Spec {
	return driver.Spec{
		ID:             fmt.Sprintf("drivertest-%d-%d", os.Getpid(), runs.Add(1)),
		Image:          b.root,
		Trees:          []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives"},
		Args:           b.args,
		Env:            []string{"HOME=/workspace", "LANG=C.UTF-8", "PATH=/usr/bin:/bin", "TZ=UTC"},
		Dir:            "/workspace",
		Hostname:       "silk",
		Network:        driver.NetworkDeny,
		MemoryBytes:    512 << 20,
		WorkspaceBytes: 64 << 20,
		TmpBytes:       16 << 20,
		ShmBytes:       16 << 20,
		Processes:      64,
		CPUs:           1,
	}
}

// started is a sandbox whose output is being read.
type started struct {
	b              *bench
	sandbox        driver.Sandbox
	stdout, stderr *sink
	stdin          *os.File // write end, if the case feeds stdin
}

// start starts spec with pipes for its output, and for its stdin if feed is set.
func (b *bench) start(spec driver.Spec, feed bool) *started {
	b.Helper()
	s, err := b.tryStart(b.Context(), spec, feed)
	if err != nil {
		b.Fatalf("start: %v", err)
	}
	return s
}

func (b *bench) tryStart(ctx context.Context, spec driver.Spec, feed bool) (*started, error) {
	b.Helper()
	s := &started{b: b}
	var ours []*os.File // ends that belong to the sandbox
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		return r, w
	}
	if spec.Terminal == nil {
		outR, outW := pipe()
		errR, errW := pipe()
		spec.Stdout, spec.Stderr = outW, errW
		ours = append(ours, outW, errW)
		s.stdout, s.stderr = read(outR), read(errR)
	}
	if feed {
		spec.Stdin, s.stdin = pipe()
		ours = append(ours, spec.Stdin)
	}
	sandbox, err := b.driver.Start(ctx, spec)
	for _, f := range ours {
		f.Close()
	}
	s.sandbox = sandbox
	return s, err
}

// wait waits for the end of the sandbox and of its output.
func (s *started) wait() driver.Exit {
	s.b.Helper()
	exit, err := s.waitErr()
	if err != nil {
		s.b.Fatalf("wait: %v; stderr %q", err, s.text(s.stderr))
	}
	return exit
}

func (s *started) waitErr() (exit driver.Exit, err error) {
	s.b.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		exit, err = s.sandbox.Wait()
	}()
	select {
	case <-done:
	case <-time.After(Guard):
		s.sandbox.Kill(driver.KillNow)
		s.b.Fatalf("the sandbox did not end within %v; stdout %q, stderr %q", Guard, s.text(s.stdout), s.text(s.stderr))
	}
	// When the sandbox is gone nobody can write any more: both channels are at their end.
	for _, k := range []*sink{s.stdout, s.stderr} {
		if k == nil {
			continue
		}
		select {
		case <-k.eof:
		case <-time.After(Guard):
			s.b.Fatal("a channel is still open though the sandbox is gone")
		}
	}
	return exit, err
}

func (s *started) text(k *sink) string {
	if k == nil {
		return ""
	}
	return k.String()
}

// run starts spec, waits, and checks that the program ended with code by itself.
func (b *bench) run(spec driver.Spec, code int) (stdout, stderr string, exit driver.Exit) {
	b.Helper()
	s := b.start(spec, false)
	exit = s.wait()
	b.checkExit(exit, code, s.stderr.String())
	return s.stdout.String(), s.stderr.String(), exit
}

func (b *bench) checkExit(exit driver.Exit, code int, stderr string) {
	b.Helper()
	if exit.Code != code || exit.Signal != 0 || exit.OOM || exit.Violation != nil || exit.Killed {
		b.Errorf("exit %+v (violation %v), want code %d; stderr %q", exit, exit.Violation, code, stderr)
	}
}

// sink collects what arrives on a pipe.
type sink struct {
	mu    sync.Mutex
	data  bytes.Buffer
	eof   chan struct{}
	grown chan struct{} // one token when there is more
}

func read(r *os.File) *sink {
	k := &sink{eof: make(chan struct{}), grown: make(chan struct{}, 1)}
	go func() {
		defer close(k.eof)
		defer r.Close()
		io.Copy(k, r)
	}()
	return k
}

func (k *sink) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case k.grown <- struct{}{}:
	default:
	}
	return k.data.Write(p)
}

func (k *sink) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.data.String()
}

// await waits until text has arrived.
func (k *sink) await(b *bench, text string) {
	b.Helper()
	deadline := time.After(Guard)
	for {
		if strings.Contains(k.String(), text) {
			return
		}
		select {
		case <-k.grown:
		case <-k.eof:
			if !strings.Contains(k.String(), text) {
				b.Fatalf("the channel ended without %q: %q", text, k.String())
			}
		case <-deadline:
			b.Fatalf("%q did not arrive: %q", text, k.String())
		}
	}
}

// entry is a file for a workspace.
type entry struct {
	name, data, link string
	mode             int64
	dir              bool
}

// tarOf is a Fill that writes entries, owned by the user of the sandbox.
func tarOf(entries ...entry) func(io.Writer) error {
	return func(w io.Writer) error {
		archive := tar.NewWriter(w)
		for _, e := range entries {
			h := &tar.Header{Name: e.name, Mode: e.mode, Uid: 1000, Gid: 1000, Typeflag: tar.TypeReg, Size: int64(len(e.data)), ModTime: time.Unix(1e9, 0), Format: tar.FormatPAX}
			switch {
			case e.dir:
				h.Typeflag = tar.TypeDir
			case e.link != "":
				h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
			}
			if err := archive.WriteHeader(h); err != nil {
				return err
			}
			if _, err := io.WriteString(archive, e.data); err != nil {
				return err
			}
		}
		return archive.Close()
	}
}

// drained collects what a Drain receives.
type drained map[string]entry

func (d drained) read(r io.Reader) error {
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
		d[name] = entry{name: name, data: string(data), link: h.Linkname, mode: h.Mode & 0o777, dir: h.Typeflag == tar.TypeDir}
	}
}

// canceled is a context that is done for a reason.
func canceled(ctx context.Context, why error) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(why)
	return ctx
}
