package serve

import (
	"context"
	"fmt"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/handoff"
)

// Handoffs lists what was handed on, the newest first: of the runs of id, or of all if it may see them.
func (s *Server) Handoffs(ctx context.Context, id auth.Identity, f handoff.Filter) (api.Page[api.Handoff], error) {
	page := api.Page[api.Handoff]{Items: []api.Handoff{}}
	if !id.Can(auth.ActView) {
		return page, auth.ErrForbidden
	}
	if !id.Can(auth.ActViewAll) {
		f.Token = id.Token
	}
	limit := min(f.Limit, largestPage)
	if limit <= 0 {
		limit = defaultPage
	}
	f.Limit = limit + 1
	list, err := handoff.List(ctx, s.cfg.DB, f)
	if err != nil {
		return page, err
	}
	if len(list) > limit {
		list = list[:limit]
		page.Next = list[limit-1].ID
	}
	for _, e := range list {
		page.Items = append(page.Items, handoffFor(e, id))
	}
	return page, nil
}

// Handoff returns one with its content.
func (s *Server) Handoff(ctx context.Context, id auth.Identity, handoffID string) (api.Handoff, error) {
	e, err := s.handoff(ctx, id, handoffID)
	if err != nil {
		return api.Handoff{}, err
	}
	return handoffFor(e, id), nil
}

// HandoffsOf returns the hand-offs of a run, and for each the path of the note that it becomes in a vault of this server's
// configuration; "": in none.
func (s *Server) HandoffsOf(ctx context.Context, id auth.Identity, run string) (list []api.Handoff, notes []string, err error) {
	page, err := s.Handoffs(ctx, id, handoff.Filter{Run: run, Limit: len(handoff.Receivers)})
	if err != nil {
		return nil, nil, err
	}
	notes = make([]string, len(page.Items))
	for i, h := range page.Items {
		if len(s.cfg.Handoffs.Vaults(h.Receiver)) == 0 {
			continue
		}
		whole, err := s.Handoff(ctx, id, h.ID)
		if err != nil {
			return nil, nil, err
		}
		notes[i] = handoff.NotePath(*whole.Content)
	}
	return page.Items, notes, nil
}

// RetryHandoff makes what was not delivered of a hand-off due at once: handoff.Outbox.Retry.
func (s *Server) RetryHandoff(ctx context.Context, id auth.Identity, handoffID string) (api.Handoff, error) {
	return s.changeHandoff(ctx, id, handoffID, func() error { return s.cfg.Handoffs.Retry(ctx, s.cfg.DB, handoffID) })
}

// AckHandoff says that the receiver has taken a hand-off.
func (s *Server) AckHandoff(ctx context.Context, id auth.Identity, handoffID string) (api.Handoff, error) {
	return s.changeHandoff(ctx, id, handoffID, func() error { return handoff.Ack(ctx, s.cfg.DB, handoffID, id.Token, time.Now()) })
}

func (s *Server) changeHandoff(ctx context.Context, id auth.Identity, handoffID string, change func() error) (api.Handoff, error) {
	e, err := s.handoff(ctx, id, handoffID)
	if err == nil && !id.Controls(e.Token) {
		err = auth.ErrForbidden
	}
	if err == nil {
		err = change()
	}
	if err != nil {
		return api.Handoff{}, err
	}
	return s.Handoff(ctx, id, handoffID)
}

// handoff finds one that id may see, by its whole id. Those of others' runs are as good as not there.
func (s *Server) handoff(ctx context.Context, id auth.Identity, handoffID string) (handoff.Entry, error) {
	e, err := handoff.Get(ctx, s.cfg.DB, handoffID)
	if err == nil && (e.ID != handoffID || !id.Sees(e.Token)) {
		err = fmt.Errorf("hand-off %q: %w", handoffID, ErrNotFound)
	}
	return e, err
}

// handoffFor is what id sees of a hand-off: who only watches does not see the code, and where the owner's sinks are and what is wrong with them
// is for owners.
func handoffFor(e handoff.Entry, id auth.Identity) api.Handoff {
	h := e.Handoff
	if !id.Can(auth.ActDecide) {
		for i := range h.Deliveries {
			h.Deliveries[i].Error = ""
		}
	}
	if h.Content != nil && h.Content.Code != nil && !id.Controls(e.Token) {
		h.Content.Code.Text, h.Content.Code.B64, h.Content.Code.Omitted = nil, nil, "shown to owners and to who asked for the run"
	}
	return h
}
