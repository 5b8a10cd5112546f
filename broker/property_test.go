package broker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/silk-sandbox/silk/api"
)

// watcher is a viewer that is cut off and resumes.
type watcher struct {
	v      *Viewer
	out    output
	fresh  bool // the next hello is of its first connection
	others []string
	exits  int
}

// read takes up to n frames.
func (w *watcher) read(t *rapid.T, n int) {
	for range n {
		frame, err := ready(w.v)
		if errors.Is(err, errWaits) || errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		f := decode(t, frame)
		switch f.Type {
		case api.FrameHello:
			if w.fresh {
				w.out.take(t, f)
			} else if got := [channels]int64{f.TailFrom.Stdout, f.TailFrom.Stderr}; got != w.out.to {
				t.Fatalf("resumes at %v, want %v", got, w.out.to)
			}
			w.fresh = false
		case api.FrameExit:
			w.exits++
		case api.FrameEgress:
			w.others = append(w.others, f.Host)
		default:
			w.out.take(t, f)
		}
		if got, want := w.v.Cursor(), (Cursor{Stdout: w.out.to[stdout], Stderr: w.out.to[stderr]}); got != want {
			t.Fatalf("the cursor is %+v, want %+v", got, want)
		}
	}
}

var pieces = rapid.OneOf(
	rapid.SliceOfN(rapid.Byte(), 1, 200),
	rapid.Custom(func(t *rapid.T) []byte { return []byte(rapid.StringN(1, 80, -1).Draw(t, "text")) }),
	rapid.Custom(func(t *rapid.T) []byte { return []byte(rapid.StringMatching(`([a-z ]{0,40}\n){1,8}`).Draw(t, "lines")) }),
	rapid.Custom(func(t *rapid.T) []byte {
		return bytes.Repeat([]byte(rapid.SampledFrom([]string{"x", "é\n", "\x00", "\xff\xfe", "😀", "line of text\n"}).Draw(t, "unit")),
			rapid.IntRange(1, 9000).Draw(t, "times"))
	}),
)

// Whatever is written, however it is cut, and whoever watches from where: each viewer has each byte from its cursor on
// once, or a gap for it; without a limit on the log there is no gap.
func TestEveryByteOnceOrAGap(t *testing.T) {
	dir, run := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		whole := rapid.Bool().Draw(t, "log without limit")
		config, limits := Config{Dir: dir}, Limits{LogBytes: 1 << 30, RingBytes: rapid.IntRange(1, 64<<10).Draw(t, "ring")}
		if !whole {
			limits.LogBytes = int64(rapid.IntRange(1, 40<<10).Draw(t, "log"))
			if rapid.Bool().Draw(t, "no log") {
				config.Dir = ""
			}
		}
		b, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		id := fmt.Sprint("run-", run)
		s, err := b.Open(id, limits)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Remove(id)
		var (
			written  [channels][]byte
			seq      uint64
			watchers []*watcher
		)
		attach := func(cursor Cursor) *Viewer {
			v, err := b.View(t.Context(), id, cursor)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				c := channel(rapid.IntRange(0, 1).Draw(t, "channel"))
				p := pieces.Draw(t, "piece")
				seq++
				s.Output(c.String(), int64(len(written[c])), seq, time.Duration(seq)*time.Millisecond, p)
				written[c] = append(written[c], p...)
			},
			"time passes": func(t *rapid.T) { s.w.timeout() },
			"say":         func(t *rapid.T) { s.Publish(api.Frame{Type: api.FrameViolation, Rule: "r"}) },
			"attach": func(t *rapid.T) {
				cursor := Cursor{Tail: true}
				if rapid.Bool().Draw(t, "with cursor") {
					cursor = Cursor{
						Stdout: rapid.Int64Range(0, s.tails[stdout].end).Draw(t, "stdout"),
						Stderr: rapid.Int64Range(0, s.tails[stderr].end).Draw(t, "stderr"),
					}
				}
				watchers = append(watchers, &watcher{v: attach(cursor), fresh: true})
			},
			"read": func(t *rapid.T) {
				if len(watchers) > 0 {
					rapid.SampledFrom(watchers).Draw(t, "watcher").read(t, rapid.IntRange(1, 20).Draw(t, "frames"))
				}
			},
			"cut": func(t *rapid.T) {
				if len(watchers) == 0 {
					return
				}
				w := rapid.SampledFrom(watchers).Draw(t, "watcher")
				if w.fresh {
					w.read(t, 1)
				}
				w.v.Close()
				w.v = attach(Cursor{Stdout: w.out.to[stdout], Stderr: w.out.to[stderr]})
				w.out.seq, w.out.atMs = 0, 0
			},
		})
		s.End(api.Outcome{Kind: "ok"})
		late := &watcher{v: attach(Cursor{Tail: true}), fresh: true}
		for _, w := range append(watchers, late) {
			w.read(t, 1<<30)
			if _, err := ready(w.v); !errors.Is(err, io.EOF) || w.exits != 1 {
				t.Fatalf("%d exit frames, then %v", w.exits, err)
			}
			for c := range channels {
				w.out.check(t, c, written[c])
				if whole && w.out.lost[c] > 0 {
					t.Fatalf("%d bytes of %s are lost, and all are in the log", w.out.lost[c], c)
				}
			}
		}
		for c := range channels {
			if late.out.lost[c] > 0 {
				t.Fatalf("%d bytes of the last 4 KiB are lost", late.out.lost[c])
			}
		}
	})
}
