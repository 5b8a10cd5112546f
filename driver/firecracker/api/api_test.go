package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/driver/firecracker/api/schema"
)

var machine = Machine{
	Config: Config{VCPUs: 2, MemoryMiB: 512},
	Boot:   BootSource{Kernel: "/kernel", Initial: "/initial", Args: "quiet"},
	Drives: []Drive{
		{ID: "root", Path: "/root.img", ReadOnly: true, Limiter: &RateLimiter{Bandwidth: &Bucket{1 << 30, 1000}, Ops: &Bucket{1000, 100}}},
		{ID: "mount0", Path: "/mount0.img", ReadOnly: true},
	},
	Vsock:   Vsock{CID: 3, Path: "/v.sock"},
	Entropy: Entropy{Limiter: &RateLimiter{Bandwidth: &Bucket{1 << 16, 100}}},
}

// Every request that a machine is made of is one that Firecracker takes; and they come in the one order that there is.
func TestCalls(t *testing.T) {
	for name, m := range map[string]Machine{
		"everything": machine,
		"the least":  {Config: Config{VCPUs: 1, MemoryMiB: 1}, Boot: BootSource{Kernel: "/kernel"}, Vsock: Vsock{CID: 3, Path: "/v.sock"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range m.Calls() {
				b, err := json.Marshal(c.Body)
				if err == nil {
					err = schema.Check(c.Method, c.Path, b)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	var got []string
	for _, c := range machine.Calls() {
		got = append(got, c.Method+" "+c.Path)
	}
	want := []string{"PUT /machine-config", "PUT /boot-source", "PUT /drives/root", "PUT /drives/mount0", "PUT /vsock", "PUT /entropy", "PUT /actions"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// listen answers on a socket of the test's own, and returns what dials it.
func listen(t *testing.T, answer http.HandlerFunc) func(context.Context) (net.Conn, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "api")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return dialer(path)
}

func dialer(path string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
}

func TestStart(t *testing.T) {
	var got []string
	c := New(listen(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = schema.Check(r.Method, r.URL.Path, b)
		}
		if err != nil {
			t.Error(err)
		}
		got = append(got, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	}))
	if err := c.Start(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	if n := len(machine.Calls()); len(got) != n || got[n-1] != "/actions" {
		t.Errorf("it was asked for %q", got)
	}
}

// A refusal names the call, the status and Firecracker's own words, and is the last that is asked.
func TestFault(t *testing.T) {
	for _, test := range []struct{ name, answer, want string }{
		{"in its words", `{"fault_message":"no such\nkernel"}`, "firecracker, PUT /boot-source: 400: no such kernel"},
		{"in others", "<html>", "firecracker, PUT /boot-source: 400: <html>"},
		{"in too many", strings.Repeat("x", 2*maxAnswer), "firecracker, PUT /boot-source: 400: " + strings.Repeat("x", 1000)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked []string
			c := New(listen(t, func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.Path)
				if r.URL.Path == "/boot-source" {
					w.WriteHeader(http.StatusBadRequest)
					fmt.Fprint(w, test.answer)
				}
			}))
			err := c.Start(t.Context(), machine)
			var fault *Fault
			if !errors.As(err, &fault) || fault.Status != 400 || err.Error() != test.want {
				t.Errorf("got %v", err)
			}
			if !slices.Equal(asked, []string{"/machine-config", "/boot-source"}) {
				t.Errorf("it was asked for %q", asked)
			}
		})
	}
}

func TestQuestions(t *testing.T) {
	c := New(listen(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			fmt.Fprint(w, `{"id":"a","state":"Not started","app_name":"Firecracker","vmm_version":"1.16.1"}`)
		case "/version":
			fmt.Fprint(w, `{"firecracker_version":"1.16.1"}`)
		}
	}))
	if i, err := c.Await(t.Context()); err != nil || i != (Info{"a", "Not started", "Firecracker", "1.16.1"}) {
		t.Errorf("Await() = %+v, %v", i, err)
	}
	if v, err := c.Version(t.Context()); err != nil || v != "1.16.1" {
		t.Errorf("Version() = %q, %v", v, err)
	}
}

// A process that is not there yet is waited for, until nobody wants to wait any more.
func TestAwait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api")
	ctx, cancel := context.WithCancelCause(t.Context())
	dialled := make(chan struct{}, 1)
	c := New(func(ctx context.Context) (net.Conn, error) {
		select {
		case dialled <- struct{}{}:
		default:
		}
		return dialer(path)(ctx)
	})
	go func() { <-dialled; <-dialled; cancel(errors.New("enough")) }()
	if _, err := c.Await(ctx); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got %v", err)
	}
}
