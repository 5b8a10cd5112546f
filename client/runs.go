package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/silk-sandbox/silk/api"
)

// TooLargeError says that a request is larger than a server takes. Nothing was sent.
type TooLargeError struct{ Bytes, Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the request has %d bytes with all files, and a server takes %d", e.Bytes, e.Limit)
}

// Submit asks for a run. When it returns, the run is stored: it ends with a record whatever happens to the server. key makes the
// call repeatable: the same key and request give the same run; "" is a new one. Because of the key, Submit asks again when the
// way to the server breaks, or the server stops, before its answer has come.
//
// Errors are [*TooLargeError], [*api.Problem] - type urn:silk:denied is policy's no, urn:silk:full a full queue, with
// RetryAfterMs - and what keeps the client from the server.
func (c *Client) Submit(ctx context.Context, req api.RunRequest, key string) (api.Run, error) {
	return c.submit(ctx, req, key, nil)
}

// SubmitFollowed is Submit for a caller that goes on with [Client.Follow] and the same key, which is up to 64 letters and digits:
// what the program prints until then is not lost either.
func (c *Client) SubmitFollowed(ctx context.Context, req api.RunRequest, key string) (api.Run, error) {
	return c.submit(ctx, req, key, url.Values{"follow": {key}})
}

func (c *Client) submit(ctx context.Context, req api.RunRequest, key string, query url.Values) (api.Run, error) {
	body, err := encode(req)
	if err != nil {
		return api.Run{}, err
	}
	if len(body) > MaxRequestBytes {
		return api.Run{}, &TooLargeError{int64(len(body)), MaxRequestBytes}
	}
	if key == "" {
		key = rand.Text()
	}
	q := call{method: http.MethodPost, path: "/v1/runs", query: query, body: body, header: http.Header{"Idempotency-Key": {key}}}
	var run api.Run
	err = c.again(ctx, q, &run)
	return run, err
}

// Plan says what would happen to a request, without anything happening. A refusal is an answer: Denial of it.
func (c *Client) Plan(ctx context.Context, req api.RunRequest) (api.Preview, error) {
	var p api.Preview
	body, err := encode(req)
	if err != nil {
		return p, err
	}
	if len(body) > MaxRequestBytes {
		return p, &TooLargeError{int64(len(body)), MaxRequestBytes}
	}
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/plan", body: body}, &p)
	return p, err
}

// Run looks at a run.
func (c *Client) Run(ctx context.Context, run string) (api.Run, error) {
	var r api.Run
	err := c.get(ctx, runPath(run, ""), nil, &r)
	return r, err
}

// RunFilter chooses runs. The zero value is all that the token may see.
type RunFilter struct {
	State   api.State
	Outcome string
	Profile string
	Session string
	Before  string // only those older than this run: its id
	Page    int    // runs per request, at most 500; 0: the server's default
}

// Runs lists runs, the newest first. It asks for a page when the one before is used up, so a caller that stops early pays for no
// more. An error is the last pair.
func (c *Client) Runs(ctx context.Context, f RunFilter) iter.Seq2[api.Run, error] {
	q := url.Values{}
	for name, value := range map[string]string{"state": string(f.State), "outcome": f.Outcome, "profile": f.Profile, "session": f.Session, "cursor": f.Before} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.Page > 0 {
		q.Set("limit", strconv.Itoa(f.Page))
	}
	return pages[api.Run](ctx, c, "/v1/runs", q)
}

// pages gives the items of a list, page after page. query is its own.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		for {
			var page api.Page[T]
			if err := c.get(ctx, path, query, &page); err != nil {
				yield(zero, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			if page.Next == query.Get("cursor") {
				yield(zero, fmt.Errorf("list %s: the server gives the same page for ever", path))
				return
			}
			query.Set("cursor", page.Next)
		}
	}
}

// Cancel ends a run, and does not wait for its end. One that has ended is a problem with status 409.
func (c *Client) Cancel(ctx context.Context, run string) error {
	return c.do(ctx, call{method: http.MethodPost, path: runPath(run, "/cancel")}, nil)
}

// Input sends a piece of the program's input, of at most 1 MiB, and returns where the next one begins. A piece with an offset is
// sent again when no answer has come, as other requests that change nothing the second time; one without is sent once. It is taken
// as a whole or not at all. Problems with status 409 are urn:silk:input-full, while the program has not read what was sent before;
// urn:silk:input-offset, if others send too, or the server was ended: Offset says where the next piece begins; and urn:silk:state,
// when the run or its input has ended, which [Client.Run] tells apart.
func (c *Client) Input(ctx context.Context, run string, in api.Input) (next int64, err error) {
	body, err := encode(in)
	if err != nil {
		return 0, err
	}
	q := call{method: http.MethodPost, path: runPath(run, "/stdin"), body: body}
	var taken api.InputTaken
	if in.Offset == nil {
		err = c.do(ctx, q, &taken)
	} else {
		err = c.again(ctx, q, &taken)
	}
	return taken.Offset, err
}

// Resize gives the program's terminal another size.
func (c *Client) Resize(ctx context.Context, run string, size api.Size) error {
	return c.post(ctx, runPath(run, "/size"), size, nil)
}

// Record returns the record of a run, in the schema silk.run-record/v1. A run that has not started has none: status 409.
func (c *Client) Record(ctx context.Context, run string) (json.RawMessage, error) {
	var text json.RawMessage
	err := c.get(ctx, runPath(run, "/record"), nil, &text)
	return text, err
}

// Envelope returns the signed record of a run that has ended. One that nobody has signed has none: status 409.
func (c *Client) Envelope(ctx context.Context, run string) (json.RawMessage, error) {
	var text json.RawMessage
	err := c.get(ctx, runPath(run, "/envelope"), nil, &text)
	return text, err
}

// Bundle opens a run that has ended as one file, as silk record export writes it. The caller closes it.
func (c *Client) Bundle(ctx context.Context, run string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: runPath(run, "/bundle")})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Output opens what the server has kept of one channel, stdout or stderr, of a run that has ended. The caller closes it. A read
// error means that it is not whole.
func (c *Client) Output(ctx context.Context, run, channel string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: runPath(run, "/output/") + url.PathEscape(channel)})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// NewSession makes a session, which groups runs. name is for people, and may be empty.
func (c *Client) NewSession(ctx context.Context, name string) (api.Session, error) {
	var s api.Session
	err := c.post(ctx, "/v1/sessions", api.NewSession{Name: name}, &s)
	return s, err
}

// Session looks at a session.
func (c *Client) Session(ctx context.Context, session string) (api.Session, error) {
	var s api.Session
	err := c.get(ctx, "/v1/sessions/"+url.PathEscape(session), nil, &s)
	return s, err
}
