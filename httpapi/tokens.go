package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
)

type tokenList struct{ Body api.Page[api.Token] }

type newToken struct{ Body api.NewToken }

type madeToken struct{ Body api.MadeToken }

type oneToken struct{ Body api.Token }

type tokenPath struct {
	Token string `path:"token" maxLength:"64" doc:"Name or id"`
}

type newTicket struct{ Body api.TicketRequest }

type ticket struct{ Body api.Ticket }

func (h *handler) tokens() {
	operation(h, huma.Operation{
		OperationID: "list-tokens", Method: http.MethodGet, Path: "/v1/tokens", Summary: "List tokens", Tags: []string{"tokens"},
	}, func(ctx context.Context, id auth.Identity, _ *nothing) (*tokenList, error) {
		if !id.Can(auth.ActTokens) {
			return nil, auth.ErrForbidden
		}
		list, err := auth.List(ctx, h.cfg.DB)
		out := &tokenList{api.Page[api.Token]{Items: []api.Token{}}}
		for _, t := range list {
			out.Body.Items = append(out.Body.Items, tokenOf(t))
		}
		return out, err
	})
	operation(h, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: "/v1/tokens", Summary: "Make a token; its secret is in this answer and nowhere else", Tags: []string{"tokens"},
		DefaultStatus: http.StatusCreated, Errors: []int{http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *newToken) (*madeToken, error) {
		wanted := auth.New{By: id, Name: in.Body.Name, Role: auth.Role(in.Body.Role), MaxRunning: in.Body.MaxRunning, MaxQueued: in.Body.MaxQueued}
		if in.Body.ExpiresMs > 0 {
			wanted.Expires = time.Now().Add(time.Duration(in.Body.ExpiresMs) * time.Millisecond)
		}
		t, s, err := auth.Create(ctx, h.cfg.DB, wanted)
		if err != nil {
			return nil, err
		}
		return &madeToken{api.MadeToken{Token: tokenOf(t), Secret: s.Reveal()}}, nil
	})
	operation(h, huma.Operation{
		OperationID: "revoke-token", Method: http.MethodDelete, Path: "/v1/tokens/{token}", Summary: "Revoke a token", Tags: []string{"tokens"},
		Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *tokenPath) (*oneToken, error) {
		t, err := h.cfg.Verifier.Revoke(ctx, id, in.Token)
		return &oneToken{tokenOf(t)}, err
	})
	operation(h, huma.Operation{
		OperationID: "create-ticket", Method: http.MethodPost, Path: "/v1/tickets", Summary: "Make a ticket for one stream, for browsers", Tags: []string{"tokens"},
		Description:   "A browser cannot set headers on a WebSocket. The ticket goes into its URL, opens that stream once, and is good for half a minute.",
		DefaultStatus: http.StatusCreated, Errors: []int{http.StatusServiceUnavailable},
	}, func(_ context.Context, id auth.Identity, in *newTicket) (*ticket, error) {
		if !id.Can(auth.ActView) {
			return nil, auth.ErrForbidden
		}
		s, until, err := h.cfg.Tickets.Issue(id, in.Body.Path)
		if err != nil {
			return nil, err
		}
		return &ticket{api.Ticket{Ticket: s.Reveal(), ExpiresAtMs: until.UnixMilli()}}, nil
	})
}

func tokenOf(t auth.Token) api.Token {
	out := api.Token{ID: t.ID, Name: t.Name, Role: string(t.Role), MaxRunning: t.MaxRunning, MaxQueued: t.MaxQueued, CreatedAtMs: t.Created.UnixMilli()}
	if !t.Expires.IsZero() {
		out.ExpiresAtMs = t.Expires.UnixMilli()
	}
	if !t.Revoked.IsZero() {
		out.RevokedAtMs = t.Revoked.UnixMilli()
	}
	return out
}
