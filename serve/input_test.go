//go:build unix

package serve_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
)

func at(n int64) *int64 { return &n }

// TestInputOffsets: what is taken once, and what is refused, in one run after the other step.
func TestInputOffsets(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	in := program("cat")
	in.StdinOpen = true
	r := submit(t, s, servetest.Runner, in)
	for _, step := range []struct {
		name string
		in   api.Input
		next int64
		err  error
	}{
		{"the first piece", api.Input{Data: "abc", Offset: at(0)}, 3, nil},
		{"it again", api.Input{Data: "abc", Offset: at(0)}, 3, nil},
		{"the next one", api.Input{B64: "ZGVm", Offset: at(3)}, 6, nil},
		{"the first one once more", api.Input{Data: "abc", Offset: at(0)}, 6, nil},
		{"others in its place", api.Input{Data: "abX", Offset: at(0)}, 6, serve.ErrInputOffset},
		{"a part of it", api.Input{Data: "ab", Offset: at(0)}, 6, serve.ErrInputOffset},
		{"one that begins within another", api.Input{Data: "efgh", Offset: at(4)}, 6, serve.ErrInputOffset},
		{"one after a gap", api.Input{Data: "x", Offset: at(7)}, 6, serve.ErrInputOffset},
		{"the end after a gap", api.Input{End: true, Offset: at(7)}, 6, serve.ErrInputOffset},
		{"where it stands", api.Input{Offset: at(6)}, 6, nil},
		{"one of somebody else", api.Input{Data: "ghi"}, 9, nil},
		{"one by who does not know of that", api.Input{Data: "jkl", Offset: at(6)}, 9, serve.ErrInputOffset},
		{"the same further on", api.Input{Data: "jkl", Offset: at(9)}, 12, nil},
		{"the last one with the end", api.Input{Data: "mno", Offset: at(12), End: true}, 15, nil},
		{"that again", api.Input{Data: "mno", Offset: at(12), End: true}, 15, nil},
	} {
		next, err := s.Server.Input(t.Context(), servetest.Runner, r.ID, step.in)
		var refused *serve.InputError
		if next != step.next || !errors.Is(err, step.err) || step.err != nil && (!errors.As(err, &refused) || refused.Offset != step.next) {
			t.Errorf("%s: next %d, %v; want %d, %v", step.name, next, err, step.next, step.err)
		}
	}
	for _, late := range []api.Input{{Data: "x", Offset: at(15)}, {Data: "x"}} {
		if _, err := s.Server.Input(t.Context(), servetest.Runner, r.ID, late); !errors.Is(err, serve.ErrState) {
			t.Errorf("after the end: %v", err)
		}
	}
	if out := end(t, s, r.ID); out.Kind != "ok" || output(t, s, r.ID, "stdout") != "abcdefghijklmno" {
		t.Errorf("outcome %+v, output %q", out, output(t, s, r.ID, "stdout"))
	}
	var invalid *serve.InvalidError
	if _, err := s.Server.Input(t.Context(), servetest.Runner, submit(t, s, servetest.Runner, in).ID, api.Input{Offset: at(-1)}); !errors.As(err, &invalid) {
		t.Errorf("a negative offset: %v", err)
	}
}

// TestInputOffsetsWhileFull: a piece that waits for room is refused at once when its place is taken, and one that was taken is
// answered at once.
func TestInputOffsetsWhileFull(t *testing.T) {
	s := servetest.New(t, servetest.Config{})
	reads := make(chan struct{})
	s.Fake.Started = func(driver.Spec) { <-reads }
	defer close(reads)
	in := program("cat")
	in.StdinOpen = true
	r := submit(t, s, servetest.Runner, in)
	mib := strings.Repeat("x", 1<<20)
	send := func(data string, offset int64, limit time.Duration) (int64, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return s.Server.InputWaits(ctx, servetest.Runner, r.ID, api.Input{Data: data, Offset: &offset})
	}
	if next, err := send(mib, 0, time.Minute); err != nil || next != 1<<20 {
		t.Fatal(next, err)
	}
	if next, err := send(mib, 0, time.Minute); err != nil || next != 1<<20 {
		t.Errorf("again: %d, %v", next, err)
	}
	if _, err := send("y", 5, time.Minute); !errors.Is(err, serve.ErrInputOffset) {
		t.Errorf("in the wrong place: %v", err)
	}
	if _, err := send("y", 1<<20, 20*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the next one: %v", err)
	}
	var full *serve.InputError
	if _, err := s.Server.Input(t.Context(), servetest.Runner, r.ID, api.Input{Data: "y", Offset: at(1 << 20)}); !errors.Is(err, serve.ErrInputFull) || !errors.As(err, &full) || full.Offset != 1<<20 {
		t.Errorf("without waiting: %v", err)
	}
}
