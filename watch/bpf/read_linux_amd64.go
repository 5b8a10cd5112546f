package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/watch"
)

// readAlarms hands records of the shared ring to their scopes. It waits for nobody: what a scope's channel has no room
// for is counted there, and the alarm itself is in the kernel's count.
func (w *Watcher) readAlarms() {
	err := readRing(w.ring, func(r *record) {
		w.mu.Lock()
		s := w.scopes[r.slot]
		w.mu.Unlock()
		if s != nil && s.generation == r.generation {
			s.offer(r.event(s.boot))
		}
	})
	w.stop(fmt.Errorf("%w: its reader of alarms has ended: %w", ErrClosed, orClosed(err)))
}

// orClosed is err, or that a ring has been closed: nobody but Close may do that.
func orClosed(err error) error {
	if err == nil {
		return ringbuf.ErrClosed
	}
	return err
}

// readRing calls handle for each record until the ring is closed or flushed.
func readRing(ring *ringbuf.Reader, handle func(*record)) error {
	var raw ringbuf.Record
	for {
		err := ring.ReadInto(&raw)
		if errors.Is(err, ringbuf.ErrClosed) || errors.Is(err, ringbuf.ErrFlushed) {
			return nil
		}
		if err != nil {
			return err
		}
		r, err := decode(raw.RawSample)
		if err != nil {
			return err
		}
		handle(&r)
	}
}

// bootTime is when CLOCK_BOOTTIME, which records are stamped with, was zero by the clock on the wall.
func bootTime() time.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil { // cannot be: the kernel has it since 2.6.39
		return time.Now()
	}
	return time.Now().Add(-time.Duration(ts.Nano())).Round(0)
}

// counts sums the kernel's counts of a slot over the processors.
func (w *Watcher) counts(slot uint32) (n silkCounts, err error) {
	var each []silkCounts
	if err := w.kernel.Counters.Lookup(slot, &each); err != nil {
		return n, fmt.Errorf("count events: %w", err)
	}
	for _, c := range each {
		n.Events += c.Events
		n.Lost += c.Lost
	}
	return n, nil
}

// alarms is what the kernel has counted for a slot, and its first alarm.
func (w *Watcher) alarms(slot uint32, boot time.Time) (n uint64, first watch.Event, err error) {
	b, err := w.kernel.Alarms.LookupBytes(slot)
	if err != nil {
		return 0, first, fmt.Errorf("count alarms: %w", err)
	}
	const head = 16 // count and ready of struct alarm
	if len(b) < head+headerBytes {
		return 0, first, fmt.Errorf("count alarms: %d bytes", len(b))
	}
	n = binary.LittleEndian.Uint64(b)
	if n == 0 {
		return 0, first, nil
	}
	if binary.LittleEndian.Uint64(b[8:]) == 0 { // its processor is about to write it
		return n, watch.Event{Origin: watch.Host}, nil
	}
	r, err := decode(b[head:])
	if err != nil {
		return n, first, fmt.Errorf("read alarm: %w", err)
	}
	return n, r.event(boot), nil
}
