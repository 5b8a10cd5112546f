package client

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/testenv"
)

var testTime = time.Unix(1e9, 0)

// streamServer serves the stream of one run over real sockets; each connection is what the next of lives makes of it.
func streamServer(t *testing.T, lives ...func(w http.ResponseWriter, r *http.Request)) (*Client, *atomic.Int32) {
	t.Helper()
	var n atomic.Int32
	c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		if i := int(n.Add(1)) - 1; i < len(lives) {
			lives[i](w, r)
			return
		}
		answer(w, 404, api.Problem{Title: "there is no such thing"})
	})
	return c, &n
}

// speak accepts a WebSocket and sends frames, the output from the cursor of the request on.
func speak(t *testing.T, text string, upTo int, end func(*websocket.Conn)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.Subprotocol}})
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		at, _ := strconv.Atoi(r.FormValue("stdout"))
		for _, f := range []api.Frame{hello(int64(at), 0), output("stdout", int64(at), text[at:upTo])} {
			if err := conn.Write(r.Context(), websocket.MessageText, mustEncode(f)); err != nil {
				t.Error(err)
			}
		}
		end(conn)
	}
}

// raw accepts a WebSocket by hand and writes bytes, of which the last frame may be a part only.
func raw(t *testing.T, head bool, frames ...[]byte) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455 section 4.2.2
		answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: silk.v1\r\nSec-WebSocket-Accept: " +
			base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"
		if !head {
			answer = answer[:30]
		}
		writeAll(t, buf.Writer, []byte(answer))
		for _, f := range frames {
			writeAll(t, buf.Writer, f)
		}
	}
}

func writeAll(t *testing.T, w *bufio.Writer, p []byte) {
	if _, err := w.Write(p); err != nil {
		t.Error(err)
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
}

// wsText is a text frame of RFC 6455 section 5.2, of fewer than 64 KiB.
func wsText(p []byte) []byte {
	return append([]byte{0x81, 126, byte(len(p) >> 8), byte(len(p))}, p...)
}

// Cuts in the middle of a frame and of a handshake, a server that stops, one that is away: the caller sees one stream.
func TestStreamOverBrokenNetwork(t *testing.T) {
	const text = "0123456789"
	half := wsText(mustEncode(output("stdout", 4, text[4:8])))
	var resumed string
	c, n := streamServer(t,
		speak(t, text, 4, func(*websocket.Conn) {}),                       // no close handshake
		raw(t, true, wsText(mustEncode(hello(4, 0))), half[:len(half)/2]), // cut in the middle of a frame
		raw(t, false), // and of a handshake
		func(w http.ResponseWriter, _ *http.Request) { answer(w, 503, api.Problem{Title: "the server stops"}) },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		speak(t, text, 7, func(conn *websocket.Conn) { conn.Close(websocket.StatusGoingAway, "the server stops") }),
		func(w http.ResponseWriter, r *http.Request) {
			resumed = r.URL.RawQuery
			speak(t, text, 10, func(conn *websocket.Conn) {
				if err := conn.Write(r.Context(), websocket.MessageText, mustEncode(exit(10, 0))); err != nil {
					t.Error(err)
				}
				conn.Close(websocket.StatusNormalClosure, "the run has ended")
			})(w, r)
		},
	)
	frames, err := allFrames(t.Context(), c.Watch(testRun, Cursor{}))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range frames {
		if f.Type == api.FrameGap {
			t.Errorf("there is a gap: %v", f)
		}
		got.WriteString(f.Data)
	}
	if got.String() != text || resumed != "stderr=0&stdout=7" || n.Load() != 7 {
		t.Errorf("got %q over %d connections, the last one from %s", got.String(), n.Load(), resumed)
	}
}

// A stream that ends politely, but without an exit frame, says nothing about the run.
func TestStreamWithoutExitIsUnknown(t *testing.T) {
	c, _ := streamServer(t, speak(t, "x", 1, func(conn *websocket.Conn) { conn.Close(websocket.StatusNormalClosure, "") }))
	frames, err := allFrames(t.Context(), c.Watch(testRun, Cursor{}))
	var p *api.Problem
	if !errors.As(err, &p) || p.Status != 404 || len(frames) != 2 {
		t.Errorf("got %v, %v; want the problem of the second connection", frames, err)
	}
	if _, err := c.Wait(t.Context(), testRun); err == nil {
		t.Error("Wait takes it for an end")
	}
}

func TestStreamNeedsItsProtocol(t *testing.T) {
	c, n := streamServer(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err == nil {
			conn.CloseNow()
		}
	})
	if _, err := allFrames(t.Context(), c.Watch(testRun, Cursor{})); !errors.Is(err, ErrUnknown) || n.Load() != 1 {
		t.Errorf("got %v after %d connections", err, n.Load())
	}
}

// Commands go over the connection of the stream while it is read, and a server that is slow is waited for.
func TestStreamCommands(t *testing.T) {
	got := make(chan api.Command, 1)
	c, _ := streamServer(t, speak(t, "x", 1, func(conn *websocket.Conn) {
		_, text, err := conn.Read(context.Background())
		var cmd api.Command
		if err != nil || json.Unmarshal(text, &cmd) != nil {
			t.Errorf("read %q: %v", text, err)
		}
		got <- cmd
		if err := conn.Write(context.Background(), websocket.MessageText, mustEncode(exit(1, 0))); err != nil {
			t.Error(err)
		}
	}))
	s := c.Watch(testRun, Cursor{})
	sent := make(chan error, 1)
	go func() { sent <- s.Send(t.Context(), api.Command{Type: "resize", Columns: 80, Rows: 24}) }()
	if _, err := allFrames(t.Context(), s); err != nil {
		t.Error(err)
	}
	if cmd := <-got; cmd != (api.Command{Type: "resize", Columns: 80, Rows: 24}) {
		t.Errorf("the server got %v", cmd)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestWait(t *testing.T) {
	c, _ := streamServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			t.Errorf("asked for %s, want the tail", r.URL)
		}
		speak(t, "x", 1, func(conn *websocket.Conn) {
			_ = conn.Write(r.Context(), websocket.MessageText, mustEncode(exit(1, 0)))
		})(w, r)
	})
	if out, err := c.Wait(t.Context(), testRun); err != nil || out.Kind != "ok" {
		t.Errorf("got %v, %v", out, err)
	}
}

// A client without idle connections leaves nothing behind when a stream is left.
func TestStreamLeavesNothing(t *testing.T) {
	testenv.NoLeaks(t)
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(speak(t, "x", 1, func(conn *websocket.Conn) {
		_, _, err := conn.Read(context.Background())
		if err == nil || errors.Is(err, io.ErrNoProgress) {
			t.Error("the client sent something")
		}
		close(gone)
	})))
	defer s.Close()
	c, err := New(Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for f, err := range c.Watch(testRun, Cursor{}).Frames(t.Context()) {
		if err != nil || f.Type == api.FrameOutput {
			break
		}
	}
	<-gone
}
