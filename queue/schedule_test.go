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

func (y *toy) want(order ...string) {
	y.t.Helper()
	if !slices.Equal(y.order, order) {
		y.t.Errorf("started %v, want %v", y.order, order)
	}
}

func slots(n int) room { return room{slots: n, memoryBytes: unbounded, milliCPUs: unbounded} }

func TestTokensTakeTurns(t *testing.T) {
	y := newToy(t, slots(1))
	for i := range 1000 {
		y.submit("a", fmt.Sprint("a", i), 5, Need{})
	}
	y.settle()
	y.submit("b", "b0", 5, Need{})
	y.submit("c", "c0", 5, Need{})
	y.submit("b", "b1", 5, Need{})
	for i := range 6 {
		y.settle()
		y.finish(y.order[i])
	}
	y.want("a0", "b0", "c0", "a1", "b1", "a2")
}

// A token that asks for one run at a time is not served before those who wait in line.
func TestNobodyComesFirstByLeaving(t *testing.T) {
	y := newToy(t, slots(1))
	for i := range 9 {
		y.submit("a", fmt.Sprint("a", i), 5, Need{})
		y.submit("b", fmt.Sprint("b", i), 5, Need{})
	}
	y.submit("x", "x0", 5, Need{})
	for i := range 9 {
		y.settle()
		if run := y.order[i]; run[:1] == "x" {
			y.finish(run)
			y.submit("x", fmt.Sprint("x", i), 5, Need{})
		} else {
			y.finish(run)
		}
	}
	y.want("a0", "b0", "x0", "a1", "b1", "x2", "a2", "b2", "x5")
}

func TestTokenAtItsLimitKeepsItsTurn(t *testing.T) {
	y := newToy(t, slots(3))
	for i := range 3 {
		y.submit("a", fmt.Sprint("a", i), 1, Need{})
		y.submit("b", fmt.Sprint("b", i), 9, Need{})
	}
	y.settle()
	y.want("a0", "b0", "b1")
	y.finish("a0")
	y.settle()
	y.want("a0", "b0", "b1", "a1")
}

func TestSmallRunsPassABigOneForAWhile(t *testing.T) {
	y := newToy(t, room{slots: 10, memoryBytes: 100, milliCPUs: unbounded})
	y.submit("a", "small", 9, Need{MemoryBytes: 30})
	y.settle()
	y.submit("big", "big", 9, Need{MemoryBytes: 80})
	for i := range 2 * maxPassed {
		y.submit("a", fmt.Sprint("a", i), 9, Need{MemoryBytes: 30})
	}
	y.settle()
	y.want("small", "a0", "a1")
	for len(y.running) > 0 && !slices.Contains(y.running, "big") {
		y.finish(y.running[0])
		y.settle()
	}
	if got := slices.Index(y.order, "big"); got != 1+maxPassed {
		t.Errorf("big started after %d others, want 1 and the %d that may pass", got, maxPassed)
	}
	if len(y.running) != 1 {
		t.Errorf("%v run beside it", y.running)
	}
	y.finish("big")
	y.settle()
	if len(y.running) != 3 {
		t.Errorf("after it %v run, want 3 small ones again", y.running)
	}
}

func TestRunBiggerThanTheHostRunsAlone(t *testing.T) {
	y := newToy(t, room{slots: 5, memoryBytes: 100, milliCPUs: 2000})
	y.submit("a", "a0", 5, Need{MemoryBytes: 1})
	y.submit("b", "b0", 5, Need{MemoryBytes: 1000, CPUs: 64})
	y.settle()
	y.want("a0")
	y.finish("a0")
	y.settle()
	y.want("a0", "b0")
	y.submit("a", "a1", 5, Need{MemoryBytes: 1})
	y.settle()
	y.want("a0", "b0")
	y.finish("b0")
	y.settle()
	y.want("a0", "b0", "a1")
}

func TestManyFractionsOfACPU(t *testing.T) {
	y := newToy(t, room{slots: 100, memoryBytes: unbounded, milliCPUs: 1000})
	for i := range 1000 {
		y.submit("a", fmt.Sprint("a", i), 100, Need{CPUs: 0.1})
	}
	for range 990 {
		y.settle()
		if len(y.running) != 10 {
			t.Fatalf("%d runs of 0.1 CPU on 1", len(y.running))
		}
		y.finish(y.running[0])
	}
}

func TestAskedAgainOnlyAfterAChange(t *testing.T) {
	s := newSchedule(slots(5))
	s.add("a", "a0", 5)
	if _, ask := s.next(); ask != nil {
		t.Error("asked for what the stream does not have")
	}
	s.sent("a", "a0")
	_, ask := s.next()
	if ask == nil {
		t.Fatal("not asked for")
	}
	before := ask.changes
	s.add("a", "a1", 5)
	s.sent("a", "a1") // while the stream is asked
	s.refused("a", before)
	if _, ask = s.next(); ask == nil {
		t.Fatal("not asked for again though there is news")
	}
	s.refused("a", ask.changes)
	if _, ask = s.next(); ask != nil {
		t.Error("asked for again without news")
	}
	s.lines["a"].wet()
	if _, ask = s.next(); ask == nil {
		t.Error("not asked for again though it may have changed")
	}
}

func TestPlace(t *testing.T) {
	y := newToy(t, slots(1))
	y.submit("x", "x0", 5, Need{})
	y.settle() // takes the slot
	for i := range 3 {
		y.submit("a", fmt.Sprint("a", i), 5, Need{})
	}
	y.submit("b", "b0", 5, Need{})
	y.submit("c", "c0", 5, Need{})
	y.submit("c", "c1", 5, Need{})
	want := []string{"a0", "b0", "c0", "a1", "c1", "a2"}
	for i, run := range want {
		if place, _ := y.s.place(y.tokens[run], run); place != i+1 {
			t.Errorf("%s has place %d, want %d", run, place, i+1)
		}
	}
	if place, _ := y.s.place("a", "x0"); place != 0 {
		t.Errorf("a run that does not wait has place %d", place)
	}
	y.finish("x0")
	for i := range want {
		y.settle()
		y.finish(y.order[i+1])
	}
	y.want(append([]string{"x0"}, want...)...)
	if len(y.s.ring) > 0 {
		t.Errorf("what is left in the ring: %v", y.s.ring)
	}
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
				if len(y.running) == 0 {
					t.Skip("none runs")
				}
				y.finish(rapid.SampledFrom(y.running).Draw(t, "run"))
			},
			"cancel": func(t *rapid.T) {
				var all []string
				for _, l := range y.s.ring {
					for _, w := range l.runs {
						all = append(all, w.run)
					}
				}
				if len(all) == 0 {
					t.Skip("none waits")
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
