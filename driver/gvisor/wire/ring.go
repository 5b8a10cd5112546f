package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// RingBytes is the size of the memory that a sandbox kernel and the engine share for events: a page of counters and a
// buffer of 256 KiB, which holds the events of about 4,000 opens. Only what is used of it takes memory.
const RingBytes = ringHeader + ringBuffer

const (
	ringHeader = 4096
	ringBuffer = 256 << 10
	ringMask   = ringBuffer - 1

	recordHeader = 24
	maxArgument  = 1024 // bytes of an event's argument that are kept
)

// Event is one record of a ring.
type Event struct {
	At       int64 // nanoseconds since the epoch
	Kind     EventKind
	Call     Call
	Errno    uint16 // as in errno(3); 0: the call went on
	Process  int32
	Thread   int32
	Argument []byte // not yet made printable; of an event that was read: valid as long as what it was read from
}

// ringCounters lie at the beginning of the shared memory, each on a cache line of its own.
type ringCounters struct {
	written atomic.Uint64 // bytes of records since the beginning; the kernel writes it
	_       [56]byte
	read    atomic.Uint64 // the engine writes it
	_       [56]byte
	dropped atomic.Uint64 // events that found no room; the kernel writes it
	_       [56]byte
}

// Ring is one side's view of the shared memory: the kernel puts events in, the engine takes them out. Neither waits
// for the other: what finds no room is dropped and counted. What is in the memory is the other side's: a kernel that
// was taken over may write anything there, and Take believes none of it.
type Ring struct {
	counters *ringCounters
	buffer   []byte
}

// NewRing is a view of mem, which must be RingBytes long and shared.
func NewRing(mem []byte) (*Ring, error) {
	if len(mem) != RingBytes {
		return nil, fmt.Errorf("event ring has %d bytes, want %d", len(mem), RingBytes)
	}
	return &Ring{(*ringCounters)(unsafe.Pointer(&mem[0])), mem[ringHeader:]}, nil
}

// Put adds an event. The caller sees to it that there is one Put at a time. It reports whether the buffer has just
// become half full, so that the other side should be woken.
func (r *Ring) Put(e Event) (wake bool) {
	arg := e.Argument
	if len(arg) > maxArgument {
		arg = arg[:maxArgument]
	}
	size := uint64(recordHeader+len(arg)+7) &^ 7
	at, read := r.counters.written.Load(), r.counters.read.Load()
	if at-read+size > ringBuffer {
		r.counters.dropped.Add(1)
		return false
	}
	var h [recordHeader]byte
	binary.LittleEndian.PutUint32(h[0:], uint32(recordHeader+len(arg)))
	h[4], h[5] = byte(e.Kind), byte(e.Call)
	binary.LittleEndian.PutUint16(h[6:], e.Errno)
	binary.LittleEndian.PutUint32(h[8:], uint32(e.Process))
	binary.LittleEndian.PutUint32(h[12:], uint32(e.Thread))
	binary.LittleEndian.PutUint64(h[16:], uint64(e.At))
	r.copyIn(at, h[:])
	r.copyIn(at+recordHeader, arg)
	r.counters.written.Store(at + size)
	return at-read < ringBuffer/2 && at-read+size >= ringBuffer/2
}

func (r *Ring) copyIn(at uint64, b []byte) {
	n := copy(r.buffer[at&ringMask:], b)
	copy(r.buffer, b[n:])
}

// Take moves all that is there behind buf[:0] and returns it, as whole records for [NextEvent]. buf grows as needed.
func (r *Ring) Take(buf []byte) ([]byte, error) {
	written, read := r.counters.written.Load(), r.counters.read.Load()
	n := written - read
	if n > ringBuffer || n%8 != 0 {
		return nil, fmt.Errorf("event ring holds %d bytes of %d", n, ringBuffer)
	}
	buf = buf[:0]
	at := read & ringMask
	first := min(n, ringBuffer-at)
	buf = append(buf, r.buffer[at:at+first]...)
	buf = append(buf, r.buffer[:n-first]...)
	r.counters.read.Store(written)
	return buf, nil
}

// Dropped is how many events have found no room.
func (r *Ring) Dropped() int64 { return int64(min(r.counters.dropped.Load(), 1<<62)) }

var errEvent = errors.New("event record is damaged")

// NextEvent is the first record of b, which was taken from a ring, and what comes after it.
func NextEvent(b []byte) (e Event, rest []byte, err error) {
	if len(b) < recordHeader {
		return e, nil, errEvent
	}
	size := binary.LittleEndian.Uint32(b)
	if size < recordHeader || size > recordHeader+maxArgument || int(size+7)&^7 > len(b) {
		return e, nil, errEvent
	}
	return Event{
		At:       int64(binary.LittleEndian.Uint64(b[16:])),
		Kind:     EventKind(b[4]),
		Call:     Call(b[5]),
		Errno:    binary.LittleEndian.Uint16(b[6:]),
		Process:  int32(binary.LittleEndian.Uint32(b[8:])),
		Thread:   int32(binary.LittleEndian.Uint32(b[12:])),
		Argument: b[recordHeader:size],
	}, b[int(size+7)&^7:], nil
}
