package queue

import (
	"fmt"
	"slices"
	"testing"
)

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
