package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/handoff"
)

type handoffList struct {
	State    string `query:"state" enum:"open,pending,delivered,dead,acked"`
	Receiver string `query:"receiver" enum:"code_explainer,widow_weaver"`
	Outcome  string `query:"outcome" enum:"ok,failed,timeout,oom,violated,denied,canceled,error" doc:"Of the run"`
	Run      string `query:"run" maxLength:"26" doc:"Only those of this run"`
	Paging
}

type handoffPath struct {
	Handoff string `path:"handoff" pattern:"^[0-9A-HJKMNP-TV-Z]{26}$" doc:"Id of the hand-off"`
}

type handoffPage struct{ Body api.Page[api.Handoff] }

type oneHandoff struct{ Body api.Handoff }

// handoffs registers what was handed on of runs that did not end well.
func (h *handler) handoffs() {
	s := h.cfg.Server
	operation(h, huma.Operation{
		OperationID: "list-handoffs", Method: http.MethodGet, Path: "/v1/handoffs", Summary: "List what was handed on, the newest first", Tags: []string{"handoffs"},
		Description: "Without content.",
	}, func(ctx context.Context, id auth.Identity, in *handoffList) (*handoffPage, error) {
		p, err := s.Handoffs(ctx, id, handoff.Filter{State: in.State, Receiver: in.Receiver, Outcome: in.Outcome, Run: in.Run, Before: in.Cursor, Limit: in.Limit})
		return &handoffPage{p}, err
	})
	operation(h, huma.Operation{
		OperationID: "get-handoff", Method: http.MethodGet, Path: "/v1/handoffs/{handoff}", Summary: "Get a hand-off with its content", Tags: []string{"handoffs"},
		Description: "`content` is as sinks get it, silk.handoff/v1, whose schema is at /schemas/handoff.json.", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, id auth.Identity, in *handoffPath) (*oneHandoff, error) {
		out, err := s.Handoff(ctx, id, in.Handoff)
		return &oneHandoff{out}, err
	})
	operation(h, huma.Operation{
		OperationID: "retry-handoff", Method: http.MethodPost, Path: "/v1/handoffs/{handoff}/retry", Summary: "Deliver again", Tags: []string{"handoffs"},
		Description: "What is dead, or waits for its next attempt, is due at once; where everything was delivered, all of it again.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *handoffPath) (*oneHandoff, error) {
		out, err := s.RetryHandoff(ctx, id, in.Handoff)
		return &oneHandoff{out}, err
	})
	operation(h, huma.Operation{
		OperationID: "ack-handoff", Method: http.MethodPost, Path: "/v1/handoffs/{handoff}/ack", Summary: "Say that the receiver has taken it", Tags: []string{"handoffs"},
		Description: "Nothing more of it is delivered. A second time changes nothing.", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, id auth.Identity, in *handoffPath) (*oneHandoff, error) {
		out, err := s.AckHandoff(ctx, id, in.Handoff)
		return &oneHandoff{out}, err
	})
}
