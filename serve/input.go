package serve

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/queue"
)

// inputBytes bounds what a client may send ahead of a program that does not read.
const inputBytes = 1 << 20

// Why a piece of input is refused as a whole, besides what ErrState says. Both are ErrState, and come in an [*InputError].
var (
	ErrInputFull   = fmt.Errorf("%w: the program has not read the %d bytes of input before these", ErrState, inputBytes)
	ErrInputOffset = fmt.Errorf("%w: the piece is not the next one of its input", ErrState)
)

// InputError says that a piece of input was refused, of which nothing was taken, and where the next piece begins.
type InputError struct {
	Offset int64 // bytes of input that the run has got
	Reason error
}

func (e *InputError) Error() string { return fmt.Sprintf("%v; it has %d bytes", e.Reason, e.Offset) }
func (e *InputError) Unwrap() error { return e.Reason }

// Input hands a piece of input to a run that was asked for with an open one, and says where the next one begins. Before the run
// starts it waits there. When the program has not read a mebibyte that came before, it is ErrInputFull. A piece with an offset
// can be sent again by a client that got no answer: what was taken is not taken twice. Where it is neither the next piece nor one
// of those taken last, it is ErrInputOffset.
func (s *Server) Input(ctx context.Context, id auth.Identity, runID string, in api.Input) (next int64, err error) {
	return s.input(ctx, id, runID, in, false)
}

// InputWaits is Input for callers that wait until the program has read.
func (s *Server) InputWaits(ctx context.Context, id auth.Identity, runID string, in api.Input) (next int64, err error) {
	return s.input(ctx, id, runID, in, true)
}

func (s *Server) input(ctx context.Context, id auth.Identity, runID string, in api.Input, wait bool) (int64, error) {
	e, err := s.controlled(ctx, id, runID)
	if err != nil {
		return 0, err
	}
	l, ok := s.lookup(runID)
	if err := s.elsewhere(e); !ok && e.State != queue.Ended && err != nil {
		return 0, err
	}
	if !ok || e.State == queue.Ended {
		return 0, fmt.Errorf("%w: it has ended", ErrState)
	}
	if !l.open {
		return 0, fmt.Errorf("%w: its input came with the request (stdin_open was not set)", ErrState)
	}
	if s.holding.Load() { // input waits in memory, and this server will not be there when the run starts
		return 0, fmt.Errorf("%w: this server runs nothing (it has the role api alone); send input when the run has started", ErrState)
	}
	p := piece{data: []byte(in.Data), offset: in.Offset, end: in.End}
	if in.B64 != "" && in.Data != "" {
		return 0, &InvalidError{[]Fault{{"body.b64", "data is given too; leave one of them out"}}}
	}
	if in.Offset != nil && *in.Offset < 0 {
		return 0, &InvalidError{[]Fault{{"body.offset", "it is below 0"}}}
	}
	if in.B64 != "" {
		if p.data, err = base64.StdEncoding.DecodeString(in.B64); err != nil {
			return 0, &InvalidError{[]Fault{{"body.b64", "it is not standard base64: " + err.Error()}}}
		}
	}
	return l.input.write(ctx, p, wait)
}

// piece is what a client sends at once.
type piece struct {
	data   []byte
	offset *int64 // where it begins, as the client knows; nil: wherever it comes
	end    bool   // nothing follows
}

// keptPieces is how many of the last pieces are known again.
const keptPieces = 64

// taken is a piece with an offset that was taken.
type taken struct {
	offset int64
	bytes  int
	sum    [sha256.Size]byte
}

// input is a program's input on its way from clients, of which there may be several, in the order of arrival. Reading blocks
// until there is some; writing does if the writer wants to wait for room.
type input struct {
	mu     sync.Mutex
	change *sync.Cond
	data   []byte
	total  int64   // bytes that came
	last   []taken // oldest first
	ended  bool
}

func newInput() *input {
	in := &input{}
	in.change = sync.NewCond(&in.mu)
	return in
}

// write takes a piece as a whole, or refuses it, and says where the next one begins.
func (in *input) write(ctx context.Context, p piece, wait bool) (int64, error) {
	defer context.AfterFunc(ctx, func() {
		in.mu.Lock() // or a Wait that begins just now would not hear it
		defer in.mu.Unlock()
		in.change.Broadcast()
	})()
	var known taken
	if p.offset != nil {
		known = taken{*p.offset, len(p.data), sha256.Sum256(p.data)}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	again := func() bool { return p.offset != nil && slices.Contains(in.last, known) }
	next := func() bool { return p.offset == nil || *p.offset == in.total }
	for in.full(p) && wait && !in.ended && ctx.Err() == nil && next() && !again() {
		in.change.Wait()
	}
	refused := func(reason error) (int64, error) { return in.total, &InputError{in.total, reason} }
	switch {
	case again(): // its answer got lost
	case !next():
		return refused(ErrInputOffset)
	case len(p.data) == 0:
	case in.ended:
		return refused(fmt.Errorf("%w: its input has ended", ErrState))
	case ctx.Err() != nil:
		return in.total, ctx.Err()
	case in.full(p):
		return refused(ErrInputFull)
	default:
		in.data = append(in.data, p.data...)
		in.total += int64(len(p.data))
		if p.offset != nil {
			if len(in.last) == keptPieces {
				in.last = slices.Delete(in.last, 0, 1)
			}
			in.last = append(in.last, known)
		}
	}
	in.ended = in.ended || p.end
	in.change.Broadcast()
	return in.total, nil
}

// full says whether a piece has no room. One that is alone always has.
func (in *input) full(p piece) bool { return len(in.data) > 0 && len(in.data)+len(p.data) > inputBytes }

// end lets the program see the end of its input, once it has read what came before.
func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.change.Broadcast()
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.data) == 0 && !in.ended {
		in.change.Wait()
	}
	if len(in.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, in.data)
	in.data = in.data[n:]
	if len(in.data) == 0 {
		in.data = nil
	}
	in.change.Broadcast() // for a write that waits
	return n, nil
}
