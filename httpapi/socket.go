package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/serve"
)

// socket speaks silk.v1: frames to the client, commands from it.
func (h *handler) socket(w http.ResponseWriter, r *http.Request, id auth.Identity, f frames) {
	conn, err := websocket.Accept(refusing{w, "websocket", "this is no WebSocket handshake; without the header Upgrade the answer is server-sent events"}, r, &websocket.AcceptOptions{
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
		cancel(h.commands(ctx, conn, id, r.PathValue("run"), f))
	}()
	limit := sendTimeout
	if r.URL.Query().Has("follow") {
		limit = followTimeout
	}
	err = h.pump(ctx, id, f, func(frame []byte) error {
		// A canceled write breaks the connection, and the client would not hear why.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
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

// commandError is a message of a client that makes no sense.
type commandError struct{ text string }

func (e *commandError) Error() string { return e.text }

// commands does what a client sends until its connection ends. What a run refuses (input after its end, say) is no reason to
// close the stream, on which the client sees the run's end.
func (h *handler) commands(ctx context.Context, conn *websocket.Conn, id auth.Identity, run string, f frames) error {
	for {
		kind, text, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		var c api.Command
		if err := json.Unmarshal(text, &c); err != nil || kind != websocket.MessageText {
			return &commandError{"a command is a JSON object in a text message"}
		}
		if field, bad := badText(text, "command"); bad {
			return &commandError{field + " is not UTF-8; bytes go into b64"}
		}
		if run != "" {
			c.Run = run
		}
		if c.Type == "ack" {
			if v, ok := f.(*broker.Viewer); ok {
				v.Have(c.Stdout, c.Stderr)
			}
			continue
		}
		if c.Type != "stdin" { // whose bytes wait for the program
			if err := h.pace(ctx, id); err != nil {
				return err
			}
		}
		err = h.command(ctx, conn, id, c)
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

// tell answers a piece of input that has an offset: a client that reads this knows what it need not send again.
func tell(ctx context.Context, conn *websocket.Conn, c api.Command, next int64, refused error) error {
	if c.Offset == nil || errors.As(refused, new(*serve.InvalidError)) {
		return refused
	}
	f := api.Frame{Type: api.FrameInput, Run: c.Run}
	if refused == nil || errors.As(refused, new(*serve.InputError)) {
		f.Offset = &next
	}
	if refused != nil {
		if !errors.Is(refused, serve.ErrState) {
			return refused
		}
		f.Detail = refused.Error()
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, text)
}

func (h *handler) command(ctx context.Context, conn *websocket.Conn, id auth.Identity, c api.Command) error {
	s := h.cfg.Server
	switch c.Type {
	case "stdin":
		next, err := s.InputWaits(ctx, id, c.Run, api.Input{Data: c.Data, B64: c.B64, Offset: c.Offset}) // meanwhile the client waits too
		return tell(ctx, conn, c, next, err)
	case "stdin_end":
		next, err := s.Input(ctx, id, c.Run, api.Input{End: true, Offset: c.Offset})
		return tell(ctx, conn, c, next, err)
	case "resize":
		return s.Resize(ctx, id, c.Run, api.Size{Columns: c.Columns, Rows: c.Rows})
	case "cancel":
		return s.Cancel(ctx, id, c.Run)
	}
	return &commandError{fmt.Sprintf("there is no command %.20q", c.Type)}
}
