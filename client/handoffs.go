package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/silk-sandbox/silk/api"
)

// HandoffFilter chooses hand-offs. The zero value is all that the token may see.
type HandoffFilter struct {
	State    string // one of those of [api.Handoff]
	Receiver string
	Outcome  string // of the run
	Run      string
	Before   string // only those older than this hand-off: its id
	Page     int    // hand-offs per request, at most 500; 0: the server's default
}

// Handoffs lists what was handed on of runs that did not end well, the newest first, without content.
func (c *Client) Handoffs(ctx context.Context, f HandoffFilter) iter.Seq2[api.Handoff, error] {
	q := url.Values{}
	for name, value := range map[string]string{"state": f.State, "receiver": f.Receiver, "outcome": f.Outcome, "run": f.Run, "cursor": f.Before} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.Page > 0 {
		q.Set("limit", strconv.Itoa(f.Page))
	}
	return pages[api.Handoff](ctx, c, "/v1/handoffs", q)
}

// Handoff looks at one, with its content. The content is what others wrote, and hostile.
func (c *Client) Handoff(ctx context.Context, id string) (api.Handoff, error) {
	var h api.Handoff
	err := c.get(ctx, handoffPath(id, ""), nil, &h)
	return h, err
}

// RetryHandoff makes what was not delivered due at once. Problems with status 409: it is acknowledged, or there is no sink for it.
func (c *Client) RetryHandoff(ctx context.Context, id string) (api.Handoff, error) {
	return c.changeHandoff(ctx, id, "/retry")
}

// AckHandoff says that the receiver has taken it. A second time changes nothing.
func (c *Client) AckHandoff(ctx context.Context, id string) (api.Handoff, error) {
	return c.changeHandoff(ctx, id, "/ack")
}

// changeHandoff asks again where there was no answer: twice is as good as once.
func (c *Client) changeHandoff(ctx context.Context, id, what string) (api.Handoff, error) {
	var h api.Handoff
	err := c.again(ctx, call{method: http.MethodPost, path: handoffPath(id, what)}, &h)
	return h, err
}

func handoffPath(id, below string) string { return "/v1/handoffs/" + url.PathEscape(id) + below }
