package relay

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/watch"
)

// far is a driver whose sandboxes are those of another one, behind a socket.
type far struct {
	near  driver.Driver
	hooks Hooks
	build string // of the process with the driver
}

func (*far) Name() string { return "far" }

func (f *far) Start(ctx context.Context, spec driver.Spec) (driver.Sandbox, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e, err := Accept(pair[1], f.build)
		if err == nil {
			_, _ = e.Run(context.Background(), f.near, f.hooks) // what it is the other side hears
		}
	}()
	s, err := Start(ctx, pair[0], "one", spec)
	if err != nil {
		<-ended
		return nil, err
	}
	if signaler, ok := s.(*signaled); ok {
		return &awaited{signaler, ended}, nil
	}
	return s, nil
}

// awaited is a sandbox that is gone when the other side is.
type awaited struct {
	*signaled
	ended chan struct{}
}

func (a *awaited) Wait() (driver.Exit, error) {
	exit, err := a.signaled.Wait()
	<-a.ended
	return exit, err
}

func image(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestConformance: a sandbox behind a socket is as good as any.
func TestConformance(t *testing.T) {
	for name, fake := range map[string]*drivertest.Fake{"streams one after the other": {}, "streams at the start": {DrainAtStart: true}} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, func(*testing.T) driver.Driver { return &far{near: fake, build: "one"} }, image, drivertest.Fakes)
		})
	}
}

// TestSpecArrives: whatever a spec has comes out at the other end. A new field of driver.Spec is a part of it without a line here.
func TestSpecArrives(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	want := driver.Spec{Mounts: make([]driver.Mount, 2)}
	populate(t, reflect.ValueOf(&want).Elem(), w)
	var got driver.Spec
	_, err = (&far{build: "one", near: driverFunc(func(spec driver.Spec) error {
		got = spec
		for i, slot := range slots(&got) {
			if *slot == nil || int((*slot).Fd()) <= 2 {
				t.Errorf("file %d did not arrive", i)
			}
			*slot = nil
		}
		return errors.New("enough")
	})}).Start(t.Context(), want)
	if err == nil || err.Error() != "enough" {
		t.Fatal(err)
	}
	for _, slot := range slots(&want) {
		*slot = nil
	}
	for name, missing := range map[string]bool{"Fill": got.Fill == nil, "Drain": got.Drain == nil, "Events": got.Events == nil, "Trace": got.Trace == nil} {
		if missing {
			t.Errorf("there is no %s", name)
		}
	}
	want.Fill, want.Drain, want.Events, want.Trace = nil, nil, nil, nil
	got.Fill, got.Drain, got.Events, got.Trace = nil, nil, nil, nil
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// populate gives every field a value that is not its zero one.
func populate(t *testing.T, v reflect.Value, file *os.File) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[*os.File]():
		v.Set(reflect.ValueOf(file))
	case v.Type() == reflect.TypeFor[netip.Addr]():
		v.Set(reflect.ValueOf(netip.MustParseAddr("192.0.2.7")))
	case v.Type() == reflect.TypeFor[func(io.Writer) error]():
		v.Set(reflect.ValueOf(func(io.Writer) error { return nil }))
	case v.Type() == reflect.TypeFor[func(io.Reader) error]():
		v.Set(reflect.ValueOf(func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }))
	case v.Type() == reflect.TypeFor[func(watch.Event)]():
		v.Set(reflect.ValueOf(func(watch.Event) {}))
	case v.Type() == reflect.TypeFor[func(string, time.Time)]():
		v.Set(reflect.ValueOf(func(string, time.Time) {}))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		populate(t, v.Elem(), file)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			populate(t, v.Field(i), file)
		}
	case v.Kind() == reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			populate(t, v.Index(i), file)
		}
	case v.Kind() == reflect.String:
		v.SetString("text")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(7)
	case v.CanUint():
		v.SetUint(7)
	case v.CanFloat():
		v.SetFloat(7)
	default:
		t.Errorf("a spec has something of type %v, which requestOf does not know", v.Type())
	}
}

type driverFunc func(driver.Spec) error

func (driverFunc) Name() string { return "func" }

func (f driverFunc) Start(_ context.Context, spec driver.Spec) (driver.Sandbox, error) {
	return nil, f(spec)
}

// spec is one that a Fake takes.
func spec(t *testing.T, args ...string) driver.Spec {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	root := image(t)
	t.Cleanup(func() { _, _ = null.Close(), root.Close() })
	return driver.Spec{
		ID: "one", Image: root, Args: append([]string{"fake"}, args...), Network: driver.NetworkDeny, Stdout: null, Stderr: null,
		MemoryBytes: 1 << 20, WorkspaceBytes: 1 << 20, TmpBytes: 1 << 20, ShmBytes: 1 << 20, Processes: 4, CPUs: 1,
	}
}

func TestRefusals(t *testing.T) {
	unheld := &driver.Unheld{Promise: "cpus", Detail: "none", Fix: "buy one"}
	_, err := (&far{build: "one", near: &drivertest.Fake{StartErr: unheld}}).Start(t.Context(), spec(t, "exit:0"))
	var got *driver.Unheld
	if !errors.As(err, &got) || *got != *unheld {
		t.Errorf("a promise that is not held: %v", err)
	}
	_, err = (&far{build: "two", near: &drivertest.Fake{}}).Start(t.Context(), spec(t, "exit:0"))
	var build *BuildError
	if !errors.As(err, &build) || build.Theirs != "two" {
		t.Errorf("another build: %v", err)
	}
	held := errors.New("held")
	_, err = (&far{build: "one", near: &drivertest.Fake{}, hooks: Hooks{Hold: func() error { return held }}}).Start(t.Context(), spec(t, "exit:0"))
	if err == nil || !errors.Is(err, held) && err.Error() != "fill workspace: held" {
		t.Errorf("a start that is not let go: %v", err)
	}
}

// TestOtherSideDies: without who asked, a sandbox ends; without who has the driver, its end has a name.
func TestOtherSideDies(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	fake := &drivertest.Fake{}
	ended := make(chan error, 1)
	running := make(chan struct{})
	go func() {
		e, err := Accept(pair[1], "one")
		if err == nil {
			_, err = e.Run(context.Background(), fake, Hooks{Started: func() { close(running) }})
		}
		ended <- err
	}()
	s, err := Start(t.Context(), pair[0], "one", spec(t, "sleep"))
	if err != nil {
		t.Fatal(err)
	}
	<-running
	s.(*signaled).close() // as the kernel does it
	if err := <-ended; !errors.Is(err, errGone) {
		t.Errorf("the other side ended with %v", err)
	}
	if fake.Running() != 0 {
		t.Error("the sandbox goes on")
	}
	if _, err := s.Wait(); !errors.Is(err, ErrLost) {
		t.Errorf("wait: %v", err)
	}
}
