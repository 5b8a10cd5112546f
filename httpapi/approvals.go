package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/approval"
	"github.com/silk-sandbox/silk/auth"
)

type approvalList struct {
	State string `query:"state" enum:"pending,granted,denied,expired,withdrawn"`
	Paging
}

type approvalPage struct{ Body api.Page[api.Approval] }

type oneApproval struct{ Body api.Approval }

type decision struct {
	RunPath
	Body api.DecisionRequest
}

func (h *handler) approvals() {
	s := h.cfg.Server
	operation(h, huma.Operation{
		OperationID: "list-approvals", Method: http.MethodGet, Path: "/v1/approvals", Summary: "List what waits, or waited, for the owner", Tags: []string{"approvals"},
	}, func(ctx context.Context, id auth.Identity, in *approvalList) (*approvalPage, error) {
		list, err := s.Approvals(ctx, id, approval.Filter{State: approval.State(in.State), Before: in.Cursor, Limit: in.Limit + 1})
		out := &approvalPage{api.Page[api.Approval]{Items: list}}
		if len(list) > in.Limit {
			out.Body.Items, out.Body.Next = list[:in.Limit], list[in.Limit-1].Run
		}
		return out, err
	})
	operation(h, huma.Operation{
		OperationID: "get-approval", Method: http.MethodGet, Path: "/v1/approvals/{run}", Summary: "Look at what waits: its plan, its code, and what has changed", Tags: []string{"approvals"},
		Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, id auth.Identity, in *RunPath) (*oneApproval, error) {
		a, err := s.Approval(ctx, id, in.Run)
		return &oneApproval{a}, err
	})
	operation(h, huma.Operation{
		OperationID: "decide-approval", Method: http.MethodPost, Path: "/v1/approvals/{run}/decision", Summary: "Approve or deny", Tags: []string{"approvals"},
		Description: "Never with the token that asked. `hash` is that of the approval: what has changed since it was looked at is not approved.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *decision) (*oneApproval, error) {
		a, err := s.Decide(ctx, id, in.Run, in.Body)
		return &oneApproval{a}, err
	})
	operation(h, huma.Operation{
		OperationID: "revoke-grant", Method: http.MethodDelete, Path: "/v1/approvals/{run}/grant", Summary: "End what an approval covers beyond its own run", Tags: []string{"approvals"},
		Description: "Runs that were accepted under it go on.", Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *RunPath) (*oneApproval, error) {
		a, err := s.RevokeGrant(ctx, id, in.Run)
		return &oneApproval{a}, err
	})
}
