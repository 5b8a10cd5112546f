package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/silk-sandbox/silk/watch"
)

func newRing(t testing.TB) (*Ring, []byte) {
	t.Helper()
	mem := make([]byte, RingBytes)
	r, err := NewRing(mem)
	if err != nil {
		t.Fatal(err)
	}
	return r, mem
}

func take(t testing.TB, r *Ring) (events []Event) {
	t.Helper()
	b, err := r.Take(nil)
	for err == nil && len(b) > 0 {
		var e Event
		e, b, err = NextEvent(b)
		events = append(events, e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// What is put in comes out, whatever its length, also where the buffer begins again; what finds no room is counted.
func TestRing(t *testing.T) {
	r, _ := newRing(t)
	var want []Event
	total, dropped := 0, int64(0)
	for i := range 40_000 {
		e := Event{At: int64(i), Kind: EventKind(i % 9), Call: Call(i % 7), Errno: uint16(i), Process: int32(i), Thread: -int32(i), Argument: bytes.Repeat([]byte{byte(i)}, i%(maxArgument+1))}
		before := r.Dropped()
		r.Put(e)
		if r.Dropped() > before {
			dropped++
		} else {
			want = append(want, e)
		}
		if i%613 == 0 {
			got := take(t, r)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("after %d events %d came out, want %d", i, len(got), len(want))
			}
			total, want = total+len(got), nil
		}
	}
	total += len(take(t, r))
	if dropped == 0 || dropped != r.Dropped() || total+int(dropped) != 40_000 {
		t.Errorf("%d came out and %d of %d found no room", total, dropped, 40_000)
	}
}

func TestRingCutsArguments(t *testing.T) {
	r, _ := newRing(t)
	r.Put(Event{Argument: bytes.Repeat([]byte("x"), maxArgument+500)})
	if got := take(t, r); len(got) != 1 || len(got[0].Argument) != maxArgument {
		t.Errorf("got %d events, the first with %d bytes", len(got), len(got[0].Argument))
	}
}

// The reader is woken once on the way to half full, not with each event.
func TestRingWakes(t *testing.T) {
	r, _ := newRing(t)
	wakes := 0
	for range ringBuffer / recordHeader {
		if r.Put(Event{}) {
			wakes++
		}
	}
	if wakes != 1 {
		t.Errorf("%d wakes, want 1", wakes)
	}
}

func TestWatched(t *testing.T) {
	e := Event{Kind: KindOf(watch.OpenAt), Call: CallOf("creat"), Errno: 13, Process: 3, Thread: 4, Argument: []byte("/a\x1b")}
	got, ok := e.Watched()
	if !ok || got.Kind != watch.OpenAt || got.Syscall != "creat" || got.Result != "EACCES" || got.Process != 3 || got.Thread != 4 || got.Argument != "/a\uFFFD" || got.Origin != watch.Sentry {
		t.Errorf("got %+v, %t", got, ok)
	}
	for _, bad := range []Event{{Kind: EventKind(len(eventKinds))}, {Call: Call(len(eventCalls))}} {
		if got, ok := bad.Watched(); ok {
			t.Errorf("%+v became %+v", bad, got)
		}
	}
}

// FuzzRing takes from memory that a kernel which was taken over has written.
func FuzzRing(f *testing.F) {
	r, mem := newRing(f)
	r.Put(Event{Kind: 2, Argument: []byte("/etc/passwd")})
	f.Add(uint64(56), uint64(0), append([]byte{}, mem[ringHeader:ringHeader+64]...))
	f.Add(uint64(1), uint64(0), []byte{1})
	f.Add(uint64(0), uint64(8), []byte{})
	f.Add(^uint64(0), uint64(0), []byte{})
	f.Fuzz(func(t *testing.T, written, read uint64, content []byte) {
		r, mem := newRing(t)
		binary.LittleEndian.PutUint64(mem, written)
		binary.LittleEndian.PutUint64(mem[64:], read)
		copy(mem[ringHeader:], content)
		b, err := r.Take(nil)
		if len(b) > ringBuffer {
			t.Fatalf("took %d bytes", len(b))
		}
		for err == nil && len(b) > 0 {
			var e Event
			before := len(b)
			if e, b, err = NextEvent(b); err == nil && (len(b) >= before || len(e.Argument) > maxArgument) {
				t.Fatalf("%d bytes are left of %d after %+v", len(b), before, e)
			}
			e.Watched()
		}
	})
}
