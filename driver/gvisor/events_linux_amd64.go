package gvisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor/wire"
	"github.com/silk-sandbox/silk/watch"
)

const (
	// eventDelay is how late a listener hears of an event at most. Without a listener the ring is read when it is half
	// full, and at the end.
	eventDelay = 100 * time.Millisecond

	// lastEvents bounds driver.Watched.Last, and lastBytes what is kept to make it of.
	lastEvents = 64
	lastBytes  = 64 << 10
)

// events reads what a sandbox kernel reports, from memory that both have mapped.
type events struct {
	mem    []byte
	ring   *wire.Ring
	wake   *os.File // at end of file when the kernel is gone
	listen func(watch.Event)
	failed func() // called when the stream makes no sense
	done   chan struct{}

	// Owned by read until done is closed.
	counts [16]int64 // by wire.EventKind
	last   []byte    // records
	err    error
}

// openEvents makes the ring. mem and wake are what the kernel needs of it; the caller closes them when they are sent.
func openEvents(listen func(watch.Event), failed func()) (e *events, mem, wake *os.File, err error) {
	fd, err := unix.MemfdCreate("silk-events", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("make event ring: %w", err)
	}
	mem = os.NewFile(uintptr(fd), "event ring")
	e = &events{listen: listen, failed: failed, done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make event ring: %w", err), mem.Close())
			if e.mem != nil {
				err = errors.Join(err, unix.Munmap(e.mem))
			}
		}
	}()
	if err := unix.Ftruncate(fd, wire.RingBytes); err != nil {
		return nil, nil, nil, err
	}
	// A kernel that was taken over must not cut off the memory that we read.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, nil, nil, err
	}
	if e.mem, err = unix.Mmap(fd, 0, wire.RingBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, nil, nil, err
	}
	if e.ring, err = wire.NewRing(e.mem); err != nil {
		return nil, nil, nil, err
	}
	if e.wake, wake, err = os.Pipe(); err != nil {
		return nil, nil, nil, err
	}
	return e, mem, wake, nil
}

// read takes events until the kernel is gone.
func (e *events) read() {
	defer close(e.done)
	var batch []byte
	signal := make([]byte, 64)
	for gone := false; !gone; {
		if e.listen != nil {
			_ = e.wake.SetReadDeadline(time.Now().Add(eventDelay))
		}
		_, err := e.wake.Read(signal)
		gone = errors.Is(err, io.EOF)
		if err != nil && !gone && !errors.Is(err, os.ErrDeadlineExceeded) {
			e.err = fmt.Errorf("wait for events: %w", err)
		}
		if e.err == nil {
			batch, err = e.ring.Take(batch)
			e.err = errors.Join(err, e.keep(batch))
		}
		if e.err != nil {
			e.failed()
			return
		}
	}
}

// keep counts events, passes them on, and remembers the last.
func (e *events) keep(batch []byte) error {
	for rest := batch; len(rest) > 0; {
		var ev wire.Event
		var err error
		if ev, rest, err = wire.NextEvent(rest); err != nil {
			return err
		}
		if _, ok := ev.Kind.Name(); !ok {
			return fmt.Errorf("sandbox kernel reports an event of kind %d", ev.Kind)
		}
		e.counts[ev.Kind]++
		if e.listen != nil {
			if w, ok := ev.Watched(); ok {
				e.listen(w)
			}
		}
	}
	if len(batch) > lastBytes {
		e.last, batch = e.last[:0], cut(batch)
	}
	if e.last = append(e.last, batch...); len(e.last) > 2*lastBytes {
		e.last = append(e.last[:0], cut(e.last)...)
	}
	return nil
}

// cut drops whole records at the beginning until lastBytes are left.
func cut(records []byte) []byte {
	for len(records) > lastBytes {
		_, rest, err := wire.NextEvent(records)
		if err != nil {
			return nil
		}
		records = rest
	}
	return records
}

// end waits for the reader, which ends with the kernel, and releases the ring.
func (e *events) end(withLast bool) (driver.Watched, error) {
	<-e.done
	w := driver.Watched{Counts: map[watch.Kind]int64{}, Dropped: e.ring.Dropped()}
	for i, n := range e.counts {
		if kind, ok := wire.EventKind(i).Name(); ok && n > 0 {
			w.Counts[kind] = n
		}
	}
	for rest := e.last; withLast && len(rest) > 0; {
		var ev wire.Event
		var err error
		if ev, rest, err = wire.NextEvent(rest); err != nil {
			break
		}
		if seen, ok := ev.Watched(); ok {
			w.Last = append(w.Last, seen)
		}
	}
	w.Last = w.Last[max(0, len(w.Last)-lastEvents):]
	return w, errors.Join(e.err, e.wake.Close(), unix.Munmap(e.mem))
}
