package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/serve"
)

// replayed are the frames of a run that has ended a while ago, made when they are asked for.
type replayed struct {
	next chan []byte
	err  error // set before next is closed
}

func (h *handler) replay(ctx context.Context, id auth.Identity, run string, c broker.Cursor) (frames, error) {
	r, err := h.cfg.Server.Run(ctx, id, run)
	if err != nil {
		return nil, err
	}
	if r.Outcome == nil { // it runs elsewhere, on the command line say
		return nil, fmt.Errorf("%w: it does not run in this server", serve.ErrState)
	}
	if !c.Tail && (c.Stdout > r.Outcome.Stdout.Bytes || c.Stderr > r.Outcome.Stderr.Bytes) {
		return nil, broker.ErrCursor
	}
	f := &replayed{next: make(chan []byte)}
	go func() {
		defer close(f.next)
		f.err = h.cfg.Server.Replay(ctx, id, run, c, func(frame api.Frame) error {
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
	return f, nil
}

// Next implements frames.
func (f *replayed) Next(ctx context.Context) ([]byte, error) {
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
