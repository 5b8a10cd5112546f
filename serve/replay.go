package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/run"
)

const (
	replayBytes     = 32 << 10 // of one frame
	replayTailBytes = 4 << 10  // of each channel for a viewer without a cursor, as the broker does
)

// Beyond says whether a viewer claims to have more of a run than it printed. Of a run that the host has lost, the record may have
// less than viewers have seen: then nothing is beyond it, and they get the end.
func Beyond(out api.Outcome, c broker.Cursor) bool {
	if out.Kind == string(run.Error) && out.Reason == string(run.ReasonHost) {
		return false
	}
	return !c.Tail && (c.Stdout > out.Stdout.Bytes || c.Stderr > out.Stderr.Bytes)
}

// Replay gives the frames of a run that has ended, from its record: what a viewer gets that comes too late for the broker. Order
// between the channels and times are not kept.
func (s *Server) Replay(ctx context.Context, id auth.Identity, runID string, cursor broker.Cursor, emit func(api.Frame) error) error {
	r, err := s.Run(ctx, id, runID)
	if err != nil {
		return err
	}
	if r.Outcome == nil {
		return fmt.Errorf("run %s: %w", runID, broker.ErrUnknownRun)
	}
	if Beyond(*r.Outcome, cursor) || cursor.Stdout < 0 || cursor.Stderr < 0 {
		return fmt.Errorf("run %s from %+v: %w", runID, cursor, broker.ErrCursor)
	}
	channels := []replayed{
		{"stdout", cursor.Stdout, r.Outcome.Stdout},
		{"stderr", cursor.Stderr, r.Outcome.Stderr},
	}
	for i := range channels {
		c := &channels[i]
		if cursor.Tail {
			c.from = max(0, c.Bytes-replayTailBytes)
		}
	}
	hello := api.Frame{Type: api.FrameHello, Run: runID, State: string(r.State), Profile: r.Profile, Driver: r.Outcome.Driver, TailFrom: &api.Tail{Stdout: channels[0].from, Stderr: channels[1].from}}
	if err := emit(hello); err != nil {
		return err
	}
	for _, c := range channels {
		if err := s.replayChannel(ctx, id, runID, c, emit); err != nil {
			return err
		}
	}
	for _, f := range displays(*r.Outcome) {
		if err := emit(f); err != nil {
			return err
		}
	}
	return emit(api.Frame{Type: api.FrameExit, Run: runID, Outcome: r.Outcome})
}

// Replayed are the frames of a run that has ended, made when they are asked for. Next is for one goroutine at a time.
type Replayed struct {
	next chan []byte
	err  error // set before next is closed
}

// ReplayFrames is Replay for who reads when it likes, until ctx ends.
func (s *Server) ReplayFrames(ctx context.Context, id auth.Identity, runID string, cursor broker.Cursor) *Replayed {
	f := &Replayed{next: make(chan []byte)}
	go func() { // ends with ctx
		defer close(f.next)
		f.err = s.Replay(ctx, id, runID, cursor, func(frame api.Frame) error {
			text, err := json.Marshal(frame)
			if err != nil {
				return err
			}
			select {
			case f.next <- text:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return f
}

// Next returns the next frame as JSON. After the exit frame it returns io.EOF.
func (f *Replayed) Next(ctx context.Context) ([]byte, error) {
	select {
	case frame, ok := <-f.next:
		if ok {
			return frame, nil
		}
		if f.err != nil {
			return nil, f.err
		}
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// replayed is one channel of a replay.
type replayed struct {
	name string
	from int64
	api.Channel
}

func (s *Server) replayChannel(ctx context.Context, id auth.Identity, runID string, c replayed, emit func(api.Frame) error) (err error) {
	out, err := s.Output(ctx, id, runID, c.name)
	if err != nil {
		return err
	}
	defer out.Close()
	at := c.from
	if n, err := io.CopyN(io.Discard, out, c.from); err == io.EOF { //nolint:errorlint // io.CopyN returns it as it is
		at = max(n, c.from)
	} else if err != nil {
		return fmt.Errorf("read output: %w", err)
	}
	buf := make([]byte, replayBytes)
	for {
		n, err := io.ReadFull(out, buf)
		if n > 0 {
			offset := at
			f := api.Frame{Type: api.FrameOutput, Run: runID, Channel: c.name, Offset: &offset}
			f.SetBytes(buf[:n])
			if err := emit(f); err != nil {
				return err
			}
			at += int64(n)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read output: %w", err)
		}
	}
	if at < c.Bytes {
		from, to := at, c.Bytes
		return emit(api.Frame{Type: api.FrameGap, Run: runID, Channel: c.name, From: &from, To: &to})
	}
	return nil
}
