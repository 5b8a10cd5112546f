package broker

import (
	"context"
	"fmt"
	"time"
)

const (
	// followBytes of encoded frames wait in memory for a follower that is behind what the log has: as much as the pipes of
	// both channels hold.
	followBytes       = 2 << 20
	defaultFollowIdle = 30 * time.Second
	defaultFollowAway = 10 * time.Second
)

// follow is the right of one viewer to lose nothing: while memory is full of what it has not acknowledged and the log does not
// have, the writer waits. It is under the lock of the stream, but for moved.
type follow struct {
	key    string  // who may come back; "": nobody follows
	lost   bool    // a follower was waited for in vain: nobody is waited for again
	unheld bool    // the program is gone: what it left is kept, and not waited for
	viewer *Viewer // nil: it is not connected
	have   [channels]int64
	since  time.Time     // of the last sign of it
	moved  chan struct{} // of one element: something of this has changed
}

// Expect reserves the place of the follower for whoever comes with key, so that nothing is lost before it comes. The place of
// another is not taken away.
func (s *Stream) Expect(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := &s.follow; f.key == "" && !f.lost && key != "" {
		f.key, f.since = key, time.Now()
	}
}

// ProgramGone says that nobody writes any more. What is left in pipes, a few MiB, is kept in memory for a follower that lags, in
// place of holding up the end of the run. It does not wait.
func (s *Stream) ProgramGone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow.unheld = true
	s.follow.signal()
}

// Follow is [Broker.View] for the one viewer that the program waits for, as it would for a slow reader of a pipe. The viewer says
// with [Viewer.Have] what has arrived; while more than the log and 2 MiB of memory hold has not, [Stream.Output] blocks. So it
// lasts until it takes nothing for Config.FollowIdle, or is away for Config.FollowAway, while the program waits; then the right is
// over for this run.
//
// key says who follows: one that comes again with it takes the place over, also from a connection that only seems to live; with
// another key, while the place is taken, the viewer is like any other. The hello frame says which it is.
func (b *Broker) Follow(ctx context.Context, run string, cursor Cursor, key string) (*Viewer, error) {
	v, err := b.attach(run, cursor, viewing{follow: key})
	if err != nil {
		return nil, err
	}
	v.stop = context.AfterFunc(ctx, v.Close)
	return v, nil
}

// Have says how many bytes of each channel have arrived where the viewer's frames go, and need not be kept for it. Offsets
// below those said before, or beyond what was printed, do nothing. It matters only for a follower.
func (v *Viewer) Have(stdout, stderr int64) {
	s := v.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.follow
	if f.viewer != v {
		return
	}
	for c, off := range [channels]int64{stdout, stderr} {
		if off > f.have[c] && off <= s.tails[c].end {
			f.have[c], f.since = off, time.Now()
		}
	}
	f.signal()
}

// admit gives v the place of the follower if it is free or its own. The lock of the stream is held.
func (f *follow) admit(v *Viewer, key string) bool {
	if key == "" || f.lost || f.key != "" && f.key != key {
		return false
	}
	f.key, f.viewer, f.have, f.since = key, v, v.off, time.Now()
	f.signal()
	return true
}

// leave says that a viewer has gone.
func (f *follow) leave(v *Viewer) {
	if f.viewer == v {
		f.viewer, f.since = nil, time.Now()
		f.signal()
	}
}

// drop ends the right.
func (f *follow) drop() {
	f.lost, f.key, f.viewer = true, "", nil
	f.signal()
}

func (f *follow) signal() {
	select {
	case f.moved <- struct{}{}:
	default:
	}
}

// left is how long the follower is still waited for. since is when the writer began to wait.
func (s *Stream) left(since time.Time) time.Duration {
	f, limit := &s.follow, s.broker.config.FollowIdle
	if f.viewer == nil {
		limit = s.broker.config.FollowAway
	}
	if f.since.After(since) {
		since = f.since
	}
	return limit - time.Since(since)
}

// spare says whether an entry of the ring may go: no follower still needs it, or the log has it.
func (s *Stream) spare(e *entry) bool {
	f := &s.follow
	return f.key == "" || !e.output || e.to <= f.have[e.channel] || e.to <= s.log.end(e.channel)
}

// room waits until another frame may come into memory. The writer's lock is held, and that of the stream, which it lets go
// while it waits.
func (s *Stream) room() {
	var since time.Time
	for {
		f := &s.follow
		if s.ring.trim(s.spare); f.key == "" || f.unheld || s.ring.bytes <= followBytes {
			return
		}
		if since.IsZero() {
			since = time.Now()
			s.broker.stats.held.Add(1)
		}
		left := s.left(since)
		if left <= 0 {
			f.drop()
			s.broker.warn("a viewer that the program waited for takes nothing", s.run, fmt.Errorf("byte %d of stdout and %d of stderr are the last ones that it has", f.have[stdout], f.have[stderr]))
			continue
		}
		s.mu.Unlock()
		t := time.NewTimer(left)
		select {
		case <-f.moved:
		case <-t.C:
		}
		t.Stop()
		s.mu.Lock()
	}
}

// behind says whether a follower has not everything yet, and is there or may come back.
func (s *Stream) behind() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := &s.follow
	return f.key != "" && (f.have[stdout] < s.tails[stdout].end || f.have[stderr] < s.tails[stderr].end) && s.left(time.Time{}) > 0
}
