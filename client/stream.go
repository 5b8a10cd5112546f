package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/silk-sandbox/silk/api"
)

// ErrUnknown is what a [Stream] ends with that was cut off and could not be resumed: how the run ended, or whether it has, is
// not known. It is never a success.
var ErrUnknown = errors.New("how the run ended is unknown")

const (
	handshakeTimeout = 15 * time.Second
	writeTimeout     = 20 * time.Second
	silence          = time.Minute // a server sends a ping every 15 s: after four that did not come the connection is dead
	maxFrameBytes    = 32 << 20    // of one message; the largest is an exit frame with the names of 1,000 artifacts
)

// Cursor is where a stream begins: how many bytes of each channel the viewer has.
type Cursor struct {
	Stdout, Stderr int64
	Tail           bool // begin with the last 4 KiB of each channel instead, and ignore the offsets
}

// socket is the WebSocket of a stream, one connection of several.
type socket interface {
	Read(ctx context.Context) (websocket.MessageType, []byte, error)
	Write(ctx context.Context, kind websocket.MessageType, p []byte) error
	CloseNow() error
}

// Stream follows one run. [Stream.Frames] is for one goroutine and may be called once; the other methods are safe for concurrent
// use. It has no goroutines of its own: who does not range over Frames receives nothing and cannot send.
type Stream struct {
	run      string
	from     Cursor
	patience time.Duration
	dial     func(context.Context, Cursor) (socket, error)
	outcome  func(context.Context) (*api.Outcome, error) // asks for the run; nil without an error: it has not ended
	follows  bool                                        // the program waits for us, who acknowledge
	used     atomic.Bool

	mu      sync.Mutex
	conn    socket        // nil: there is none at the moment
	changed chan struct{} // closed when conn changes
	ended   bool
}

// Watch makes a stream of the frames of a run from a cursor on; the zero one is the begin of its output. It connects when Frames is
// ranged over.
func (c *Client) Watch(run string, from Cursor) *Stream { return c.stream(run, from, "") }

// Follow is Watch for a caller that must not lose anything, however slowly it takes the frames: the program waits for it, as for
// the reader of a pipe, while more waits than the server keeps. Only one can; key, a word of up to 64 letters and digits, says
// which: that of [Client.SubmitFollowed], or another if nobody follows yet. Hello says in Followed whether it is so. A follower
// that takes nothing for half a minute, or whose connection is lost for ten seconds, is not waited for any more and gets gaps.
// Only who may end the run may follow it.
func (c *Client) Follow(run string, from Cursor, key string) *Stream { return c.stream(run, from, key) }

func (c *Client) stream(run string, from Cursor, follow string) *Stream {
	return &Stream{
		run: run, from: from, patience: c.patience, changed: make(chan struct{}), follows: follow != "",
		dial: func(ctx context.Context, at Cursor) (socket, error) {
			return c.dial(ctx, runPath(run, "/stream"), streamQuery(at, follow))
		},
		outcome: func(ctx context.Context) (*api.Outcome, error) {
			r, err := c.Run(ctx, run)
			return r.Outcome, err
		},
	}
}

// Wait watches a run until it has ended, and says how.
func (c *Client) Wait(ctx context.Context, run string) (api.Outcome, error) {
	for f, err := range c.Watch(run, Cursor{Tail: true}).Frames(ctx) {
		if err != nil {
			return api.Outcome{}, err
		}
		if f.Type == api.FrameExit {
			return *f.Outcome, nil
		}
	}
	return api.Outcome{}, ErrUnknown // a stream ends with an exit frame or an error
}

// streamQuery says where a stream begins.
func streamQuery(at Cursor, follow string) url.Values {
	q := url.Values{}
	if !at.Tail {
		q = url.Values{"stdout": {strconv.FormatInt(at.Stdout, 10)}, "stderr": {strconv.FormatInt(at.Stderr, 10)}}
	}
	if follow != "" {
		q.Set("follow", follow)
	}
	return q
}

// dial opens the WebSocket of a stream.
func (c *Client) dial(ctx context.Context, path string, query url.Values) (socket, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	header := http.Header{}
	c.authorize(header)
	conn, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		HTTPClient: c.http, HTTPHeader: header, Subprotocols: []string{api.Subprotocol}, CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err != nil && resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, problemOf(resp) // the library has read what it holds of the body, and closed it
	case err != nil:
		return nil, fmt.Errorf("connect to the stream: %w", err)
	}
	if conn.Subprotocol() != api.Subprotocol {
		conn.CloseNow()
		return nil, &protocolError{"the server does not speak " + api.Subprotocol}
	}
	conn.SetReadLimit(maxFrameBytes)
	return conn, nil
}

// Frames gives the frames of the run as they come: the first hello, then what changes, then the exit frame, which is the last
// pair. It connects again, from where it was, whenever the connection is lost, with growing waits. What it gives then is what was
// missing: no byte of output twice, and a gap frame for those that are not to be had any more, the last ones before the exit
// frame included. Pings are not given.
//
// An error is the last pair as well: an [*api.Problem] that no further attempt will change (401, 403, 404, ...), the cause of
// ctx, or ErrUnknown with what is known. A slow caller slows the server down, which closes a connection that takes nothing for
// 20 seconds; it is resumed like any other. Memory is bounded by one frame.
func (s *Stream) Frames(ctx context.Context) iter.Seq2[api.Frame, error] {
	return func(yield func(api.Frame, error) bool) {
		if s.used.Swap(true) {
			yield(api.Frame{}, errors.New("watch a run: Frames was called before"))
			return
		}
		defer s.put(nil, true)
		f := follower{run: s.run, at: s.from}
		err := persist(ctx, s.patience, func(ctx context.Context) (attempt, error) {
			c := connection{stream: s, follower: &f, yield: yield}
			err := c.serve(ctx)
			return c.attempt, err
		})
		if err != nil {
			yield(api.Frame{}, err)
		}
	}
}

// attempt is what came of one connection.
type attempt struct {
	heard    bool // the server said something
	progress bool // and something new
	ended    bool // all was given, or the caller wants no more
}

// persist makes connections, one after the other with growing waits, until one has brought all, or an error that no further
// attempt changes, or there was none for as long as patience.
func persist(ctx context.Context, patience time.Duration, connect func(context.Context) (attempt, error)) error {
	var b backoff
	for heard := time.Now(); ; {
		a, err := connect(ctx)
		switch {
		case a.ended:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case final(err):
			return finalError(err)
		}
		if a.heard {
			heard = time.Now()
		}
		if a.progress {
			b = backoff{}
		}
		if left := patience - time.Since(heard); left <= 0 {
			return fmt.Errorf("%w: there was no connection for %v: %w", ErrUnknown, time.Since(heard).Round(time.Second), err)
		}
		if err := b.wait(ctx, err); err != nil {
			return err
		}
	}
}

// connection is what comes over one WebSocket.
type connection struct {
	attempt

	stream   *Stream
	follower *follower
	yield    func(api.Frame, error) bool
}

// serve connects and gives frames until the connection ends. The error is why it did.
func (c *connection) serve(ctx context.Context) error {
	s := c.stream
	at := c.follower.at
	conn, err := s.dial(ctx, at)
	if err != nil {
		return c.beyond(ctx, err)
	}
	defer conn.CloseNow()
	s.put(conn, false)
	defer s.put(nil, false)
	c.follower.fresh = true
	acks := acks{at: at, last: time.Now()}
	for {
		text, err := read(ctx, conn)
		if err != nil {
			return err
		}
		c.heard = true
		frames, err := c.follower.take(text)
		if err != nil {
			return err
		}
		for _, f := range frames {
			c.progress = c.progress || f.Type != api.FrameHello
			if !c.yield(f, nil) || f.Type == api.FrameExit {
				c.ended = true
				return nil
			}
		}
		if s.follows && acks.due(c.follower.at, len(text)) {
			if err := acks.send(ctx, conn); err != nil {
				return err
			}
		}
	}
}

const (
	ackBytes = 64 << 10    // of messages between two acks: well below what a server keeps for a follower
	ackAfter = time.Second // or so much time: a caller that is slow lives
)

// acks says what of a connection was acknowledged, and when that is to be done again.
type acks struct {
	at    Cursor
	bytes int // of messages since
	last  time.Time
}

// due says whether to acknowledge what has come to at, with a message of so many bytes.
func (a *acks) due(at Cursor, bytes int) bool {
	a.bytes += bytes
	if at == a.at || a.bytes < ackBytes && time.Since(a.last) < ackAfter {
		return false
	}
	a.at, a.bytes, a.last = at, 0, time.Now()
	return true
}

func (a *acks) send(ctx context.Context, conn socket) error {
	text, err := json.Marshal(api.Command{Type: "ack", Stdout: a.at.Stdout, Stderr: a.at.Stderr})
	if err != nil {
		return fmt.Errorf("encode ack: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := conn.Write(ctx, websocket.MessageText, text); err != nil {
		return fmt.Errorf("acknowledge output: %w", err)
	}
	return nil
}

// read waits for one message, as long as a server that lives may be silent.
func read(ctx context.Context, conn socket) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	kind, text, err := conn.Read(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the stream: %w", err)
	case kind != websocket.MessageText:
		return nil, &protocolError{"the server sent a message that is no text"}
	}
	return text, nil
}

// beyond is for a server that has less output than the viewer: it was ended in the middle of the run, and kept what had come to its
// disk. The run has ended then, and the viewer has all that there is.
func (c *connection) beyond(ctx context.Context, err error) error {
	var p *api.Problem
	if !errors.As(err, &p) || p.Status != http.StatusRequestedRangeNotSatisfiable || !c.follower.greeted {
		return err
	}
	out, asked := c.stream.outcome(ctx)
	if asked != nil {
		return asked
	}
	if out == nil {
		return err
	}
	c.yield(api.Frame{Type: api.FrameExit, Run: c.stream.run, Outcome: out}, nil)
	c.ended = true
	return nil
}

// protocolError says that what the server sent is no silk.v1, which asking again does not change.
type protocolError struct{ text string }

func (e *protocolError) Error() string { return e.text }

// final says whether err stays what it is however often it is tried.
func final(err error) bool {
	var p *api.Problem
	if errors.As(err, &p) {
		switch p.Status {
		case http.StatusConflict, // between its stream and its record
			http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return false
		}
		return p.Status < 500
	}
	switch websocket.CloseStatus(err) {
	case websocket.StatusProtocolError, websocket.StatusUnsupportedData, websocket.StatusInvalidFramePayloadData, websocket.StatusPolicyViolation, websocket.StatusMessageTooBig:
		return true
	}
	return errors.As(err, new(*protocolError)) || errors.Is(err, websocket.ErrMessageTooBig)
}

// finalError is a problem as it is, and anything else with the word for what it means.
func finalError(err error) error {
	if errors.As(err, new(*api.Problem)) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// put makes conn the connection that Send writes to.
func (s *Stream) put(conn socket, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.ended = conn, s.ended || ended
	close(s.changed)
	s.changed = make(chan struct{})
}

// Send sends a command - stdin, stdin_end, resize or cancel - on the stream's connection, and waits for one if there is none at
// the moment. It is sent once at most: after an error it may have arrived or not, and nil says only that it was sent. Who must
// know uses [Client.Input], [Client.Resize] and [Client.Cancel]. After the end of the stream it returns io.ErrClosedPipe.
func (s *Stream) Send(ctx context.Context, cmd api.Command) error {
	text, err := json.Marshal(cmd)
	if err != nil {
		return fmt.Errorf("encode command: %w", err)
	}
	for {
		s.mu.Lock()
		conn, changed, ended := s.conn, s.changed, s.ended
		s.mu.Unlock()
		if ended {
			return io.ErrClosedPipe
		}
		if conn != nil {
			ctx, cancel := context.WithTimeout(ctx, writeTimeout)
			defer cancel()
			if err := conn.Write(ctx, websocket.MessageText, text); err != nil {
				return fmt.Errorf("send %s: %w", cmd.Type, err)
			}
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
