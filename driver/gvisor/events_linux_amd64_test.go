package gvisor

import (
	"os"
	"testing"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
	"github.com/silk-sandbox/silk/watch"
)

// kernelSide is a ring as the sandbox kernel has it.
func kernelSide(t *testing.T, listen func(watch.Event)) (e *events, ring *wire.Ring, wake *os.File, failed *bool) {
	t.Helper()
	failed = new(bool)
	e, mem, wake, err := openEvents(listen, func() { *failed = true })
	if err != nil {
		t.Fatal(err)
	}
	mem.Close()
	if ring, err = wire.NewRing(e.mem); err != nil {
		t.Fatal(err)
	}
	return e, ring, wake, failed
}

func TestEventsAreCounted(t *testing.T) {
	e, ring, wake, failed := kernelSide(t, nil)
	go e.read()
	const opens = 5000 // more than fit at once
	for range opens {
		if ring.Put(wire.Event{Kind: wire.KindOf(watch.OpenAt), Argument: []byte("/usr/lib/python3/dist-packages/numpy/x.py")}) {
			if _, err := wake.Write([]byte{0}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ring.Put(wire.Event{Kind: wire.KindOf(watch.Socket), Errno: wire.Killed, Argument: []byte("AF_INET")})
	wake.Close()
	w, err := e.end(true)
	if err != nil || *failed {
		t.Fatal(err)
	}
	if got := w.Counts[watch.OpenAt] + w.Counts[watch.Socket] + w.Dropped; got != opens+1 {
		t.Errorf("%d events are accounted for, want %d: %+v", got, opens+1, w.Counts)
	}
	if len(w.Last) != lastEvents {
		t.Fatalf("%d events are kept, want %d", len(w.Last), lastEvents)
	}
	if last := w.Last[lastEvents-1]; last.Kind != watch.Socket || last.Result != "killed" {
		t.Errorf("the last event is %+v", last)
	}
}

// A kernel whose reports make no sense is ended: its sandbox is not watched any more.
func TestDamagedEventsEndTheSandbox(t *testing.T) {
	for name, damage := range map[string]func(*wire.Ring, []byte){
		"counters": func(_ *wire.Ring, mem []byte) { mem[7] = 0x80 },
		"length":   func(r *wire.Ring, mem []byte) { r.Put(wire.Event{}); mem[4096] = 1 },
		"kind":     func(r *wire.Ring, _ []byte) { r.Put(wire.Event{Kind: 200}) },
	} {
		t.Run(name, func(t *testing.T) {
			e, ring, wake, failed := kernelSide(t, nil)
			damage(ring, e.mem)
			go e.read()
			if _, err := wake.Write([]byte{0}); err != nil {
				t.Fatal(err)
			}
			<-e.done
			wake.Close()
			if _, err := e.end(true); err == nil || !*failed {
				t.Errorf("end: %v, failed %t", err, *failed)
			}
		})
	}
}

func TestCheckArmed(t *testing.T) {
	if checkArmed(wire.Message{Points: wire.Points()}) == nil {
		t.Error("a kernel that confirms no rule is armed")
	}
}
