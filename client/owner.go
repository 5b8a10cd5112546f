package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/silk-sandbox/silk/api"
)

// Approvals lists runs that wait, or waited, for the owner, the newest first, without plan and code. state is one of those of
// [api.Approval]; "" is all.
func (c *Client) Approvals(ctx context.Context, state string) iter.Seq2[api.Approval, error] {
	q := url.Values{}
	if state != "" {
		q.Set("state", state)
	}
	return pages[api.Approval](ctx, c, "/v1/approvals", q)
}

// Approval looks at what waits: with its plan, its code, and the difference to what was approved before.
func (c *Client) Approval(ctx context.Context, run string) (api.Approval, error) {
	var a api.Approval
	err := c.get(ctx, "/v1/approvals/"+url.PathEscape(run), nil, &a)
	return a, err
}

// Decide is the owner's answer to a run that waits. Problems with status 409: another hash than the one that waits, an answer
// before this one, or one that comes too late. 403: the token that asked does not decide.
func (c *Client) Decide(ctx context.Context, run string, d api.DecisionRequest) (api.Approval, error) {
	var a api.Approval
	err := c.post(ctx, "/v1/approvals/"+url.PathEscape(run)+"/decision", d, &a)
	return a, err
}

// Profiles lists the profiles of the server.
func (c *Client) Profiles(ctx context.Context) ([]api.Profile, error) {
	return all(pages[api.Profile](ctx, c, "/v1/profiles", url.Values{}))
}

// Images lists the images of the server.
func (c *Client) Images(ctx context.Context) ([]api.Image, error) {
	return all(pages[api.Image](ctx, c, "/v1/images", url.Values{}))
}

// AuditFilter chooses events of the audit trail. The zero value is all.
type AuditFilter struct {
	Event string // the begin of their names, such as sandbox_
	Run   string
}

// Audit lists events of the audit trail, the newest first. It is for owners.
func (c *Client) Audit(ctx context.Context, f AuditFilter) iter.Seq2[api.AuditEvent, error] {
	q := url.Values{}
	if f.Event != "" {
		q.Set("event", f.Event)
	}
	if f.Run != "" {
		q.Set("run", f.Run)
	}
	return pages[api.AuditEvent](ctx, c, "/v1/audit", q)
}

// Tokens lists the tokens, those that are no good any more too.
func (c *Client) Tokens(ctx context.Context) ([]api.Token, error) {
	return all(pages[api.Token](ctx, c, "/v1/tokens", url.Values{}))
}

// CreateToken makes a token. Its secret is in this answer and nowhere else.
func (c *Client) CreateToken(ctx context.Context, t api.NewToken) (api.MadeToken, error) {
	var made api.MadeToken
	err := c.post(ctx, "/v1/tokens", t, &made)
	return made, err
}

// RevokeToken ends a token, given by name or id.
func (c *Client) RevokeToken(ctx context.Context, nameOrID string) (api.Token, error) {
	var t api.Token
	err := c.do(ctx, call{method: http.MethodDelete, path: "/v1/tokens/" + url.PathEscape(nameOrID)}, &t)
	return t, err
}

// Ticket makes a ticket, which opens the stream of a run once in place of a token, for a browser.
func (c *Client) Ticket(ctx context.Context, run string) (api.Ticket, error) {
	var t api.Ticket
	err := c.post(ctx, "/v1/tickets", api.TicketRequest{Path: runPath(run, "/stream")}, &t)
	return t, err
}

// Ready asks whether the server takes runs; nil says that it does.
func (c *Client) Ready(ctx context.Context) error { return c.get(ctx, "/readyz", nil, nil) }

// all is a list that is known to be short.
func all[T any](items iter.Seq2[T, error]) ([]T, error) {
	list := []T{}
	for item, err := range items {
		if err != nil {
			return list, err
		}
		list = append(list, item)
	}
	return list, nil
}
