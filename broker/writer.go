package broker

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/internal/logkey"
)

const (
	frameBytes = 32 << 10              // payload of a frame at most
	partWait   = 50 * time.Millisecond // how long an unfinished line is held back at most

	// eagerFrames is how many frames a run has before whole lines wait like unfinished ones: a program that prints ten
	// million empty lines would otherwise make ten million frames, and a log many times as long as its output.
	eagerFrames = 1 << 18
)

// writer cuts what a program writes into frames.
type writer struct {
	stream *Stream

	mu         gate
	parts      [channels]part
	stamp      stamp // of the last published frame
	frames     int
	timer      *time.Timer // nil: never needed
	armed      bool
	ended      bool
	log        *log // the same as stream.log
	logStopped bool
	record     []byte // buffer for the log
}

// gate is a mutex that may be held for long, while a follower is waited for. It is a channel, since the clock of synctest stands
// still while anybody waits for a mutex.
type gate chan struct{}

func (g gate) Lock()   { g <- struct{}{} }
func (g gate) Unlock() { <-g }

// part is what was written to a channel and not published yet: the begin of a line, or of a rune.
type part struct {
	held []byte
	from int64 // offset of the first held byte, or of the next one to come
	at   stamp // of the last piece that was written
}

// Output publishes a piece of one channel ("stdout" or "stderr") that begins at offset. It copies data. Whole lines go
// out at once, the begin of a line after 50 ms at most, together with what follows until then; a long piece becomes
// several frames of 32 KiB at most, which do not cut a rune in two. After a quarter of a million frames whole lines
// wait for as long.
//
// seq is common to both channels and grows; at is the time since the start of the program. Frames have those of the
// last byte in them, or of the frame before if that is later. Bytes that were there already are dropped; where bytes
// are missing, viewers get a gap frame.
func (s *Stream) Output(name string, offset int64, seq uint64, at time.Duration, data []byte) {
	c, ok := parseChannel(name)
	if !ok {
		s.broker.config.Logger.Error("output of an unknown channel", logkey.Run, s.run, "channel", name)
		return
	}
	w := &s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	p := &w.parts[c]
	switch end := p.from + int64(len(p.held)); {
	case offset < end:
		data = data[min(end-offset, int64(len(data))):]
	case offset > end:
		w.flush(c, true)
		p.from = offset
	}
	if len(data) == 0 {
		return
	}
	p.at = stamp{seq, at}
	w.take(c, data)
	if len(w.parts[stdout].held)+len(w.parts[stderr].held) > 0 && !w.armed {
		w.armed = true
		if w.timer == nil {
			w.timer = time.AfterFunc(partWait, w.timeout)
		} else {
			w.timer.Reset(partWait)
		}
	}
}

// take publishes whole lines and whole frames of what is held and data together, and holds the rest.
func (w *writer) take(c channel, data []byte) {
	p := &w.parts[c]
	ready := 0
	if w.frames < eagerFrames {
		if i := bytes.LastIndexByte(data, '\n'); i >= 0 {
			ready = len(p.held) + i + 1
		}
	}
	if total := len(p.held) + len(data); total-ready >= frameBytes {
		ready = total - (total-ready)%frameBytes
	}
	if ready > 0 {
		w.flush(1-c, false) // it was written before
	}
	for ready > 0 {
		held, piece := len(p.held), data
		if held > 0 {
			p.held = append(p.held, data[:min(max(0, frameBytes-held), len(data))]...)
			piece = p.held
		}
		n, rest := cut(piece, ready)
		w.publish(c, piece[:n])
		if ready = rest; n >= held {
			data, p.held = data[n-held:], p.held[:0]
		} else {
			p.held = append(p.held[:0], p.held[n:held]...)
		}
	}
	p.held = append(p.held, data...)
	if len(p.held) == 0 && cap(p.held) > 4<<10 {
		p.held = nil
	}
}

// cut says how many of the first ready bytes of p go into one frame, and how many remain for the next ones. It cuts
// after a line if one ends in the second half of the frame, else between two runes; an unfinished rune at the end of
// what is ready is left over.
func cut(p []byte, ready int) (n, rest int) {
	n = min(ready, frameBytes, len(p))
	switch {
	case p[n-1] == '\n':
	case n == ready:
		return n - unfinished(p[:n]), 0
	default:
		if i := bytes.LastIndexByte(p[n/2:n], '\n'); i >= 0 {
			n = n/2 + i + 1
		} else {
			n -= unfinished(p[:n])
		}
	}
	return n, ready - n
}

// unfinished is the length of the begin of a rune at the end of p: 3 at most, 0 if p ends in anything else.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if last := p[len(p)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// flush publishes what is held of a channel; only if all is set also an unfinished rune at its end.
func (w *writer) flush(c channel, all bool) {
	p := &w.parts[c]
	n := len(p.held)
	if !all {
		n -= unfinished(p.held)
	}
	if n > 0 {
		w.publish(c, p.held[:n])
		p.held = append(p.held[:0], p.held[n:]...)
	}
}

// flushBoth publishes what is held of both channels, but for unfinished runes, in the order in which it was written.
func (w *writer) flushBoth(all bool) {
	first := stdout
	if w.parts[stderr].at.seq < w.parts[stdout].at.seq {
		first = stderr
	}
	w.flush(first, all)
	w.flush(1-first, all)
}

func (w *writer) timeout() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	if !w.ended {
		w.flushBoth(true)
	}
}

// end publishes what is held. Nothing is published after it.
func (w *writer) end() {
	if w.ended {
		return
	}
	w.flushBoth(true)
	w.ended, w.record = true, nil
	w.parts = [channels]part{}
	if w.timer != nil {
		w.timer.Stop()
	}
}

// publish makes a frame of p, the next bytes of a channel: into the log first, so that no viewer has seen what a crash
// loses.
func (w *writer) publish(c channel, p []byte) {
	s, part := w.stream, &w.parts[c]
	w.frames++
	w.stamp = w.stamp.later(part.at)
	from := part.from
	part.from += int64(len(p))
	frame := encodeOutput(s.run, c, w.stamp, from, p)
	w.keep(c, from, p)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.room()
	s.tails[c].write(p, from)
	s.broker.stats.bytes.Add(int64(len(p)))
	s.push(entry{frame: frame, output: true, channel: c, from: from, to: part.from, stamp: w.stamp})
}
