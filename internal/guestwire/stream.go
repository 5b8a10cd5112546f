package guestwire

import (
	"bytes"
	"encoding/binary"
	"io"
	"sync"
)

// stream is a stream at one of its ends. What is below is guarded by its Conn's mutex.
type stream struct {
	conn    *Conn
	id      Stream
	changed *sync.Cond

	arriving bytes.Buffer // received and not read: Window bytes at most
	read     int          // and not yet granted anew
	over     bool         // its end has come, or was sent
	credit   int          // bytes that may be sent
}

// arrived is called with the next bytes of the peer's.
func (s *stream) arrived(b []byte) error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	switch {
	case s.id.sender() == s.conn.side:
		return protocolError("bytes on stream %d, which is not the peer's", s.id)
	case s.over:
		return protocolError("bytes on stream %d after its end", s.id)
	case s.arriving.Len()+s.read+len(b) > Window:
		return protocolError("more bytes on stream %d than it may have under way", s.id)
	}
	s.over = len(b) == 0
	s.arriving.Write(b)
	s.changed.Broadcast()
	return nil
}

// granted is called when the peer has read.
func (s *stream) granted(b []byte) error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.id.sender() != s.conn.side || len(b) != 4 {
		return protocolError("a grant about stream %d", s.id)
	}
	n := binary.BigEndian.Uint32(b)
	if n > uint32(Window-s.credit) {
		return protocolError("a grant of %d bytes on stream %d, of which %d are under way", n, s.id, Window-s.credit)
	}
	s.credit += int(n)
	s.changed.Broadcast()
	return nil
}

type reader struct{ s *stream }

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) {
	s := r.s
	s.conn.mu.Lock()
	for s.arriving.Len() == 0 && !s.over && s.conn.ended == nil {
		s.changed.Wait()
	}
	if s.arriving.Len() == 0 {
		defer s.conn.mu.Unlock()
		if s.over {
			return 0, io.EOF
		}
		return 0, s.conn.ended
	}
	n, _ := s.arriving.Read(p)
	s.read += n
	grant := 0
	if s.read >= Window/4 && !s.over && s.conn.ended == nil { // or the peer would hear of every byte
		grant, s.read = s.read, 0
	}
	s.conn.mu.Unlock()
	if grant > 0 {
		_ = s.grant(grant) // a peer that is gone is told by Run
	}
	return n, nil
}

type writer struct{ s *stream }

// Write implements io.Writer. It waits until the peer has read enough.
func (w writer) Write(p []byte) (done int, err error) {
	for len(p) > 0 {
		n, err := w.s.take(len(p))
		if err != nil {
			return done, err
		}
		if err := w.s.conn.write(data, []byte{byte(w.s.id)}, p[:n]); err != nil {
			return done, err
		}
		p, done = p[n:], done+n
	}
	return done, nil
}

// take waits until some of n bytes may be sent, and says how many.
func (s *stream) take(n int) (int, error) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	for s.credit == 0 && s.conn.ended == nil && !s.over {
		s.changed.Wait()
	}
	switch {
	case s.over:
		return 0, io.ErrClosedPipe
	case s.conn.ended != nil:
		return 0, s.conn.ended
	}
	n = min(n, s.credit, MaxPayload-1)
	s.credit -= n
	return n, nil
}

// Close implements io.Closer.
func (w writer) Close() error {
	s := w.s
	s.conn.mu.Lock()
	over := s.over || s.conn.ended != nil
	s.over = true
	s.conn.mu.Unlock()
	if over {
		return nil
	}
	return s.conn.write(data, []byte{byte(s.id)})
}
