package queue

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// toy is a schedule with a stream that is as simple as can be.
type toy struct {
	t       rapid.TB
	s       schedule
	streams map[string][]string
	needs   map[string]Need
	limits  map[string]int
	running []string // runs
	tokens  map[string]string
	order   []string // runs, as they started
}

func newToy(t rapid.TB, total room) *toy {
	return &toy{
		t: t, s: newSchedule(total), streams: map[string][]string{}, needs: map[string]Need{},
		limits: map[string]int{}, tokens: map[string]string{},
	}
}

func (y *toy) submit(token, run string, limit int, need Need) {
	y.needs[run], y.tokens[run], y.limits[token] = need, token, limit
	y.streams[token] = append(y.streams[token], run)
	y.s.add(token, run, limit)
	y.s.sent(token, run)
}

// step does one thing that the dispatcher would do, and says whether there was one.
func (y *toy) step() bool {
	start, ask := y.s.next()
	switch {
	case start != nil:
		run := start.entry.Run
		y.s.start(start)
		y.running = append(y.running, run)
		y.order = append(y.order, run)
		return true
	case ask != nil:
		waiting := y.streams[ask.token]
		if len(waiting) == 0 {
			y.t.Fatalf("token %s is asked for, and has nothing", ask.token)
		}
		y.streams[ask.token] = waiting[1:]
		y.s.hold(&held{entry: Entry{Run: waiting[0], Token: ask.token, Need: y.needs[waiting[0]], MaxRunning: ask.limit}})
		return true
	}
	return false
}

func (y *toy) settle() {
	for y.step() {
	}
}

func (y *toy) finish(run string) {
	i := slices.Index(y.running, run)
	if i < 0 {
		y.t.Fatalf("%s does not run; %v do", run, y.running)
	}
	y.running = slices.Delete(y.running, i, i+1)
	y.s.finish(y.tokens[run], y.needs[run])
}

// TestScheduleProperties does anything in any order and looks at what must always be so.
func TestScheduleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := room{slots: rapid.IntRange(1, 4).Draw(t, "slots"), memoryBytes: 100, milliCPUs: 2000}
		y := newToy(t, total)
		since := map[string]int{} // run that is held: how many had started then
		n := 0
		submit := func(t *rapid.T) {
			token := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "token")
			n++
			y.submit(token, fmt.Sprint(token, n), rapid.IntRange(1, 3).Draw(t, "limit"), Need{
				MemoryBytes: int64(rapid.IntRange(0, 120).Draw(t, "memory")), CPUs: rapid.Float64Range(0, 2.5).Draw(t, "cpus"),
			})
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit": submit,
			"step":   func(*rapid.T) { y.step() },
			"settle": func(*rapid.T) { y.settle() },
			"finish": func(t *rapid.T) {
				if len(y.running) > 0 {
					y.finish(rapid.SampledFrom(y.running).Draw(t, "run"))
				}
			},
			"cancel": func(t *rapid.T) {
				var all []string
				for _, l := range y.s.ring {
					for _, w := range l.runs {
						all = append(all, w.run)
					}
				}
				if len(all) == 0 {
					return // none waits
				}
				run := rapid.SampledFrom(all).Draw(t, "run")
				token := y.tokens[run]
				y.s.remove(token, run)
				y.streams[token] = slices.DeleteFunc(y.streams[token], func(r string) bool { return r == run })
			},
			"": func(t *rapid.T) { y.check(t, total, since) },
		})
		for y.settle(); len(y.running) > 0; y.settle() {
			y.finish(y.running[0])
		}
		if y.s.room != total || len(y.s.ring) > 0 || y.s.first != nil {
			t.Errorf("in the end the room is %+v, the ring %v, first %v", y.s.room, y.s.ring, y.s.first)
		}
	})
}

func (y *toy) check(t *rapid.T, total room, since map[string]int) {
	r := y.s.room
	if r.slots < 0 || r.memoryBytes < 0 || r.milliCPUs < 0 {
		t.Fatalf("more is taken than there is: %+v", r)
	}
	if len(y.running) == 0 && r != total {
		t.Fatalf("nothing runs and the room is %+v, not %+v", r, total)
	}
	active := map[string]int{}
	for _, run := range y.running {
		active[y.tokens[run]]++
	}
	for _, l := range y.s.ring {
		if len(l.runs) == 0 {
			t.Fatalf("token %s is in the ring, and none of its runs waits", l.token)
		}
		if h := l.held; h != nil {
			if _, ok := since[h.entry.Run]; !ok {
				since[h.entry.Run] = len(y.order)
			}
			// Those that passed it while it did not fit, and one turn of each other that had room before it.
			if more := len(y.order) - since[h.entry.Run]; more > maxPassed+2*4+maxPassed*3 {
				t.Fatalf("%s is held and %d others have started since", h.entry.Run, more)
			}
		}
	}
	last := map[string]int{}
	for _, run := range y.order {
		token, i := run[:1], 0
		fmt.Sscan(run[1:], &i)
		if i < last[token] {
			t.Fatalf("the runs of token %s started in the order %v", token, y.order)
		}
		last[token] = i
	}
}
