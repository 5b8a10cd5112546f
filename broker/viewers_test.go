package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// Many writers at once, their viewers cut off and resuming all the time: each has every byte once.
func TestConcurrentCuts(t *testing.T) {
	testenv.NoLeaks(t)
	b := newBroker(t, nil)
	var group sync.WaitGroup
	for run := range 8 {
		id := fmt.Sprint("r", run)
		s := open(t, b, id, Limits{RingBytes: 16 << 10})
		var all [channels][]byte
		random := rand.New(rand.NewPCG(1, uint64(run)))
		for i := range 6000 {
			all[i%2] = fmt.Appendf(all[i%2], "line %d of run %d %*d\n", i, run, random.IntN(60), 0)
		}
		group.Go(func() {
			var off [channels]int
			random := rand.New(rand.NewPCG(2, uint64(run)))
			for seq := uint64(1); off[stdout] < len(all[stdout]) || off[stderr] < len(all[stderr]); seq++ {
				c := channel(random.IntN(2))
				from := off[c]
				off[c] = min(len(all[c]), from+random.IntN(400))
				s.Output(c.String(), int64(from), seq, time.Duration(seq), all[c][from:off[c]])
			}
			s.End(api.Outcome{})
		})
		for range 6 {
			group.Go(func() {
				var o output
				for cut := 0; ; cut++ {
					v, err := b.View(t.Context(), id, Cursor{Stdout: o.to[stdout], Stderr: o.to[stderr]})
					if err != nil {
						t.Error(err)
						return
					}
					o.seq, o.atMs = 0, 0
					for n := 0; n < 20+cut*cut; n++ {
						frame, err := v.Next(t.Context())
						if errors.Is(err, io.EOF) {
							v.Close()
							for c := range channels {
								if !bytes.Equal(o.data[c], all[c]) || o.lost[c] > 0 {
									t.Errorf("%s of %s: %d bytes of %d, %d lost", c, id, len(o.data[c]), len(all[c]), o.lost[c])
								}
							}
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						if f := decode(errorer{t}, frame); f.Type != api.FrameHello {
							o.take(errorer{t}, f)
						}
					}
					v.Close()
				}
			})
		}
	}
	m := b.ViewMany(t.Context())
	defer m.Close()
	for run := range 8 {
		if err := m.Add(fmt.Sprint("r", run), Cursor{}); err != nil {
			t.Fatal(err)
		}
	}
	outs := map[string]*output{}
	for ended := 0; ended < 8; {
		frame, err := m.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f := decode(t, frame)
		if outs[f.Run] == nil {
			outs[f.Run] = &output{}
		}
		outs[f.Run].take(t, f)
		if f.Type == api.FrameExit {
			ended++
		}
	}
	group.Wait()
	for run, o := range outs {
		if o.lost[stdout]+o.lost[stderr] > 0 {
			t.Errorf("%s has lost output in a view of many", run)
		}
	}
}

// errorer is for goroutines that are not the test's.
type errorer struct{ *testing.T }

func (t errorer) Fatal(args ...any) {
	t.Error(args...)
	runtime.Goexit()
}

func (t errorer) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// The target is below 200 MB for a thousand viewers of one run. What the broker has of it is far less: frames are
// encoded once.
func TestMemoryOfAThousandViewers(t *testing.T) {
	const viewers = 1000
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{})
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	before := heap()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	held := make(chan []byte, viewers) // each viewer holds a frame, as one does that is sending it
	for i := range viewers {
		v, err := b.View(ctx, "r", Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			continue // reads nothing
		}
		group.Go(func() {
			var last []byte
			for {
				frame, err := v.Next(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if bytes.Contains(frame, []byte(`"exit"`)) {
					held <- last
					return
				}
				last = frame
			}
		})
	}
	line := append(bytes.Repeat([]byte("x"), 1000), '\n')
	for i := range 2000 {
		s.Output("stdout", int64(i*len(line)), uint64(i+1), 0, line)
	}
	s.End(api.Outcome{})
	group.Wait()
	if got := heap() - before; got > 20<<20 {
		t.Errorf("a thousand viewers hold %d MiB", got>>20)
	} else {
		t.Logf("a thousand viewers hold %d KiB", got>>10)
	}
	close(held)
	runtime.KeepAlive(s)
}

// Many viewers are woken together, and none is forgotten.
func TestCrowdIsWokenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{})
		var group sync.WaitGroup
		counts := make([]int, 3*crowd)
		for i := range counts {
			v := view(t, b, "r", Cursor{})
			group.Go(func() {
				for {
					frame, err := v.Next(t.Context())
					if errors.Is(err, io.EOF) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					counts[i] += bytes.Count(frame, []byte(`\n`))
				}
			})
		}
		for i := range 10 {
			synctest.Wait()
			s.Output("stdout", int64(2*i), uint64(i+1), 0, []byte("x\n"))
			if got := int(s.waiting.count.Load()); got != len(counts) {
				t.Errorf("the writer has woken %d of a crowd itself", len(counts)-got)
			}
			<-time.After(crowdWait)
		}
		s.End(api.Outcome{})
		group.Wait()
		for i, n := range counts {
			if n != 10 {
				t.Errorf("viewer %d has %d lines", i, n)
			}
		}
	})
}

// A viewer that reads nothing costs the writer nothing and the others nothing.
func TestSlowViewerIsAlone(t *testing.T) {
	b := newBroker(t, func(c *Config) { c.Dir = "" })
	s := open(t, b, "r", Limits{RingBytes: 16 << 10})
	slow, fast := view(t, b, "r", Cursor{}), view(t, b, "r", Cursor{})
	var got output
	var all []byte
	for i := range 5000 {
		p := fmt.Appendf(nil, "line %d\n", i)
		s.Output("stdout", int64(len(all)), uint64(i+1), 0, p)
		all = append(all, p...)
		frames, _ := drain(t, fast)
		for _, f := range frames {
			got.take(t, f)
		}
	}
	s.End(api.Outcome{})
	got.check(t, stdout, all)
	frames, end := drain(t, slow)
	o := collect(t, frames)
	o.check(t, stdout, all)
	if got.lost[stdout] != 0 || o.lost[stdout] == 0 || !errors.Is(end, io.EOF) {
		t.Errorf("the fast one has lost %d bytes, the slow one %d, and ends with %v", got.lost[stdout], o.lost[stdout], end)
	}
	if len(frames) < 3 || frames[1].Type != api.FrameGap {
		t.Errorf("the slow one begins with %q", kinds(frames[:min(3, len(frames))]))
	}
}
