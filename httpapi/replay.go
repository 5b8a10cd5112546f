package httpapi

import (
	"context"
	"fmt"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/serve"
)

// replay gives a run that has ended a while ago.
func (h *handler) replay(ctx context.Context, id auth.Identity, run string, c broker.Cursor) (frames, error) {
	r, err := h.cfg.Server.Run(ctx, id, run)
	if err != nil {
		return nil, err
	}
	if r.Outcome == nil { // it runs elsewhere, on the command line say
		return nil, fmt.Errorf("%w: it does not run in this server", serve.ErrState)
	}
	if serve.Beyond(*r.Outcome, c) {
		return nil, broker.ErrCursor
	}
	return h.cfg.Server.ReplayFrames(ctx, id, run, c), nil
}
