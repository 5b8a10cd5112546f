package broker

import (
	"errors"
	"math"
	"sync"
)

// readBytes holds the longest record, or some hundred short ones, which become one frame.
const readBytes = headerBytes + frameBytes + 4<<10

var readBuffers = sync.Pool{New: func() any { return new([readBytes]byte) }}

// catchUp brings the viewer to the begin of the ring: from the log what is there, else from the tail, and a gap for the
// rest. ok is false if it is there already. The lock of the stream is held.
func (v *Viewer) catchUp() (frame []byte, _ need, ok bool) {
	s := v.stream
	inLog := false
	for c := range v.off {
		inLog = inLog || !v.noLog && v.off[c] < min(s.ring.start[c], s.log.end(channel(c)))
	}
	if inLog {
		v.logAt = max(v.logAt, s.log.find(v.off))
		inLog = v.logAt < s.ring.log // as it must be
	}
	at := int64(math.MaxInt64)
	if inLog {
		at = v.logAt
	}
	if f, found := s.kept.after(v.news); found && f.number < s.ring.first && f.log <= at {
		v.news = f.number + 1
		return f.frame, again, true
	}
	if inLog {
		return nil, logRead, true
	}
	for c := range v.off {
		t := &s.tails[c]
		switch start := s.ring.start[c]; {
		case v.off[c] >= start:
		case v.off[c] < t.from():
			return v.gap(channel(c), min(t.from(), start)), again, true
		default:
			p := t.since(v.off[c])
			p = p[:start-v.off[c]]
			v.stamp = v.stamp.later(s.ring.before[c])
			frame := encodeOutput(s.run, channel(c), v.stamp, v.off[c], p)
			v.off[c] = start
			return frame, again, true
		}
	}
	v.next = max(v.next, s.ring.first)
	v.news = max(v.news, s.ring.first)
	return nil, again, false
}

// readLog returns the next frame from the log, or nil if it has come nearer to it. Records of one channel that follow
// each other are joined.
func (v *Viewer) readLog() []byte {
	s := v.stream
	s.mu.RLock()
	file, stop := s.log.file, s.ring.log // what lies beyond is in the ring, and perhaps with it what the log has not
	if f, ok := s.kept.after(v.news); ok && f.log > v.logAt {
		stop = min(stop, f.log)
	}
	s.mu.RUnlock()
	off, pos := v.off, v.logAt

	buffer := readBuffers.Get().(*[readBytes]byte)
	defer readBuffers.Put(buffer)
	n, err := file.ReadAt(buffer[:], pos)
	b := buffer[:n]
	var (
		c     channel
		at    stamp
		first int64
		p     []byte
		gapTo int64 = -1
	)
	for pos < stop {
		r, size, parseErr := parseRecord(b)
		if parseErr != nil {
			if pos == v.logAt {
				v.lostLog(parseErr, err)
				return nil
			}
			break
		}
		from, to := r.Offset, r.Offset+int64(len(r.Data))
		if to > off[r.channel] {
			if p != nil && (r.channel != c || from != off[c] || len(p)+len(r.Data) > frameBytes) {
				break
			}
			if from > off[r.channel] {
				c, gapTo = r.channel, from
				break
			}
			if p == nil {
				c, first, p = r.channel, off[r.channel], buffer[:0]
			}
			p = append(p, r.Data[off[c]-from:]...) // to the left of where it lies
			off[c], at = to, at.later(r.stamp())
		}
		b, pos = b[size:], pos+int64(size)
	}
	v.logAt, v.off = pos, off
	switch {
	case p != nil:
		v.stamp = v.stamp.later(at)
		return encodeOutput(s.run, c, v.stamp, first, p)
	case gapTo >= 0:
		return v.gap(c, gapTo)
	}
	return nil
}

// lostLog gives up a log that cannot be read; gap frames say what the viewer misses.
func (v *Viewer) lostLog(faults ...error) {
	v.noLog = true
	s := v.stream
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !v.closed { // else the file was closed under it
		s.broker.stats.logFaults.Add(1)
		s.broker.warn("read log of output", s.run, errors.Join(faults...))
	}
}
