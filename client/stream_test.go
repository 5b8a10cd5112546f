package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/silk-sandbox/silk/api"
)

// script is one connection: messages, then an error, or silence for ever if there is none.
type script struct {
	frames []api.Frame
	err    error

	sent   [][]byte
	broken error // of writing
	closed bool
}

func (s *script) Read(ctx context.Context) (websocket.MessageType, []byte, error) {
	if len(s.frames) > 0 {
		f := s.frames[0]
		s.frames = s.frames[1:]
		return websocket.MessageText, mustEncode(f), nil
	}
	if s.err != nil {
		return 0, nil, s.err
	}
	<-ctx.Done()
	return 0, nil, context.Cause(ctx)
}

func (s *script) Write(_ context.Context, _ websocket.MessageType, p []byte) error {
	s.sent = append(s.sent, bytes.Clone(p))
	return s.broken
}

func (s *script) CloseNow() error { s.closed = true; return nil }

func mustEncode(f api.Frame) []byte {
	text, err := encode(f)
	if err != nil {
		panic(err)
	}
	return text
}

// streamOf makes a stream whose connections are made by dial.
func streamOf(dial func(context.Context, Cursor) (socket, error)) *Stream {
	return &Stream{
		run: testRun, patience: defaultPatience, changed: make(chan struct{}), dial: dial,
		outcome: func(context.Context) (*api.Outcome, error) { return nil, errors.New("nobody asks for it") },
	}
}

// all ranges over a stream.
func allFrames(ctx context.Context, s *Stream) (frames []api.Frame, err error) {
	for f, err := range s.Frames(ctx) {
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
	}
	return frames, nil
}

// printed is a run that has printed two channels, in front of a network that cuts, repeats, fails and forgets as chance will.
type printed struct {
	chance   *rand.Rand
	channels map[string][]byte
	lost     map[string][2]int64 // what the server does not have any more
	dials    int
}

func newPrinted(seed uint64) *printed {
	p := &printed{chance: rand.New(rand.NewPCG(seed, 1)), channels: map[string][]byte{}, lost: map[string][2]int64{}}
	for _, name := range []string{"stdout", "stderr"} {
		data := make([]byte, p.chance.IntN(5000))
		for i := range data {
			data[i] = "ab\n\x00\xc3\xa9\xff"[p.chance.IntN(7)]
		}
		p.channels[name] = data
		if p.chance.IntN(3) == 0 && len(data) > 10 {
			from := p.chance.Int64N(int64(len(data)))
			p.lost[name] = [2]int64{from, from + 1 + p.chance.Int64N(int64(len(data))-from)}
		}
	}
	return p
}

// dial makes the next connection, from at or some bytes before it.
func (p *printed) dial(_ context.Context, at Cursor) (socket, error) {
	p.dials++
	switch p.chance.IntN(8) {
	case 0:
		return nil, io.ErrUnexpectedEOF
	case 1:
		return nil, &api.Problem{Status: http.StatusServiceUnavailable, Title: "the server stops"}
	}
	next := map[string]int64{"stdout": max(0, at.Stdout-p.chance.Int64N(20)), "stderr": max(0, at.Stderr-p.chance.Int64N(20))}
	s := &script{frames: []api.Frame{hello(next["stdout"], next["stderr"]), {Type: api.FrameStarted, Run: testRun, AtMs: num(7)}}}
	cut := p.chance.IntN(12)
	for i := 0; ; i++ {
		if i == cut {
			s.err = []error{io.ErrUnexpectedEOF, io.EOF, websocket.CloseError{Code: websocket.StatusGoingAway}, websocket.CloseError{Code: websocket.StatusTryAgainLater}, websocket.CloseError{Code: websocket.StatusNormalClosure}}[p.chance.IntN(5)]
			return s, nil
		}
		name := []string{"stdout", "stderr"}[p.chance.IntN(2)]
		if next[name] >= int64(len(p.channels[name])) {
			name = map[string]string{"stdout": "stderr", "stderr": "stdout"}[name]
		}
		from, all := next[name], p.channels[name]
		if from >= int64(len(all)) {
			s.frames = append(s.frames, exit(int64(len(p.channels["stdout"])), int64(len(p.channels["stderr"]))))
			return s, nil
		}
		to := min(int64(len(all)), from+1+p.chance.Int64N(400))
		switch lost := p.lost[name]; {
		case lost[0] <= from && from < lost[1]:
			to = lost[1]
			s.frames = append(s.frames, gapFrame(name, from, to))
		case from < lost[0] && lost[0] < to:
			to = lost[0]
			fallthrough
		default:
			s.frames = append(s.frames, output(name, from, string(all[from:to])))
		}
		if next[name] = to; p.chance.IntN(10) == 0 {
			s.frames = append(s.frames, s.frames[len(s.frames)-1], api.Frame{Type: api.FramePing})
		}
	}
}

// Whatever the network does, each byte comes exactly once and in its place, or in exactly one gap.
func TestStreamExactlyOnce(t *testing.T) {
	gaps, redials := 0, 0
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			p := newPrinted(seed)
			frames, err := allFrames(t.Context(), streamOf(p.dial))
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			redials += p.dials - 1
			got := map[string][]byte{}
			for i, f := range frames {
				have := int64(len(got[f.Channel]))
				switch f.Type {
				case api.FrameOutput:
					data, _ := f.Bytes()
					if *f.Offset != have {
						t.Fatalf("seed %d: %s goes on at %d, where %d is next", seed, f.Channel, *f.Offset, have)
					}
					got[f.Channel] = append(got[f.Channel], data...)
				case api.FrameGap:
					if lost := p.lost[f.Channel]; *f.From != have || *f.From < lost[0] || *f.To > lost[1] {
						t.Fatalf("seed %d: gap %d-%d of %s at %d, where %v is lost", seed, *f.From, *f.To, f.Channel, have, lost)
					}
					got[f.Channel] = append(got[f.Channel], p.channels[f.Channel][*f.From:*f.To]...)
					gaps++
				case api.FrameHello, api.FrameStarted:
					if i > 1 {
						t.Errorf("seed %d: %s comes twice", seed, f.Type)
					}
				case api.FrameExit:
					if i != len(frames)-1 {
						t.Errorf("seed %d: exit is not the last frame", seed)
					}
				}
			}
			for name, want := range p.channels {
				if !bytes.Equal(got[name], want) {
					t.Errorf("seed %d: %s is not what was printed", seed, name)
				}
			}
			if frames[len(frames)-1].Type != api.FrameExit {
				t.Errorf("seed %d: it ends without an exit frame", seed)
			}
		})
	}
	if gaps < 20 || redials < 1000 {
		t.Errorf("the test met %d gaps and %d cuts only", gaps, redials)
	}
}

func TestStreamEndsAtOnce(t *testing.T) {
	for _, test := range []struct {
		name string
		dial error // of the second connection
		read error // of the first
	}{
		{"401", &api.Problem{Status: 401}, io.EOF},
		{"403", &api.Problem{Status: 403}, io.EOF},
		{"404", &api.Problem{Status: 404}, io.EOF},
		{"400", &api.Problem{Status: 400}, io.EOF},
		{"another protocol", &protocolError{"it does not speak silk.v1"}, io.EOF},
		{"a command that the server does not know", nil, websocket.CloseError{Code: websocket.StatusUnsupportedData}},
		{"a frame that is too large", nil, fmt.Errorf("read: %w", websocket.ErrMessageTooBig)},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				frames, err := allFrames(t.Context(), streamOf(func(context.Context, Cursor) (socket, error) {
					if dials++; dials > 1 {
						return nil, test.dial
					}
					return &script{frames: []api.Frame{hello(0, 0)}, err: test.read}, nil
				}))
				want := 2
				if test.dial == nil {
					want = 1
				}
				if dials != want || err == nil || len(frames) != 1 {
					t.Errorf("%d connections, %d frames, %v; want an end after %d", dials, len(frames), err, want)
				}
				var p *api.Problem
				if errors.As(test.dial, &p) != errors.As(err, &p) || p == nil && !errors.Is(err, ErrUnknown) {
					t.Errorf("got %v, want the problem, or how it ended to be unknown", err)
				}
			})
		})
	}
}

// Without a server the stream waits longer and longer, and in the end says that it does not know.
func TestStreamGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		refused := errors.New("connection refused")
		_, err := allFrames(t.Context(), streamOf(func(context.Context, Cursor) (socket, error) {
			at = append(at, time.Since(began))
			return nil, refused
		}))
		if !errors.Is(err, ErrUnknown) || !errors.Is(err, refused) {
			t.Errorf("got %v, want ErrUnknown and the reason", err)
		}
		if took := time.Since(began); took < defaultPatience || took > defaultPatience+mostWait {
			t.Errorf("gave up after %v, want %v", took, defaultPatience)
		}
		for i := 1; i < len(at); i++ {
			full := min(mostWait, firstWait<<min(i-1, 10))
			if d := at[i] - at[i-1]; d < full/2 || d > full+time.Nanosecond {
				t.Errorf("wait %d is %v, want %v to %v", i, d, full/2, full)
			}
		}
		if len(at) < 24 {
			t.Errorf("%d attempts in two minutes", len(at))
		}
	})
}

// A server that is reached, but always cuts at once, is tried with growing waits, and for ever: it says that the run lives.
func TestStreamOfLivingServerDoesNotGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, dials := time.Now(), 0
		_, err := allFrames(t.Context(), streamOf(func(context.Context, Cursor) (socket, error) {
			if dials++; time.Since(began) > 3*defaultPatience {
				return &script{frames: []api.Frame{hello(0, 0), exit(0, 0)}}, nil
			}
			return &script{frames: []api.Frame{hello(0, 0)}, err: io.EOF}, nil
		}))
		if err != nil || dials > 200 {
			t.Errorf("%v after %d connections, want the end after fewer than 200", err, dials)
		}
	})
}

func TestStreamHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, dials := time.Now(), 0
		if _, err := allFrames(t.Context(), streamOf(func(context.Context, Cursor) (socket, error) {
			if dials++; dials == 1 {
				return nil, &api.Problem{Status: 429, RetryAfterMs: 30_000}
			}
			return &script{frames: []api.Frame{hello(0, 0), exit(0, 0)}}, nil
		})); err != nil || time.Since(began) < 30*time.Second {
			t.Errorf("came again after %v (%v), want 30 s", time.Since(began), err)
		}
	})
}

// A connection on which nothing comes, not even a ping, is dead.
func TestStreamLeavesSilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		silent := &script{frames: []api.Frame{hello(0, 0), output("stdout", 0, "a")}}
		var second Cursor
		dials := 0
		frames, err := allFrames(t.Context(), streamOf(func(_ context.Context, at Cursor) (socket, error) {
			if dials++; dials == 1 {
				return silent, nil
			}
			second = at
			return &script{frames: []api.Frame{hello(1, 0), exit(1, 0)}}, nil
		}))
		if err != nil || len(frames) != 3 || second != (Cursor{Stdout: 1}) || !silent.closed {
			t.Errorf("got %d frames, %v, cursor %v, closed %v", len(frames), err, second, silent.closed)
		}
		if took := time.Since(began); took < silence || took > silence+mostWait {
			t.Errorf("took %v, want about %v", took, silence)
		}
	})
}

// A server that was killed may have less than it has sent; the run has ended then, and has an outcome.
func TestStreamBeyondTheEnd(t *testing.T) {
	beyond := &api.Problem{Status: http.StatusRequestedRangeNotSatisfiable}
	for _, test := range []struct {
		name string
		out  *api.Outcome
		err  error
		ok   bool
	}{
		{"it has ended", &api.Outcome{Kind: "error", Message: "host restarted"}, nil, true},
		{"it has not", nil, nil, false},
		{"nobody says", nil, &api.Problem{Status: 404}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				s := streamOf(func(context.Context, Cursor) (socket, error) {
					if dials++; dials > 1 {
						return nil, beyond
					}
					return &script{frames: []api.Frame{hello(0, 0), output("stdout", 0, "abc")}, err: io.EOF}, nil
				})
				s.outcome = func(context.Context) (*api.Outcome, error) { return test.out, test.err }
				frames, err := allFrames(t.Context(), s)
				if test.ok != (err == nil) || test.ok && frames[len(frames)-1].Outcome != test.out {
					t.Errorf("got %v and %v", frames, err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // a cursor of the caller's own that is beyond
		if _, err := allFrames(t.Context(), streamOf(func(context.Context, Cursor) (socket, error) { return nil, beyond })); !errors.Is(err, beyond) {
			t.Errorf("got %v, want the problem", err)
		}
	})
}

func TestStreamContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		quiet := &script{frames: []api.Frame{hello(0, 0)}}
		s := streamOf(func(context.Context, Cursor) (socket, error) { return quiet, nil })
		why := errors.New("Ctrl-C")
		time.AfterFunc(time.Second, func() { cancel(why) })
		if _, err := allFrames(ctx, s); !errors.Is(err, why) || !quiet.closed {
			t.Errorf("got %v, closed %v; want the cause, and no connection left", err, quiet.closed)
		}
		if _, err := allFrames(t.Context(), s); err == nil {
			t.Error("Frames was called twice without an error")
		}
	})
	t.Run("while it waits to try again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := allFrames(ctx, streamOf(func(context.Context, Cursor) (socket, error) { return nil, io.EOF }))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the end of the context", err)
			}
		})
	})
	t.Run("a caller that has enough", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			quiet := &script{frames: []api.Frame{hello(0, 0)}}
			for range streamOf(func(context.Context, Cursor) (socket, error) { return quiet, nil }).Frames(t.Context()) {
				break
			}
			if !quiet.closed {
				t.Error("the connection is left open")
			}
		})
	})
}

func TestStreamSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &script{frames: []api.Frame{hello(0, 0)}, broken: io.ErrClosedPipe}
		second := &script{frames: []api.Frame{hello(0, 0)}}
		conns := []socket{first, second}
		s := streamOf(func(context.Context, Cursor) (socket, error) {
			<-time.After(time.Second) // the handshake
			c := conns[0]
			conns = conns[1:]
			return c, nil
		})
		ended := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := allFrames(ctx, s)
			ended <- err
		}()
		if err := s.Send(t.Context(), api.Command{Type: "cancel"}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v of a connection that is broken", err)
		}
		<-time.After(silence + 10*time.Second) // until the second connection
		if err := s.Send(t.Context(), api.Command{Type: "stdin", Data: "x"}); err != nil {
			t.Error(err)
		}
		if len(first.sent) != 1 || len(second.sent) != 1 || string(second.sent[0]) != `{"type":"stdin","data":"x"}` {
			t.Errorf("sent %q and %q", first.sent, second.sent)
		}
		cancel()
		<-ended
		if err := s.Send(t.Context(), api.Command{Type: "cancel"}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v after the end", err)
		}
		waiting := streamOf(nil) // nobody ranges over it
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := waiting.Send(short, api.Command{Type: "cancel"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v without a connection", err)
		}
	})
}

func TestBackoff(t *testing.T) {
	var b backoff
	var waits []time.Duration
	for range 100 {
		waits = append(waits, b.next())
	}
	if slices.Max(waits) > mostWait || slices.Min(waits) < firstWait/2 || slices.Max(waits) == slices.Min(waits[20:]) {
		t.Errorf("waits are %v", waits)
	}
}
