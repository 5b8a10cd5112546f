package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/auth"
)

type profiles struct{ Body api.Page[api.Profile] }

type images struct{ Body api.Page[api.Image] }

type auditList struct {
	Event string `query:"event" maxLength:"64" doc:"Only events whose names begin so"`
	Run   string `query:"run" maxLength:"26" doc:"Only events of this run"`
	Paging
}

type auditPage struct{ Body api.Page[api.AuditEvent] }

// look registers what is only read.
func (h *handler) look() {
	operation(h, huma.Operation{
		OperationID: "list-profiles", Method: http.MethodGet, Path: "/v1/profiles", Summary: "List profiles", Tags: []string{"profiles"},
	}, func(_ context.Context, id auth.Identity, _ *nothing) (*profiles, error) {
		if !id.Can(auth.ActView) {
			return nil, auth.ErrForbidden
		}
		list, err := h.cfg.Profiles()
		return &profiles{api.Page[api.Profile]{Items: list}}, err
	})
	operation(h, huma.Operation{
		OperationID: "list-images", Method: http.MethodGet, Path: "/v1/images", Summary: "List images", Tags: []string{"images"},
	}, func(_ context.Context, id auth.Identity, _ *nothing) (*images, error) {
		if !id.Can(auth.ActView) {
			return nil, auth.ErrForbidden
		}
		list, err := h.cfg.Images()
		return &images{api.Page[api.Image]{Items: list}}, err
	})
	operation(h, huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Summary: "List audit events, the newest first", Tags: []string{"audit"},
	}, func(ctx context.Context, id auth.Identity, in *auditList) (*auditPage, error) {
		if !id.Can(auth.ActAudit) {
			return nil, auth.ErrForbidden
		}
		return h.audit(ctx, in)
	})
}

func (h *handler) audit(ctx context.Context, in *auditList) (*auditPage, error) {
	f := audit.Filter{Prefix: in.Event, Run: in.Run, Limit: in.Limit + 1}
	if in.Cursor != "" {
		seq, err := strconv.ParseInt(in.Cursor, 10, 64)
		if err != nil || seq < 1 {
			p := problem(http.StatusUnprocessableEntity, "invalid", "the request cannot be read", "")
			p.Errors = []api.FieldError{{Field: "query.cursor", Detail: "it is not one of this list"}}
			return nil, p
		}
		f.Before = seq
	}
	events, err := audit.List(ctx, h.cfg.DB, f)
	if err != nil {
		return nil, err
	}
	out := &auditPage{api.Page[api.AuditEvent]{Items: []api.AuditEvent{}}}
	for i, e := range events {
		if i == in.Limit {
			out.Body.Next = strconv.FormatInt(events[i-1].Seq, 10)
			break
		}
		out.Body.Items = append(out.Body.Items, api.AuditEvent{
			ID: e.ID, Seq: e.Seq, Timestamp: e.Timestamp, IntentID: e.Run, Event: string(e.Name), Data: e.Data, Hash: e.Hash,
		})
	}
	return out, nil
}
