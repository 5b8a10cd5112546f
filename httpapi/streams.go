package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/serve"
)

const (
	beat        = 15 * time.Second // of silence before a ping: well under the 60 s after which proxies give up
	sendTimeout = 20 * time.Second // for one frame to a client that reads slowly; then the connection is closed
	maxCommand  = 2 << 20          // bytes of one command of a client
)

// frames is where a stream comes from: broker.Viewer, broker.Many, or a record.
type frames interface {
	Next(ctx context.Context) ([]byte, error)
}

// streams registers the two streams outside of the library, which knows no WebSockets, and describes them to it.
func (h *handler) streams(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/runs/{run}/stream", h.stream(func(r *http.Request, id auth.Identity) (frames, error) {
		c, err := cursorOf(r)
		if err != nil {
			return nil, err
		}
		run := r.PathValue("run")
		v, err := h.cfg.Server.Stream(r.Context(), id, run, c)
		if errors.Is(err, broker.ErrUnknownRun) {
			return h.replay(r.Context(), id, run, c)
		}
		return v, err
	}))
	mux.HandleFunc("GET /v1/sessions/{session}/stream", h.stream(func(r *http.Request, id auth.Identity) (frames, error) {
		return h.cfg.Server.SessionStream(r.Context(), id, r.PathValue("session"))
	}))
	h.describeStream("stream-run", "/v1/runs/{run}/stream", "run", "Watch a run", []int{400, 409, 416},
		&huma.Param{Name: "stdout", In: "query", Description: "Bytes of stdout that the viewer has; left out with stderr: the last 4 KiB of each come first", Schema: &huma.Schema{Type: "integer", Minimum: new(float64)}},
		&huma.Param{Name: "stderr", In: "query", Description: "The same of stderr", Schema: &huma.Schema{Type: "integer", Minimum: new(float64)}})
	h.describeStream("stream-session", "/v1/sessions/{session}/stream", "session", "Watch all runs of a session, those to come included", nil)
}

func (h *handler) describeStream(id, path, what, summary string, statuses []int, params ...*huma.Param) {
	ref := h.api.OpenAPI().Components.Schemas
	frame := ref.Schema(typeOf[api.Frame](), true, "Frame")
	ref.Schema(typeOf[api.Command](), true, "Command")
	fault := ref.Schema(typeOf[api.Problem](), true, "Problem")
	params = append([]*huma.Param{
		{Name: what, In: "path", Required: true, Schema: &huma.Schema{Type: "string", Pattern: "^[0-9A-HJKMNP-TV-Z]{26}$"}},
		{Name: "ticket", In: "query", Description: "In place of a token, for browsers", Schema: &huma.Schema{Type: "string"}},
	}, params...)
	problems := map[string]*huma.Response{}
	for _, status := range append([]int{401, 403, 404, 429}, statuses...) {
		problems[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{"application/problem+json": {Schema: fault}}}
	}
	problems["101"] = &huma.Response{Description: "WebSocket of subprotocol " + api.Subprotocol + ": the server sends one Frame a message, the client Commands"}
	problems["200"] = &huma.Response{Description: "Server-sent events, for clients without WebSocket: the data of each is one Frame, its id a cursor", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: frame}}}
	h.api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"streams"}, Parameters: params, Responses: problems,
		Description: "The first frame is hello, the last one of a run exit. A stream that ends without it says nothing about how the run ended.",
		Security:    []map[string][]string{{"token": {}}},
	})
}

// stream answers one request for a stream.
func (h *handler) stream(open func(*http.Request, auth.Identity) (frames, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
		id, _ := auth.FromContext(ctx)
		f, err := open(r, id)
		if err != nil {
			h.refuse(w, h.problemOf(ctx, err))
			return
		}
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			h.socket(w, r, id, f)
		} else {
			h.events(w, r, id, f)
		}
	}
}

// cursorOf reads where a viewer begins: from the query, or for an event source that reconnects from the id of the last event.
func cursorOf(r *http.Request) (broker.Cursor, error) {
	q := r.URL.Query()
	stdout, stderr, ok := strings.Cut(r.Header.Get("Last-Event-ID"), ",")
	if !ok {
		if !q.Has("stdout") && !q.Has("stderr") {
			return broker.Cursor{Tail: true}, nil
		}
		stdout, stderr = q.Get("stdout"), q.Get("stderr")
	}
	var c broker.Cursor
	for _, part := range []struct {
		name, text string
		to         *int64
	}{{"stdout", stdout, &c.Stdout}, {"stderr", stderr, &c.Stderr}} {
		if part.text == "" {
			continue
		}
		n, err := strconv.ParseInt(part.text, 10, 64)
		if err != nil || n < 0 {
			p := problem(http.StatusBadRequest, "invalid", "the request cannot be read", "")
			p.Errors = []api.FieldError{{Field: "query." + part.name, Detail: "it is not a number of bytes"}}
			return c, p
		}
		*part.to = n
	}
	return c, nil
}

// socket speaks silk.v1: frames to the client, commands from it.
func (h *handler) socket(w http.ResponseWriter, r *http.Request, id auth.Identity, f frames) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols:       []string{api.Subprotocol},
		InsecureSkipVerify: true, // front has compared the origin with the owner's list
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return // Accept has answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxCommand)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		cancel(h.commands(ctx, conn, id, r.PathValue("run")))
	}()
	err = h.pump(ctx, id, f, func(frame []byte) error {
		// A canceled write breaks the connection, and the client would not hear why.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
		defer cancel()
		return conn.Write(ctx, websocket.MessageText, frame)
	})
	code, reason := closing(ctx, err)
	conn.Close(code, reason)
	cancel(nil)
	<-done
}

// closing says why a WebSocket ends: RFC 6455 section 7.4.1.
func closing(ctx context.Context, err error) (websocket.StatusCode, string) {
	var bad *commandError
	switch {
	case errors.Is(err, io.EOF):
		return websocket.StatusNormalClosure, "the run has ended"
	case errors.As(context.Cause(ctx), &bad):
		return websocket.StatusUnsupportedData, bad.Error()
	case errors.Is(err, broker.ErrClosed):
		return websocket.StatusGoingAway, "the server stops"
	case errors.Is(err, auth.ErrUnauthorized):
		return websocket.StatusPolicyViolation, "the token is no good any more"
	case errors.Is(err, context.DeadlineExceeded):
		return websocket.StatusTryAgainLater, "too slow: come again with a cursor"
	}
	return websocket.StatusInternalError, "the stream broke"
}

// pump sends frames until they end, a ping in each silence, and looks every now and then whether the viewer still may watch.
func (h *handler) pump(ctx context.Context, id auth.Identity, f frames, send func([]byte) error) error {
	ping, err := json.Marshal(api.Frame{Type: api.FramePing})
	if err != nil {
		return err
	}
	looked := time.Now()
	for {
		wait, cancel := context.WithTimeout(ctx, beat)
		frame, err := f.Next(wait)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			frame, err = ping, nil
		}
		if err == nil && time.Since(looked) >= beat && id.Token != auth.LocalToken {
			looked = time.Now()
			err = h.cfg.Verifier.Still(ctx, id)
		}
		if err != nil {
			return err
		}
		if err := send(frame); err != nil {
			return err
		}
	}
}

// commandError is a message of a client that makes no sense.
type commandError struct{ text string }

func (e *commandError) Error() string { return e.text }

// commands does what a client sends until its connection ends. What a run refuses (input after its end, say) is no reason to
// close the stream, on which the client sees the run's end.
func (h *handler) commands(ctx context.Context, conn *websocket.Conn, id auth.Identity, run string) error {
	for {
		kind, text, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		var c api.Command
		if err := json.Unmarshal(text, &c); err != nil || kind != websocket.MessageText {
			return &commandError{"a command is a JSON object in a text message"}
		}
		if run != "" {
			c.Run = run
		}
		if c.Type != "stdin" { // whose bytes wait for the program
			if err := h.pace(ctx, id); err != nil {
				return err
			}
		}
		err = h.command(ctx, id, c)
		var invalid *serve.InvalidError
		switch {
		case errors.As(err, new(*commandError)):
			return err
		case errors.As(err, &invalid):
			return &commandError{invalid.Error()}
		}
	}
}

// pace makes a client that asks too often wait.
func (h *handler) pace(ctx context.Context, id auth.Identity) error {
	for {
		ok, after := h.requests.Allow(id.Token)
		if ok {
			return nil
		}
		timer := time.NewTimer(after)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (h *handler) command(ctx context.Context, id auth.Identity, c api.Command) error {
	s := h.cfg.Server
	switch c.Type {
	case "stdin":
		return s.InputWaits(ctx, id, c.Run, api.Input{Data: c.Data, B64: c.B64}) // meanwhile the client waits too
	case "stdin_end":
		return s.Input(ctx, id, c.Run, api.Input{End: true})
	case "resize":
		return s.Resize(ctx, id, c.Run, api.Size{Columns: c.Columns, Rows: c.Rows})
	case "cancel":
		return s.Cancel(ctx, id, c.Run)
	}
	return &commandError{fmt.Sprintf("there is no command %.20q", c.Type)}
}

// events sends server-sent events (HTML standard, section 9.2).
func (h *handler) events(w http.ResponseWriter, r *http.Request, id auth.Identity, f frames) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	if err := out.Flush(); err != nil { // the client sees that it is connected, though nothing may happen for long
		return
	}
	var at api.Tail
	_ = h.pump(r.Context(), id, f, func(frame []byte) error {
		if err := out.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
			return err
		}
		advance(&at, frame)
		if _, err := fmt.Fprintf(w, "id: %d,%d\ndata: %s\n\n", at.Stdout, at.Stderr, frame); err != nil {
			return err
		}
		return out.Flush()
	})
}

// advance moves a cursor behind a frame.
func advance(at *api.Tail, text []byte) {
	var f api.Frame
	if json.Unmarshal(text, &f) != nil {
		return
	}
	to := &at.Stdout
	if f.Channel == "stderr" {
		to = &at.Stderr
	}
	switch {
	case f.Type == api.FrameHello && f.TailFrom != nil:
		*at = *f.TailFrom
	case f.Type == api.FrameGap && f.To != nil:
		*to = *f.To
	case f.Type == api.FrameOutput && f.Offset != nil:
		if data, err := f.Bytes(); err == nil {
			*to = *f.Offset + int64(len(data))
		}
	}
}

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
