package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// NewLines is a connection with a message a line, as on stdin and stdout. What is no message is answered with the error that JSON-RPC 2.0
// section 5.1 has for it, and the session goes on: the SDK would end it, and the runs of it. w stays open.
func NewLines(r io.ReadCloser, w io.Writer) sdk.Transport {
	out := &answers{w: w}
	pr, pw := io.Pipe()
	go func() { _ = pw.CloseWithError(messages(pw, r, out)) }()
	return &sdk.IOTransport{Reader: lines{pr, r}, Writer: out}
}

// lines is what the SDK reads; closing it ends the reading behind it.
type lines struct {
	*io.PipeReader

	behind io.Closer
}

func (l lines) Close() error { return errors.Join(l.PipeReader.Close(), l.behind.Close()) }

// messages passes on each line that may be a message, and answers the others.
func messages(to io.Writer, from io.Reader, out io.Writer) error {
	in := bufio.NewReader(from)
	for {
		var whole []byte
		var err error
		for { // in pieces, so that a line without end takes no more memory than the SDK allows it
			var piece []byte
			piece, err = in.ReadSlice('\n')
			whole = append(whole, piece...)
			if !errors.Is(err, bufio.ErrBufferFull) || len(whole) > sdk.DefaultMaxLineLength {
				break
			}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil // the rest follows, and the SDK refuses it
		}
		answer := ""
		switch text := bytes.TrimSpace(whole); {
		case len(text) == 0, len(whole) > sdk.DefaultMaxLineLength:
		case !json.Valid(text):
			answer = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error: a line that is no JSON"}}`
		case text[0] != '{' && text[0] != '[':
			answer = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: a message is an object"}}`
		}
		var passErr error
		if answer != "" {
			_, passErr = io.WriteString(out, answer+"\n")
		} else {
			_, passErr = to.Write(whole)
		}
		if err = errors.Join(passErr, err); err != nil {
			if errors.Is(err, io.EOF) && passErr == nil {
				return io.EOF
			}
			return err
		}
	}
}

// answers keeps what two write apart: each message is one Write.
type answers struct {
	mu sync.Mutex
	w  io.Writer
}

func (a *answers) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.w.Write(b)
}

func (a *answers) Close() error { return nil }
