package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// newContainer makes one below root.
func newContainer(t *testing.T, root string) *Container {
	t.Helper()
	c, err := At(root, "one")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLife(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	c := newContainer(t, root)
	if err := c.Create(); !errors.Is(err, ErrExists) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := c.State(); !errors.Is(err, ErrNotExist) {
		t.Errorf("before anything is known: %v", err)
	}
	status := func(want specs.ContainerState) {
		t.Helper()
		if s, err := c.State(); err != nil || s.Status != want || s.ID != "one" {
			t.Errorf("state %+v, %v, want %s", s, err, want)
		}
	}
	if err := c.Save(State{Status: specs.StateCreating}); err != nil {
		t.Fatal(err)
	}
	status(specs.StateCreating)
	lock, err := c.Hold()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Save(State{Status: specs.StateRunning, PID: 7}); err != nil {
		t.Fatal(err)
	}
	status(specs.StateRunning)
	if err := lock.Leave(); err != nil { // as the monitor's death does
		t.Fatal(err)
	}
	status(specs.StateStopped)
	if ids, err := List(root); err != nil || len(ids) != 1 || ids[0] != "one" {
		t.Errorf("list %v, %v", ids, err)
	}
	if err := c.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.State(); !errors.Is(err, ErrNotExist) {
		t.Errorf("after it was removed: %v", err)
	}
}

func TestIDs(t *testing.T) {
	for id, ok := range map[string]bool{
		"0123456789abcdef": true, "my_box-1.2+3": true, "": false, ".": false, "..": false, "a/b": false, "../a": false, "-a": false, strings.Repeat("a", 256): false,
	} {
		if _, err := At(t.TempDir(), id); (err == nil) != ok {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

// TestOrders also goes through a directory whose name is too long for the address of a socket.
func TestOrders(t *testing.T) {
	for name, root := range map[string]string{"short": t.TempDir(), "long": filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))} {
		t.Run(name, func(t *testing.T) {
			c := newContainer(t, root)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := c.Ask(ctx, Order{Start: true}); !errors.Is(err, ErrNotRunning) {
				t.Errorf("before anybody listens: %v", err)
			}
			var got []Order
			stop, err := c.Serve(func(o Order) error {
				got = append(got, o)
				if o.Signal == 9 {
					return errors.New("not that one")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Ask(ctx, Order{Start: true}); err != nil {
				t.Error(err)
			}
			if err := c.Ask(ctx, Order{Signal: 9}); err == nil || err.Error() != "not that one" {
				t.Errorf("a refusal arrives as %v", err)
			}
			stop()
			if len(got) != 2 || !got[0].Start || got[1].Signal != 9 {
				t.Errorf("orders %+v", got)
			}
			if err := c.Ask(ctx, Order{Start: true}); !errors.Is(err, ErrNotRunning) {
				t.Errorf("when nobody listens any more: %v", err)
			}
		})
	}
}

// TestAskGivesUp: a monitor that hangs does not keep its caller.
func TestAskGivesUp(t *testing.T) {
	c := newContainer(t, t.TempDir())
	release := make(chan struct{})
	stop, err := c.Serve(func(Order) error {
		<-release
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, enough)
	defer cancel()
	if err := c.Ask(ctx, Order{Start: true}); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	close(release)
	stop()
	if _, err := os.Stat(c.Path()); err != nil {
		t.Error(err)
	}
}
