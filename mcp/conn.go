package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// strict is a transport that keeps what the SDK does not of JSON-RPC and of the protocol: errors have a code, and a call that its client
// has canceled is not answered (MCP 2025-06-18, "Cancellation").
type strict struct{ sdk.Transport }

// Connect implements sdk.Transport.
func (s strict) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := s.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &strictConn{Connection: c, calls: map[jsonrpc.ID]bool{}}, nil
}

type strictConn struct {
	sdk.Connection

	mu    sync.Mutex
	calls map[jsonrpc.ID]bool // that are not answered yet: whether they were canceled
}

// Read implements sdk.Connection.
func (c *strictConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	req, ok := msg.(*jsonrpc.Request)
	if err != nil || !ok {
		return msg, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case req.IsCall():
		c.calls[req.ID] = false
	case req.Method == "notifications/cancelled":
		var params struct {
			ID any `json:"requestId"`
		}
		if json.Unmarshal(req.Params, &params) != nil {
			break
		}
		id, err := jsonrpc.MakeID(params.ID)
		if _, known := c.calls[id]; err == nil && known {
			c.calls[id] = true
		}
	}
	return msg, nil
}

// Write implements sdk.Connection.
func (c *strictConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	r, ok := msg.(*jsonrpc.Response)
	if !ok {
		return c.Connection.Write(ctx, msg)
	}
	c.mu.Lock()
	canceled := c.calls[r.ID]
	delete(c.calls, r.ID)
	c.mu.Unlock()
	if canceled {
		return nil
	}
	var coded *jsonrpc.Error
	if r.Error != nil && (!errors.As(r.Error, &coded) || coded.Code == 0) {
		code := int64(jsonrpc.CodeInternalError)
		if strings.HasSuffix(r.Error.Error(), "during session initialization") {
			code = jsonrpc.CodeInvalidRequest
		}
		r = &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: code, Message: r.Error.Error()}}
	}
	return c.Connection.Write(ctx, r)
}
