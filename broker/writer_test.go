package broker

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/api"
)

// outputs are the pieces of what drain returns: channel and content.
func outputs(t *testing.T, v *Viewer) []string {
	t.Helper()
	frames, err := drain(t, v)
	if err != nil && !errors.Is(err, errWaits) {
		t.Fatal(err)
	}
	var s []string
	for _, f := range frames {
		if f.Type == api.FrameOutput {
			p, _ := f.Bytes()
			s = append(s, f.Channel[3:]+" "+string(p))
		}
	}
	return s
}

func TestLinesAndParts(t *testing.T) {
	type write struct {
		channel, data string
		after         time.Duration // before the next step
	}
	for _, test := range []struct {
		name   string
		writes []write
		want   []string
	}{
		{"a line goes at once", []write{{"stdout", "a\n", 0}}, []string{"out a\n"}},
		{"lines that come together stay together", []write{{"stdout", "a\nb\n", 0}}, []string{"out a\nb\n"}},
		{"the begin of a line waits", []write{{"stdout", "a\nb", 49 * time.Millisecond}}, []string{"out a\n"}},
		{"for 50 ms", []write{{"stdout", "b", 50 * time.Millisecond}}, []string{"out b"}},
		{"from its first byte on", []write{{"stdout", "b", 30 * time.Millisecond}, {"stdout", "c", 20 * time.Millisecond}}, []string{"out bc"}},
		{"the rest of the line takes it along", []write{{"stdout", "b", 0}, {"stdout", "c\nd", 0}}, []string{"out bc\n"}},
		{"the timer begins anew", []write{{"stdout", "b", 60 * time.Millisecond}, {"stdout", "c", 49 * time.Millisecond}}, []string{"out b"}},
		{"and ends anew", []write{{"stdout", "b", 60 * time.Millisecond}, {"stdout", "c", 50 * time.Millisecond}}, []string{"out b", "out c"}},
		{
			"a line of the other channel does not overtake",
			[]write{{"stdout", "prompt: ", 0}, {"stderr", "e\n", 0}},
			[]string{"out prompt: ", "err e\n"},
		},
		{
			"both channels wait, the older one goes first",
			[]write{{"stderr", "e", 0}, {"stdout", "o", 50 * time.Millisecond}},
			[]string{"err e", "out o"},
		},
		{"a rune is not cut", []write{{"stdout", "a\xc3", 0}, {"stderr", "e\n", 0}, {"stdout", "\xa9\n", 0}}, []string{"out a", "err e\n", "out é\n"}},
		{"unless its rest does not come", []write{{"stdout", "a\xc3", 50 * time.Millisecond}}, []string{"out a\xc3"}},
		{"nothing comes of nothing", []write{{"stdout", "", 50 * time.Millisecond}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(t, nil)
				s := open(t, b, "r", Limits{})
				v := view(t, b, "r", Cursor{})
				offset := map[string]int64{}
				for i, w := range test.writes {
					s.Output(w.channel, offset[w.channel], uint64(i+1), 0, []byte(w.data))
					offset[w.channel] += int64(len(w.data))
					if w.after > 0 {
						<-time.After(w.after)
						synctest.Wait()
					}
				}
				if diff := cmp.Diff(test.want, outputs(t, v)); diff != "" {
					t.Errorf("want -, got +:\n%s", diff)
				}
			})
		})
	}
}

// A viewer that waits has a line as soon as it is written, and the begin of one 50 ms later.
func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{})
		v := view(t, b, "r", Cursor{})
		var got []time.Duration
		start := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 3 {
				if _, err := v.Next(t.Context()); err != nil {
					t.Error(err)
				}
				got = append(got, time.Since(start))
			}
		}()
		synctest.Wait()
		<-time.After(time.Second)
		s.Output("stdout", 0, 1, 0, []byte("line\n"))
		<-time.After(time.Second)
		s.Output("stdout", 5, 2, 0, []byte("part"))
		<-done
		if diff := cmp.Diff([]time.Duration{0, time.Second, 2*time.Second + partWait}, got); diff != "" {
			t.Errorf("want -, got +:\n%s", diff)
		}
	})
}

// A long write becomes frames of 32 KiB at most, which end with lines where they can, and with whole runes in any case.
func TestLongWrites(t *testing.T) {
	for _, test := range []struct {
		name string
		data string
		line bool // frames end with lines
	}{
		{"lines", strings.Repeat("a line of some length\n", 20000), true},
		{"two bytes a rune, at an odd place", "x" + strings.Repeat("é", 100000), false},
		{"three bytes a rune", strings.Repeat("€", 100000), false},
		{"four bytes a rune", "x" + strings.Repeat("😀", 50000), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // so that no time passes while it writes
				for _, chunk := range []int{len(test.data), 256 << 10, frameBytes, frameBytes - 1, frameBytes + 1, 1000} {
					b := newBroker(t, nil)
					s := open(t, b, "r", Limits{RingBytes: 4 << 20})
					v := view(t, b, "r", Cursor{})
					for from := 0; from < len(test.data); from += chunk {
						s.Output("stdout", int64(from), uint64(from+1), 0, []byte(test.data[from:min(from+chunk, len(test.data))]))
					}
					s.w.timeout()
					frames, _ := drain(t, v)
					collect(t, frames).check(t, stdout, []byte(test.data))
					for i, f := range frames {
						if f.B64 != "" {
							t.Errorf("%d at once: frame %d cuts a rune", chunk, i)
						}
						if test.line && f.Type == api.FrameOutput && !strings.HasSuffix(f.Data, "\n") {
							t.Errorf("%d at once: frame %d ends in %q", chunk, i, f.Data[len(f.Data)-10:])
						}
					}
					if most := len(test.data)/min(frameBytes/2, chunk) + 3; len(frames) > most {
						t.Errorf("%d at once: %d frames, want %d at most", chunk, len(frames), most)
					}
				}
			})
		})
	}
}

// What is no UTF-8, in whatever pieces, comes as it was written.
func TestBrokenUTF8(t *testing.T) {
	for _, data := range []string{
		"\xff\n", "\xc3", "\xc3\n", "\xc3\xc3\xa9", "\xf0\x9f\x98", "\xf0\x9f\x98\n", "\x80\x80\x80\x80\x80", "a\xed\xa0\x80b\n", "\x00\x01\n",
		strings.Repeat("\x80", 3*frameBytes), strings.Repeat("\xf0", 2*frameBytes) + "\n",
	} {
		for _, chunk := range []int{1, 2, 3, 1 << 20} {
			if len(data) > 100 && chunk < 100 {
				continue
			}
			b := newBroker(t, nil)
			s := open(t, b, "r", Limits{RingBytes: 1 << 20})
			v := view(t, b, "r", Cursor{})
			for from := 0; from < len(data); from += chunk {
				s.Output("stdout", int64(from), uint64(from+1), 0, []byte(data[from:min(from+chunk, len(data))]))
			}
			s.End(api.Outcome{})
			frames, _ := drain(t, v)
			collect(t, frames).check(t, stdout, []byte(data))
			for _, f := range frames {
				if !utf8.ValidString(f.Data) {
					t.Errorf("%q: data is %q", data, f.Data)
				}
			}
		}
	}
}

// A rune that was held back while the other channel went on does not take its old stamp along.
func TestStampsNeverFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no time passes while it writes
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{})
		v := view(t, b, "r", Cursor{})
		s.Output("stdout", 0, 1, 1*time.Millisecond, []byte("a\xc3"))
		s.Output("stderr", 0, 2, 2*time.Millisecond, []byte("e\n"))
		s.w.timeout()
		frames, _ := drain(t, v)
		var got []uint64
		for _, f := range frames[1:] {
			got = append(got, f.Seq, uint64(*f.AtMs))
		}
		if diff := cmp.Diff([]uint64{1, 1, 2, 2, 2, 2}, got); diff != "" {
			t.Errorf("want -, got +:\n%s", diff)
		}
	})
}

// The writer gives the same bytes twice, or leaves some out.
func TestOverlapsAndHoles(t *testing.T) {
	want := "abc\nde\nf" + strings.Repeat("\x00", 12) + "after\n"
	for name, ring := range map[string]int{"from memory": 0, "from the log": 1} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t, nil)
			s := open(t, b, "r", Limits{RingBytes: ring})
			early := view(t, b, "r", Cursor{})
			s.Output("stdout", 0, 1, 0, []byte("abc\n"))
			s.Output("stdout", 2, 2, 0, []byte("c\nde\n"))
			s.Output("stdout", 0, 3, 0, []byte("abc\n"))
			s.Output("stdout", 7, 4, 0, []byte("f"))
			s.Output("stdout", 20, 5, 0, []byte("after\n"))
			s.Publish(api.Frame{Type: api.FrameStarted})
			s.End(api.Outcome{})
			for _, v := range []*Viewer{early, view(t, b, "r", Cursor{}), view(t, b, "r", Cursor{Stdout: 10})} {
				frames, _ := drain(t, v)
				o := collect(t, frames)
				o.check(t, stdout, []byte(want))
				if o.lost[stdout] != 20-max(8, o.from[stdout]) {
					t.Errorf("%d bytes are lost", o.lost[stdout])
				}
			}
		})
	}
}

// A program that prints endless tiny lines does not make endless frames.
func TestTinyLinesAreJoinedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no time passes while it writes
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{})
		for i := range int64(eagerFrames + 1000) {
			s.Output("stdout", 2*i, uint64(i+1), 0, []byte("x\n"))
		}
		s.w.timeout()
		if got := b.Stats().Frames; got < eagerFrames || got > eagerFrames+20 {
			t.Errorf("%d frames", got)
		}
		v := view(t, b, "r", Cursor{})
		s.End(api.Outcome{})
		frames, _ := drain(t, v)
		collect(t, frames).check(t, stdout, bytes.Repeat([]byte("x\n"), eagerFrames+1000))
		if got, most := len(frames), 4*eagerFrames/frameBytes+2000; got > most { // 1,300 of them from memory, one by one
			t.Errorf("a late viewer has %d frames, want %d at most", got, most)
		}
	})
}

// A program that writes a million single bytes makes few frames.
func TestMillionTinyWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no time passes while it writes
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{})
		v := view(t, b, "r", Cursor{})
		for i := range int64(1_000_000) {
			s.Output("stdout", i, uint64(i+1), 0, []byte("."))
		}
		s.End(api.Outcome{})
		frames, _ := drain(t, v)
		collect(t, frames).check(t, stdout, bytes.Repeat([]byte("."), 1_000_000))
		if got := len(frames); got > 1_000_000/frameBytes+200 { // and some for each 50 ms that the test takes
			t.Errorf("%d frames", got)
		}
	})
}
