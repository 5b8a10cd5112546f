package broker

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/silk-sandbox/silk/api"
)

func TestTailBegins(t *testing.T) {
	for _, test := range []struct {
		name string
		data string
		want int // bytes of the tail
	}{
		{"all of a short output", "one\ntwo\n", 8},
		{"all of 4 KiB", strings.Repeat("x", 4096), 4096},
		{"the last 4 KiB of one line", strings.Repeat("x", 10000), 4096},
		{"the last lines", strings.Repeat(strings.Repeat("x", 99)+"\n", 100), 4000},
		{"no line is near", strings.Repeat(strings.Repeat("x", 2999)+"\n", 10) + "y", 4096},
		{"a line that ends with the output is none", strings.Repeat("x", 10000) + "\n", 4096},
		{"runes of two bytes", strings.Repeat("é", 5000) + "x", 4095},
		{"runes of three bytes", strings.Repeat("€", 5000), 4095},
		{"runes of four bytes", strings.Repeat("😀", 5000) + "xyz", 4095},
		{"no runes", strings.Repeat("\x80", 5000), 4093},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBroker(t, nil)
			s := open(t, b, "r", Limits{})
			s.Output("stderr", 0, 1, 0, []byte("error\n"))
			s.Output("stdout", 0, 2, 0, []byte(test.data))
			s.w.timeout()
			frames, _ := drain(t, view(t, b, "r", Cursor{Tail: true}))
			if got := frames[0].TailFrom.Stdout; got != int64(len(test.data)-test.want) {
				t.Errorf("the tail has %d bytes, want %d", int64(len(test.data))-got, test.want)
			}
			o := collect(t, frames)
			o.check(t, stdout, []byte(test.data))
			o.check(t, stderr, []byte("error\n"))
		})
	}
}

// The last 4 KiB of a channel are there even if neither memory nor log has them any more.
func TestTailOutlivesTheRing(t *testing.T) {
	b := newBroker(t, func(c *Config) { c.Dir = "" })
	s := open(t, b, "r", Limits{})
	out := bytes.Repeat([]byte("x"), 6000)
	s.Output("stdout", 0, 1, 0, append(out, '\n'))
	noise := bytes.Repeat([]byte("a line of noise\n"), 1<<16)
	s.Output("stderr", 0, 2, 0, noise)
	frames, _ := drain(t, view(t, b, "r", Cursor{Tail: true}))
	o := collect(t, frames)
	o.check(t, stdout, append(out, '\n'))
	o.check(t, stderr, noise)
	if o.lost[stdout] > 0 || len(o.data[stdout]) != 4096 || len(o.data[stderr]) > 4096 {
		t.Errorf("stdout %d bytes, %d lost; stderr %d", len(o.data[stdout]), o.lost[stdout], len(o.data[stderr]))
	}
	frames, _ = drain(t, view(t, b, "r", Cursor{}))
	if o = collect(t, frames); o.lost[stdout] != 6001-4096 {
		t.Errorf("from the begin %d bytes of stdout are lost", o.lost[stdout])
	}
}

// What is before a hole is not taken for the bytes in it.
func TestTailAfterAHole(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{})
	s.Output("stdout", 0, 1, 0, []byte("before"))
	s.Output("stdout", 100, 2, 0, []byte("after\n"))
	if f := drainHello(t, view(t, b, "r", Cursor{Tail: true})); f.TailFrom.Stdout != 100 {
		t.Errorf("the tail begins at %d, want 100", f.TailFrom.Stdout)
	}
}

// The tail is the end of what was written.
func TestTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var k tail
		var all []byte
		for _, p := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 9000)).Draw(t, "writes") {
			k.write(p, int64(len(all)))
			all = append(all, p...)
			if want := all[max(0, len(all)-tailBytes):]; !bytes.Equal(k.last(), want) || k.from() != int64(len(all)-len(want)) {
				t.Fatalf("%d bytes from %d of %d", len(k.last()), k.from(), len(all))
			}
			if cap(k.kept) > 4*tailBytes {
				t.Fatalf("it holds %d bytes", cap(k.kept))
			}
			at := rapid.Int64Range(k.from(), k.end).Draw(t, "at")
			if !bytes.Equal(k.since(at), all[at:]) {
				t.Fatalf("since %d is wrong", at)
			}
		}
	})
}

// What says how a run stands is bounded and reaches a viewer that has missed everything else.
func TestKeptFrames(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{RingBytes: 2 << 10, LogBytes: 1 << 10})
	slow := view(t, b, "r", Cursor{})
	s.Publish(api.Frame{Type: api.FrameStarted})
	offset := int64(0)
	for i := range 1000 {
		s.Publish(api.Frame{Type: api.FrameDisplay, Path: strings.Repeat("p", i)})
		s.Output("stdout", offset, uint64(i+1), 0, []byte("a line\n"))
		offset += 7
		if i == 500 {
			s.Publish(api.Frame{Type: api.FrameViolation, Rule: "rule"})
		}
	}
	s.End(api.Outcome{})
	for name, v := range map[string]*Viewer{"slow": slow, "late": view(t, b, "r", Cursor{Tail: true})} {
		frames, err := drain(t, v)
		count := map[api.FrameType]int{}
		last := -1
		for _, f := range frames {
			if count[f.Type]++; f.Type == api.FrameDisplay {
				if len(f.Path) <= last {
					t.Errorf("%s: display %d after %d", name, len(f.Path), last)
				}
				last = len(f.Path)
			}
		}
		if count[api.FrameStarted] != 1 || count[api.FrameViolation] != 1 || count[api.FrameDisplay] != keptDisplays || count[api.FrameExit] != 1 || err == nil || errors.Is(err, errWaits) {
			t.Errorf("%s: %v, %v", name, count, err)
		}
	}
}

// A frame that is no output keeps its place among the output that a slow viewer gets from the log.
func TestOrderInCatchUp(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{RingBytes: 2 << 10})
	slow := view(t, b, "r", Cursor{})
	print := func(from, to int) {
		for i := from; i < to; i++ {
			c, n := stdout, i // long stretches of one channel, since their records are joined
			if i >= 400 {
				c, n = stderr, i-400
			}
			s.Output(c.String(), int64(5*n), uint64(i+1), 0, []byte("line\n"))
		}
	}
	print(0, 100)
	s.Publish(api.Frame{Type: api.FrameStarted})
	print(100, 300)
	s.Publish(api.Frame{Type: api.FrameViolation})
	print(300, 1000)
	s.End(api.Outcome{})
	frames, _ := drain(t, slow)
	var bytes, at []int64
	n := int64(0)
	for _, f := range frames {
		switch f.Type {
		case api.FrameOutput:
			n += int64(len(f.Data))
		case api.FrameStarted, api.FrameViolation, api.FrameExit:
			at = append(at, n)
		}
	}
	bytes = []int64{500, 1500, 5000}
	for i := range bytes {
		if len(at) != len(bytes) || at[i] != bytes[i] {
			t.Fatalf("frames stand after %d bytes of output, want %d", at, bytes)
		}
	}
	last := uint64(0)
	for _, f := range frames {
		if f.Type == api.FrameOutput {
			if f.Seq <= last {
				t.Errorf("seq %d after %d", f.Seq, last)
			}
			last = f.Seq
		}
	}
}
