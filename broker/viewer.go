package broker

import (
	"context"
	"fmt"
	"io"

	"github.com/silk-sandbox/silk/api"
)

// Cursor is where a viewer begins: at the given offset of each channel, which is how many bytes of it the viewer has.
// The zero value is the begin of the output.
type Cursor struct {
	Stdout, Stderr int64
	Tail           bool // begin with the last 4 KiB of each channel instead, and ignore the offsets
}

// Viewer reads the frames of one run. It never slows the program, unless it is made by [Broker.Follow]: one that falls behind
// catches up from the log, and what is not there is told by a gap frame. Its memory is bounded by one frame and some references to shared ones. Next
// is for one goroutine at a time, Close for any.
type Viewer struct {
	stream *Stream
	bell   chan struct{} // of one element: there is something new
	many   *Many         // called instead of bell; nil: not one of many
	stop   func() bool   // of the context of View

	// Of the goroutine that calls Next.
	queue [][]byte        // frames that come before all others
	off   [channels]int64 // the next byte of each channel
	next  uint64          // the next frame of the ring
	news  uint64          // frames that are not output are of interest from this one on
	stamp stamp           // of the last output that came from the log or the tail
	logAt int64           // how far the log was read
	noLog bool            // it cannot be read any more
	done  bool            // the exit frame was returned

	closed bool // under stream.mu
	waits  bool // is in stream.waiting, under its lock
	queued bool // is in many.ready, under its lock
}

// View attaches a viewer to a run that is live or has ended a short time ago. The end of ctx closes it, as
// [Viewer.Close] does.
func (b *Broker) View(ctx context.Context, run string, cursor Cursor) (*Viewer, error) {
	v, err := b.attach(run, cursor, viewing{})
	if err != nil {
		return nil, err
	}
	v.stop = context.AfterFunc(ctx, v.Close)
	return v, nil
}

// viewing is what is special about a viewer.
type viewing struct {
	many   *Many  // it is one of several
	follow string // its key, if the program is to wait for it
}

func (b *Broker) attach(run string, cursor Cursor, how viewing) (*Viewer, error) {
	s, err := b.find(run)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutErr != nil {
		return nil, s.shutErr
	}
	v := &Viewer{stream: s, many: how.many, bell: make(chan struct{}, 1), next: s.ring.first, news: s.ring.end()}
	v.off = [channels]int64{cursor.Stdout, cursor.Stderr}
	for c := range v.off {
		if t := &s.tails[c]; cursor.Tail {
			v.off[c] = t.begin()
		} else if v.off[c] < 0 || v.off[c] > t.end {
			return nil, fmt.Errorf("view run %s from byte %d of %s, which has %d: %w", run, v.off[c], channel(c), t.end, ErrCursor)
		}
	}
	v.queue = append(v.queue, encode(api.Frame{
		Type: api.FrameHello, Run: run, State: s.state, Profile: s.profile, Driver: s.driver,
		TailFrom: &api.Tail{Stdout: v.off[stdout], Stderr: v.off[stderr]}, Followed: s.follow.admit(v, how.follow),
	}))
	for _, f := range s.kept {
		v.queue = append(v.queue, f.frame)
	}
	s.viewers++
	b.stats.viewers.Add(1)
	return v, nil
}

// Next returns the next frame as JSON, which the caller must not change, and waits for it. The first frame is hello,
// then come the frames that say how the run stands, then its output from the cursor on together with all that happens,
// in the order of publication; within a channel each piece begins where the one before, or a gap frame, has ended. Only
// the last 4 KiB of a channel, if neither memory nor log has them any more, come after what the other channel has
// printed since.
//
// After the exit frame it returns io.EOF. ErrClosed says that nobody here will know how the run ended. An error of ctx
// leaves the viewer as it was.
func (v *Viewer) Next(ctx context.Context) ([]byte, error) {
	for {
		frame, err := v.poll()
		if frame != nil || err != nil {
			return frame, err
		}
		select {
		case <-v.bell:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Cursor is where a viewer would go on that comes after what Next has returned. Like Next it is for one goroutine at a
// time.
func (v *Viewer) Cursor() Cursor { return Cursor{Stdout: v.off[stdout], Stderr: v.off[stderr]} }

// Close releases the viewer. Next returns ErrClosed from then on.
func (v *Viewer) Close() {
	if v.stop != nil {
		v.stop()
	}
	s := v.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.closed {
		return
	}
	v.closed = true
	s.waiting.remove(v)
	s.follow.leave(v)
	v.wake() // Next may wait in another goroutine
	s.viewers--
	s.broker.stats.viewers.Add(-1)
	if err := s.release(); err != nil {
		s.broker.warn("close log of output", s.run, err)
	}
}

// wake says that there is something new.
func (v *Viewer) wake() {
	if v.many != nil {
		v.many.wake(v)
		return
	}
	select {
	case v.bell <- struct{}{}:
	default:
	}
}

// poll returns the next frame, or neither frame nor error; then the viewer is woken when there is one.
func (v *Viewer) poll() ([]byte, error) {
	for {
		if len(v.queue) > 0 {
			frame := v.queue[0]
			v.queue[0] = nil
			v.queue = v.queue[1:]
			return frame, nil
		}
		frame, need, err := v.step()
		if err != nil {
			return nil, err
		}
		if frame != nil {
			return frame, nil
		}
		switch need {
		case nothing:
			return nil, nil
		case logRead:
			if frame := v.readLog(); frame != nil {
				return frame, nil
			}
		case again:
		}
	}
}

// need is what is to be done for the next frame.
type need int

const (
	again   need = iota // look again
	logRead             // read the log
	nothing             // wait
)

// step takes one step, and shares the lock of the stream with other viewers.
func (v *Viewer) step() ([]byte, need, error) {
	s := v.stream
	s.mu.RLock()
	defer s.mu.RUnlock()
	if v.closed {
		return nil, again, ErrClosed
	}
	if v.done {
		return nil, again, io.EOF
	}
	if v.next <= s.ring.first { // it has come late, or has fallen behind
		if frame, need, ok := v.catchUp(); ok {
			return frame, need, nil
		}
	}
	for v.next < s.ring.end() {
		number, e := v.next, s.ring.at(v.next)
		v.next++
		if !e.output {
			if number >= v.news {
				v.news = number + 1
				return e.frame, again, nil
			}
			continue
		}
		off := &v.off[e.channel]
		switch {
		case e.to <= *off: // it has that
		case e.from == *off:
			*off = e.to
			return e.frame, again, nil
		case e.from > *off:
			v.next--
			return v.gap(e.channel, e.from), again, nil
		default:
			frame, err := cutOutput(s.run, e, *off)
			*off = e.to
			return frame, again, err
		}
	}
	switch {
	case s.exit != nil:
		v.done = true
		return s.exit, again, nil
	case s.shutErr != nil:
		return nil, again, s.shutErr
	}
	s.waiting.add(v)
	return nil, nothing, nil
}

// gap is the frame that says that the bytes of a channel up to an offset are gone.
func (v *Viewer) gap(c channel, to int64) []byte {
	from := v.off[c]
	v.off[c] = to
	stats := &v.stream.broker.stats
	stats.gaps.Add(1)
	stats.gapBytes.Add(to - from)
	return encodeGap(v.stream.run, c, from, to)
}
