package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// NewLines is a connection with a message a line, as on stdin and stdout. What is no message is answered with the error that JSON-RPC 2.0
// section 5.1 has for it, and the session goes on: the SDK would end it, and the runs of it. w stays open. When r has ended, a client that
// reads no answer any more is not waited for.
func NewLines(r io.ReadCloser, w io.Writer) sdk.Transport {
	out := &answers{w: w, left: make(chan struct{})}
	pr, pw := io.Pipe()
	go func() {
		defer out.leave()
		_ = pw.CloseWithError(messages(pw, r, out))
	}()
	return strict{&sdk.IOTransport{Reader: lines{pr, r}, Writer: out}}
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
		case text[0] == '[' && several(text) != nil: // to be answered one by one: the SDK ends the session of a client that is too new for this
			whole = several(text)
		case !isMessage(text):
			answer = `{"jsonrpc":"2.0","id":` + idOf(text) + `,"error":{"code":-32600,"message":"invalid request: a message is an object with jsonrpc 2.0 and a method, or the answer to one"}}`
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

// isMessage says whether the SDK takes this for a message.
func isMessage(text []byte) bool {
	msg, err := jsonrpc.DecodeMessage(text)
	r, ok := msg.(*jsonrpc.Response)
	return err == nil && (!ok || r.Result != nil || r.Error != nil)
}

// several are the messages of a batch, a line each. nil: it is none.
func several(text []byte) (lines []byte) {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil {
		return nil
	}
	for _, one := range list {
		if !isMessage(one) {
			return nil
		}
		lines = append(append(lines, one...), '\n')
	}
	return lines
}

// idOf is the id of what is no message, if it has one that an answer may have.
func idOf(text []byte) string {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(text, &m) != nil || len(m.ID) == 0 || m.ID[0] == '{' || m.ID[0] == '[' {
		return "null"
	}
	return string(m.ID)
}

// lastAnswer is how long a client may take to read an answer when it sends nothing any more.
const lastAnswer = 5 * time.Second

var errUnread = errors.New("the client reads no answers")

// answers keeps what two write apart: each message is one Write.
type answers struct {
	mu   sync.Mutex
	w    io.Writer
	once sync.Once
	left chan struct{} // closed when the client sends nothing any more
}

func (a *answers) leave() { a.once.Do(func() { close(a.left) }) }

// Write writes one message. A pipe that nobody reads would hold it up for ever: then what writes is left behind, and ends with silk.
func (a *answers) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	type result struct {
		n   int
		err error
	}
	written := make(chan result, 1)
	w, text := a.w, bytes.Clone(b)
	go func() { n, err := w.Write(text); written <- result{n, err} }()
	select {
	case r := <-written:
		return r.n, r.err
	case <-a.left:
	}
	late := time.NewTimer(lastAnswer)
	defer late.Stop()
	select {
	case r := <-written:
		return r.n, r.err
	case <-late.C:
		a.w = unread{}
		return 0, errUnread
	}
}

// Close implements io.Closer.
func (a *answers) Close() error { a.leave(); return nil }

// unread is what is written to when nobody reads.
type unread struct{}

func (unread) Write([]byte) (int, error) { return 0, errUnread }
