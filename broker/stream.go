package broker

import (
	"sync"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/logkey"
)

// The states of a run in hello.
const (
	statePending = "pending"
	stateQueued  = "queued"
	stateRunning = "running"
	stateEnded   = "ended"
)

// Stream is the writer's side of one run. Its methods wait for no viewer but a follower (see [Broker.Follow]), only for a write
// into the page cache, and may be called by several goroutines; frames are published in the order of the calls.
type Stream struct {
	broker *Broker
	run    string
	limits Limits

	w writer // has a lock of its own, which is taken before mu and never by viewers

	mu      sync.RWMutex // viewers share it while they read, so that a thousand of them do not queue before the writer
	state   string
	profile string
	driver  string
	ring    ring
	tails   [channels]tail
	kept    kept
	log     *log // nil: no output yet, or no directory
	exit    []byte
	shutErr error // why there will be no exit frame
	follow  follow

	viewers int
	waiting waitList
	gone    bool        // the broker has forgotten it
	leave   *time.Timer // of the broker, under its lock
	bytes   int64       // likewise: memory when it ended
}

func newStream(b *Broker, run string, limits Limits) *Stream {
	s := &Stream{broker: b, run: run, limits: limits, state: stateQueued, ring: ring{max: limits.RingBytes}, follow: follow{moved: make(chan struct{}, 1)}}
	s.w.stream, s.w.mu = s, make(gate, 1)
	return s
}

// Run is the id of the run.
func (s *Stream) Run() string { return s.run }

// Describe says what hello tells of the run from now on: the name of its profile and, once it is known, of its driver.
func (s *Stream) Describe(profile, driver string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.profile, s.driver = profile, driver
}

// Publish publishes a frame that is neither output nor the end: queued, started, progress, violation, egress, approval
// or display. Output that was written before goes out before it. f.Run is set here.
//
// The state in hello follows from it: an approval frame whose State is "pending" makes the run pending, another one or
// queued makes it queued, started makes it running. A late viewer is told the last frame of each kind and the last 64
// of display; frames of egress are only in memory for a while, and in the audit trail.
func (s *Stream) Publish(f api.Frame) {
	switch f.Type {
	case api.FrameQueued, api.FrameStarted, api.FrameProgress, api.FrameViolation, api.FrameEgress, api.FrameApproval,
		api.FrameDisplay:
	default:
		s.broker.config.Logger.Error("frame is not one to be published", logkey.Run, s.run, "type", f.Type)
		return
	}
	f.Run = s.run
	frame := encode(f)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.w.ended {
		return
	}
	s.w.flushBoth(false)

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.Type == api.FrameStarted:
		s.state = stateRunning
	case s.state == stateRunning:
	case f.Type == api.FrameApproval && f.State == statePending:
		s.state = statePending
	case f.Type == api.FrameApproval, f.Type == api.FrameQueued:
		s.state = stateQueued
	}
	s.kept.put(keptFrame{kind: f.Type, number: s.ring.end(), log: s.log.length(), frame: frame})
	s.push(entry{frame: frame})
}

// End publishes the exit frame. Whatever comes after it is dropped, another End too.
func (s *Stream) End(outcome api.Outcome) {
	frame := encode(api.Frame{Type: api.FrameExit, Run: s.run, Outcome: &outcome})
	s.w.mu.Lock()
	if s.w.ended {
		s.w.mu.Unlock()
		return
	}
	s.w.end()
	s.mu.Lock()
	s.state, s.exit = stateEnded, frame
	var err error
	if s.ring.start == [channels]int64{} { // memory has all output: nobody will look into the log
		err = s.log.close()
	}
	s.broker.stats.frames.Add(1)
	s.waiting.wake()
	s.mu.Unlock()
	s.w.mu.Unlock()
	if err != nil {
		s.broker.warn("close log of output", s.run, err)
	}
	s.broker.retire(s)
}

// push publishes an entry. mu is held.
func (s *Stream) push(e entry) {
	e.log = s.log.length()
	s.ring.push(e)
	s.ring.trim(s.spare)
	s.broker.stats.frames.Add(1)
	s.waiting.wake()
}

// memory is about what a stream holds.
func (s *Stream) memory() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.ring.bytes + len(s.exit)
	for c := range s.tails {
		n += cap(s.tails[c].kept)
	}
	for _, f := range s.kept {
		n += len(f.frame)
	}
	return int64(n)
}

// shut ends the viewers of a stream without an exit frame.
func (s *Stream) shut() error {
	s.mu.Lock()
	s.follow.drop() // or the writer would keep its lock
	s.mu.Unlock()
	s.w.mu.Lock()
	s.w.end()
	s.w.mu.Unlock()
	s.mu.Lock()
	s.shutErr = ErrClosed
	s.waiting.wake()
	s.mu.Unlock()
	return s.forget()
}

// forget says that the broker has no use for the stream any more: when its last viewer leaves, its log is closed.
func (s *Stream) forget() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	return s.release()
}

// release closes the log if nobody can read it any more. mu is held.
func (s *Stream) release() error {
	if s.gone && s.viewers == 0 {
		return s.log.close()
	}
	return nil
}
