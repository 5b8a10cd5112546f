package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/silk-sandbox/silk/api"
)

// newBroker makes a broker with logs in a directory of its own.
func newBroker(t testing.TB, change func(*Config)) *Broker {
	t.Helper()
	c := Config{Dir: t.TempDir()}
	if change != nil {
		change(&c)
	}
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func open(t testing.TB, b *Broker, run string, limits Limits) *Stream {
	t.Helper()
	s, err := b.Open(run, limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func view(t testing.TB, b *Broker, run string, cursor Cursor) *Viewer {
	t.Helper()
	v, err := b.View(t.Context(), run, cursor)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func decode(t failer, frame []byte) api.Frame {
	t.Helper()
	var f api.Frame
	if err := json.Unmarshal(frame, &f); err != nil {
		t.Fatalf("frame %q: %v", frame, err)
	}
	return f
}

type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// waiting is what drain gets where Next would wait.
var errWaits = errors.New("waits")

// ready returns what Next returns if it need not wait, else errWaits.
func ready(v *Viewer) ([]byte, error) {
	frame, err := v.poll()
	if frame == nil && err == nil {
		err = errWaits
	}
	return frame, err
}

// drain returns the frames that are there, and io.EOF or errWaits.
func drain(t failer, v *Viewer) (frames []api.Frame, end error) {
	t.Helper()
	for {
		frame, err := ready(v)
		if err != nil {
			return frames, err
		}
		frames = append(frames, decode(t, frame))
	}
}

// output is what a viewer has got. Missing bytes are zeros, and counted.
type output struct {
	from, to [channels]int64
	data     [channels][]byte
	lost     [channels]int64
	seq      uint64
	atMs     int64
}

// take adds a frame, whose bytes must be the next ones.
func (o *output) take(t failer, f api.Frame) {
	t.Helper()
	switch f.Type {
	case api.FrameHello:
		o.from = [channels]int64{f.TailFrom.Stdout, f.TailFrom.Stderr}
		o.to = o.from
	case api.FrameOutput:
		c, _ := parseChannel(f.Channel)
		p, err := f.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if *f.Offset != o.to[c] {
			t.Fatalf("a piece of %s begins at %d, want %d", f.Channel, *f.Offset, o.to[c])
		}
		if len(p) == 0 || len(p) > frameBytes+2 {
			t.Fatalf("a piece has %d bytes", len(p))
		}
		if f.Seq < o.seq || *f.AtMs < o.atMs {
			t.Fatalf("stamp %d, %d ms after %d, %d ms", f.Seq, *f.AtMs, o.seq, o.atMs)
		}
		o.seq, o.atMs = f.Seq, *f.AtMs
		o.data[c] = append(o.data[c], p...)
		o.to[c] += int64(len(p))
	case api.FrameGap:
		c, _ := parseChannel(f.Channel)
		if *f.From != o.to[c] || *f.To <= *f.From {
			t.Fatalf("a gap in %s from %d to %d, want from %d", f.Channel, *f.From, *f.To, o.to[c])
		}
		o.data[c] = append(o.data[c], make([]byte, *f.To-*f.From)...)
		o.lost[c] += *f.To - *f.From
		o.to[c] = *f.To
	}
}

func collect(t failer, frames []api.Frame) *output {
	t.Helper()
	var o output
	for _, f := range frames {
		o.take(t, f)
	}
	return &o
}

// check compares with all that was written; bytes of gaps are not compared.
func (o *output) check(t failer, c channel, all []byte) {
	t.Helper()
	want := all[o.from[c]:]
	got := o.data[c]
	if o.lost[c] > 0 {
		if len(got) != len(want) {
			t.Fatalf("%s: %d bytes, want %d", c, len(got), len(want))
		}
		want = bytes.Clone(want)
		for i := range got {
			if got[i] == 0 {
				want[i] = 0
			}
		}
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: got %d bytes %.80q, want %d bytes %.80q", c, len(got), got, len(want), want)
	}
}

// all reads a stream to its end, which must be an exit frame.
func all(ctx context.Context, t failer, next func(context.Context) ([]byte, error)) []api.Frame {
	t.Helper()
	var frames []api.Frame
	for {
		frame, err := next(ctx)
		if errors.Is(err, io.EOF) {
			if n := len(frames); n == 0 || frames[n-1].Type != api.FrameExit {
				t.Fatal("the last frame is not exit")
			}
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, decode(t, frame))
	}
}
