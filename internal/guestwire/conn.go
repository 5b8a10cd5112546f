package guestwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Conn is one side's end. Its methods are safe for concurrent use, but Run is called once, and a stream has one reader or writer.
type Conn struct {
	rw   io.ReadWriteCloser
	side Side

	writing sync.Mutex
	out     []byte // under writing

	mu      sync.Mutex
	streams [streams]*stream
	ended   error // why nothing more comes; nil as long as something may
}

// New makes an end on rw, which Close closes.
func New(rw io.ReadWriteCloser, side Side) *Conn {
	c := &Conn{rw: rw, side: side}
	for i := range c.streams {
		s := &stream{conn: c, id: Stream(i), credit: Window}
		s.changed = sync.NewCond(&c.mu)
		c.streams[i] = s
	}
	return c
}

// Run reads what the peer sends until it closes its end, or handle or the peer fails, and returns why. handle gets the messages; what it
// is given is valid until it returns, and no stream goes on before. Afterwards streams that have not ended fail.
func (c *Conn) Run(handle func(kind Kind, payload []byte) error) error {
	buf := make([]byte, MaxPayload)
	for {
		kind, payload, err := readFrame(c.rw, buf)
		if err == nil {
			err = c.take(kind, payload, handle)
		}
		if err != nil {
			c.end(err)
			return err
		}
	}
}

func (c *Conn) take(kind Kind, payload []byte, handle func(Kind, []byte) error) error {
	switch kind {
	case data, credit:
		if len(payload) == 0 || payload[0] >= byte(streams) {
			return protocolError("a frame about no stream")
		}
		s := c.streams[payload[0]]
		if kind == data {
			return s.arrived(payload[1:])
		}
		return s.granted(payload[1:])
	}
	if !kind.mayBe(1 - c.side) {
		return protocolError("a frame of kind %d", kind)
	}
	return handle(kind, payload)
}

// Send sends a message.
func (c *Conn) Send(kind Kind, payload []byte) error {
	if !kind.mayBe(c.side) || len(payload) > MaxPayload {
		panic(fmt.Sprintf("guestwire: side %d sends kind %d with %d bytes", c.side, kind, len(payload)))
	}
	return c.write(kind, payload)
}

func (c *Conn) write(kind Kind, parts ...[]byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.out = appendFrame(c.out[:0], kind, parts...)
	if _, err := c.rw.Write(c.out); err != nil {
		return fmt.Errorf("speak to the peer: %w", err)
	}
	return nil
}

// end lets every stream know that nothing more comes.
func (c *Conn) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return
	}
	if errors.Is(why, io.EOF) {
		why = io.ErrUnexpectedEOF // of a stream that has not had its own
	}
	c.ended = why
	for _, s := range c.streams {
		s.changed.Broadcast()
	}
}

// Close closes what is below. Streams that have not ended fail.
func (c *Conn) Close() error {
	c.end(io.ErrClosedPipe)
	return c.rw.Close()
}

// Reader is the receiving end of a stream of the peer's. io.EOF is its end; what has arrived is read before any error.
func (c *Conn) Reader(s Stream) io.Reader {
	if s.sender() == c.side {
		panic(fmt.Sprintf("guestwire: stream %d is read by its sender", s))
	}
	return reader{c.streams[s]}
}

// Writer is the sending end of a stream of this side's. Close ends the stream; it does not wait for the peer.
func (c *Conn) Writer(s Stream) io.WriteCloser {
	if s.sender() != c.side {
		panic(fmt.Sprintf("guestwire: stream %d is written to by its receiver", s))
	}
	return writer{c.streams[s]}
}

// grant lets the peer send n bytes more.
func (s *stream) grant(n int) error {
	return s.conn.write(credit, []byte{byte(s.id)}, binary.BigEndian.AppendUint32(nil, uint32(n)))
}
