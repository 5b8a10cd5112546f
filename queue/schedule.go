package queue

import (
	"math"
	"slices"
)

// schedule decides which run starts next. It is pure: no clock, no I/O, not safe for concurrent use.
//
// It has a line of waiting runs for each token, and a ring of the lines that have some. A run comes out in three steps:
// ask names a line whose turn it is, hold says what the stream gave for it, start takes a held run that fits.
type schedule struct {
	room  room
	total room             // what room was when nothing ran
	turns int              // starts so far
	lines map[string]*line // of every token that was heard of
	ring  []*line          // the lines with something that waits; the first, whose last turn is longest ago, is next
	first *held            // everything else waits until this one has room
}

// room is what the host has left.
type room struct {
	slots       int
	memoryBytes int64
	milliCPUs   int64 // thousandths, because sums of fractions drift
}

// unbounded is more of anything than runs can ask for together.
const unbounded = 1 << 60

// maxPassed is how many runs may start before a held one that does not fit, see the package comment.
const maxPassed = 16

// line is what is known of one token.
type line struct {
	token   string
	turn    int       // when it had its last one; 0: never
	limit   int       // runs at once
	runs    []waiting // a held one included, in the order in which they are expected
	active  int       // started and not finished
	held    *held
	changes int  // counts what may make the stream give more
	dry     bool // the stream gave nothing: do not ask again until changes moves
}

// waiting is a run that waits.
type waiting struct {
	run  string
	sent bool // the stream has it
}

func (l *line) index(run string) int {
	return slices.IndexFunc(l.runs, func(w waiting) bool { return w.run == run })
}

// ready says that the stream should have a run that is not held.
func (l *line) ready() bool {
	return l.held == nil && !l.dry && l.active < l.limit && slices.ContainsFunc(l.runs, func(w waiting) bool { return w.sent })
}

// wet says that asking the stream may be worth while again.
func (l *line) wet() {
	l.dry = false
	l.changes++
}

// held is a run that the stream has handed out and that has not started.
type held struct {
	Delivery
	entry  Entry
	passed int // starts of others while it did not fit
}

func newSchedule(total room) schedule {
	return schedule{room: total, total: total, lines: map[string]*line{}}
}

func (s *schedule) line(token string) *line {
	l := s.lines[token]
	if l == nil {
		l = &line{token: token, limit: 1}
		s.lines[token] = l
	}
	return l
}

// add puts a run at the end of its line, if it is not there. limit is the newest that was heard of the token.
func (s *schedule) add(token, run string, limit int) {
	l := s.line(token)
	l.limit = limit
	if l.index(run) < 0 {
		l.runs = append(l.runs, waiting{run: run})
	}
	s.enter(l)
}

// sent notes that the stream has a run, if it still waits.
func (s *schedule) sent(token, run string) {
	l := s.lines[token]
	if l == nil {
		return
	}
	if i := l.index(run); i >= 0 {
		l.runs[i].sent = true
		l.wet()
	}
}

// refused notes that the stream gave nothing for a line that had so many changes when it was asked.
func (s *schedule) refused(token string, changes int) {
	if l := s.lines[token]; l != nil && l.changes == changes {
		l.dry = true
	}
}

// enter puts a line into the ring: by its last turn, so that a token with many runs is not before one that comes with its
// first, nor one that comes with one run at a time before those who wait.
func (s *schedule) enter(l *line) {
	if slices.Contains(s.ring, l) {
		return
	}
	i := len(s.ring)
	for i > 0 && s.ring[i-1].turn > l.turn {
		i--
	}
	s.ring = slices.Insert(s.ring, i, l)
}

// remove forgets a waiting run, and returns it if it was held.
func (s *schedule) remove(token, run string) *held {
	l := s.lines[token]
	if l == nil {
		return nil
	}
	if i := l.index(run); i >= 0 {
		l.runs = slices.Delete(l.runs, i, i+1)
	}
	var h *held
	if l.held != nil && l.held.entry.Run == run {
		h = l.release(s)
	}
	s.leave(l)
	return h
}

// release takes the held run away from l.
func (l *line) release(s *schedule) *held {
	h := l.held
	l.held = nil
	if s.first == h {
		s.first = nil
	}
	return h
}

// leave takes l out of the ring if nothing waits in it.
func (s *schedule) leave(l *line) {
	if len(l.runs) > 0 || l.held != nil {
		return
	}
	if i := slices.Index(s.ring, l); i >= 0 {
		s.ring = slices.Delete(s.ring, i, i+1)
	}
}

// next says what to do now: start a held run, or ask the stream for one of a line. Neither: wait for a change.
func (s *schedule) next() (start *held, ask *line) {
	if s.room.slots <= 0 {
		return nil, nil
	}
	if s.first != nil {
		if s.fits(s.first.entry.Need) {
			return s.first, nil
		}
		return nil, nil
	}
	for _, l := range s.ring {
		switch {
		case l.held != nil && s.fits(l.held.entry.Need):
			return l.held, nil
		case l.ready():
			return nil, l
		}
	}
	return nil, nil
}

// fits says whether the host has room. What needs more than the whole host fits when nothing else runs.
func (s *schedule) fits(n Need) bool {
	memory, milli := s.clamp(n)
	return s.room.slots > 0 && memory <= s.room.memoryBytes && milli <= s.room.milliCPUs
}

func (s *schedule) clamp(n Need) (memoryBytes, milliCPUs int64) {
	return min(n.MemoryBytes, s.total.memoryBytes), min(int64(math.Ceil(n.CPUs*1000)), s.total.milliCPUs)
}

// take takes what a run needs, once; times -1 gives it back.
func (s *schedule) take(n Need, times int) {
	memory, milli := s.clamp(n)
	s.room.slots -= times
	s.room.memoryBytes -= int64(times) * memory
	s.room.milliCPUs -= int64(times) * milli
}

// hold takes what the stream gave for the line of its token.
func (s *schedule) hold(h *held) {
	l := s.line(h.entry.Token)
	l.held = h
	if l.index(h.entry.Run) < 0 { // accepted by another server
		l.runs = slices.Insert(l.runs, 0, waiting{h.entry.Run, true})
		l.limit = h.entry.MaxRunning
	}
	s.enter(l)
}

// start takes room for a held run. Its line goes to the end of the ring.
func (s *schedule) start(h *held) {
	l := s.lines[h.entry.Token]
	for _, other := range s.ring {
		if o := other.held; o != nil && o != h && !s.fits(o.entry.Need) {
			if o.passed++; o.passed >= maxPassed && (s.first == nil || s.first == h) {
				s.first = o
			}
		}
	}
	s.turns++
	l.active, l.turn = l.active+1, s.turns
	s.take(h.entry.Need, 1)
	if i := slices.Index(s.ring, l); i >= 0 {
		s.ring = append(slices.Delete(s.ring, i, i+1), l)
	}
	s.remove(h.entry.Token, h.entry.Run)
}

// finish gives the room of a started run back.
func (s *schedule) finish(token string, need Need) {
	s.take(need, -1)
	l := s.line(token)
	l.active--
	l.wet()
}

// place is how many runs start before run, itself included, if nothing changes and all fit; 0 if it does not wait. ahead
// counts those of its own token alone.
func (s *schedule) place(token, run string) (place, ahead int) {
	l := s.lines[token]
	if l == nil {
		return 0, 0
	}
	ahead = l.index(run)
	if ahead < 0 {
		return 0, 0
	}
	place = 1 + ahead
	before := 1 // lines before l in the ring have one turn more
	for _, other := range s.ring {
		if other == l {
			before = 0
			continue
		}
		place += min(len(other.runs), ahead+before)
	}
	return place, ahead
}

// depth counts the runs that wait.
func (s *schedule) depth() (n int) {
	for _, l := range s.ring {
		n += len(l.runs)
	}
	return n
}
