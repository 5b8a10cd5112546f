//go:build unix

package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// dial opens a WebSocket.
func (s *stand) dial(role auth.Role, path string) (*websocket.Conn, error) {
	s.Helper()
	options := &websocket.DialOptions{Subprotocols: []string{api.Subprotocol}, HTTPHeader: http.Header{}}
	if role != "" {
		options.HTTPHeader.Set("Authorization", "Bearer "+s.secrets[role])
	}
	c, resp, err := websocket.Dial(s.Context(), s.url+path, options)
	if resp != nil {
		if err := note(http.MethodGet, path, resp.StatusCode); err != nil {
			s.Error(err)
		}
	}
	if err != nil {
		if resp != nil {
			err = fmt.Errorf("%d: %w", resp.StatusCode, err)
		}
		return nil, err
	}
	s.Cleanup(func() { c.CloseNow() })
	c.SetReadLimit(1 << 20)
	return c, nil
}

func (s *stand) socket(role auth.Role, path string) *websocket.Conn {
	s.Helper()
	c, err := s.dial(role, path)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// next reads one frame.
func (s *stand) next(c *websocket.Conn) (api.Frame, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	_, text, err := c.Read(ctx)
	var f api.Frame
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	return f, err
}

// until reads frames to the first one of a kind.
func (s *stand) until(c *websocket.Conn, kind api.FrameType) (frames []api.Frame) {
	s.Helper()
	for {
		f, err := s.next(c)
		if err != nil {
			s.Fatalf("before a frame %s: %v", kind, err)
		}
		if frames = append(frames, f); f.Type == kind {
			return frames
		}
	}
}

func send(s *stand, c *websocket.Conn, cmd api.Command) {
	s.Helper()
	text, err := json.Marshal(cmd)
	if err == nil {
		err = c.Write(s.Context(), websocket.MessageText, text)
	}
	if err != nil {
		s.Fatal(err)
	}
}

func TestSocket(t *testing.T) {
	s := newStand(t, servetest.Config{})
	in := `{"profile":"test","args":["fake","print:ready\\n","cat"],"stdin_open":true}`
	r := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: in}, 201)
	c := s.socket(auth.Runner, "/v1/runs/"+r.ID+"/stream?stdout=0&stderr=0")
	if c.Subprotocol() != api.Subprotocol {
		t.Errorf("subprotocol %q", c.Subprotocol())
	}
	if f := s.until(c, api.FrameOutput); f[0].Type != api.FrameHello || f[len(f)-1].Data != "ready\n" {
		t.Errorf("frames %+v", f)
	}
	send(s, c, api.Command{Type: "stdin", Data: "hello "})
	send(s, c, api.Command{Type: "stdin", B64: "dGhlcmU="})
	send(s, c, api.Command{Type: "stdin_end"})
	send(s, c, api.Command{Type: "stdin", Data: "too late"}) // refused, and the stream goes on
	frames := s.until(c, api.FrameExit)
	text := ""
	for _, f := range frames {
		text += f.Data
	}
	if exit := frames[len(frames)-1]; text != "hello there" || exit.Outcome.Kind != "ok" {
		t.Errorf("%q, %+v", text, exit.Outcome)
	}
	if _, err := s.next(c); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("after the exit frame: %v", err)
	}
	late := s.socket(auth.Viewer, "/v1/runs/"+r.ID+"/stream?stdout=10")
	for _, f := range s.until(late, api.FrameExit) {
		if f.Type == api.FrameOutput && (*f.Offset != 10 || f.Data != "lo there"[len("lo there")-len(f.Data):] && f.Data == "") {
			t.Errorf("resumed at %d with %q", *f.Offset, f.Data)
		}
	}
}

// TestLongInput: a client that sends more than the program has read waits, and nothing is lost.
func TestLongInput(t *testing.T) {
	s := newStand(t, servetest.Config{})
	reads := make(chan struct{})
	s.Fake.Started = func(driver.Spec) { <-reads }
	r := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: `{"profile":"test","args":["fake","cat"],"stdin_open":true}`}, 201)
	c := s.socket(auth.Runner, "/v1/runs/"+r.ID+"/stream?stdout=0")
	const pieces, size = 50, 100_000
	go func() {
		for i := range pieces {
			if i == pieces/2 {
				close(reads)
			}
			text, _ := json.Marshal(api.Command{Type: "stdin", Data: strings.Repeat(string(rune('a'+i%26)), size)})
			if c.Write(t.Context(), websocket.MessageText, text) != nil {
				return
			}
		}
		_ = c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"stdin_end"}`))
	}()
	at := 0
	for _, f := range s.until(c, api.FrameExit) {
		for i := range f.Data {
			if f.Type == api.FrameOutput && f.Data[i] != byte('a'+at/size%26) {
				t.Fatalf("byte %d is %q", at, f.Data[i])
			}
			at++
		}
	}
	if at != pieces*size {
		t.Errorf("%d bytes came back, want %d", at, pieces*size)
	}
}

func TestSocketCancels(t *testing.T) {
	s := newStand(t, servetest.Config{})
	r := s.submit("print:ready\\n", "sleep")
	viewer := s.socket(auth.Viewer, "/v1/runs/"+r.ID+"/stream")
	s.until(viewer, api.FrameStarted)
	send(s, viewer, api.Command{Type: "cancel"}) // not a viewer's to do
	c := s.socket(auth.Runner, "/v1/runs/"+r.ID+"/stream")
	s.until(c, api.FrameStarted)
	send(s, c, api.Command{Type: "cancel"})
	for _, c := range []*websocket.Conn{c, viewer} {
		frames := s.until(c, api.FrameExit)
		if out := frames[len(frames)-1].Outcome; out.Kind != "canceled" {
			t.Errorf("outcome %+v", out)
		}
	}
}

func TestSocketRefusesNonsense(t *testing.T) {
	s := newStand(t, servetest.Config{})
	r := s.submit("sleep")
	for name, text := range map[string]string{"no JSON": "hello", "an unknown command": `{"type":"reboot"}`} {
		c := s.socket(auth.Runner, "/v1/runs/"+r.ID+"/stream")
		if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		var err error
		for err == nil {
			_, err = s.next(c)
		}
		if websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
			t.Errorf("%s: %v", name, err)
		}
	}
	get[struct{}](s, call{role: auth.Runner, method: "POST", path: "/v1/runs/" + r.ID + "/cancel"}, 202)
	s.ended(r.ID)
}

func TestTicket(t *testing.T) {
	s := newStand(t, servetest.Config{})
	r := s.submit("print:x")
	path := "/v1/runs/" + r.ID + "/stream"
	made := get[api.Ticket](s, call{role: auth.Runner, method: "POST", path: "/v1/tickets", body: `{"path":"` + path + `"}`}, 201)
	s.until(s.socket("", path+"?ticket="+made.Ticket), api.FrameExit)
	if _, err := s.dial("", path+"?ticket="+made.Ticket); err == nil || !strings.HasPrefix(err.Error(), "401") {
		t.Errorf("a second time: %v", err)
	}
	other := get[api.Ticket](s, call{role: auth.Runner, method: "POST", path: "/v1/tickets", body: `{"path":"` + path + `"}`}, 201)
	if resp, _ := s.do(call{path: "/v1/runs/" + r.ID + "?ticket=" + other.Ticket}); resp.StatusCode != 401 {
		t.Errorf("a ticket elsewhere: %d", resp.StatusCode)
	}
}

// TestStreamOfSession: one socket carries what runs of a session print, and commands to them.
func TestStreamOfSession(t *testing.T) {
	s := newStand(t, servetest.Config{})
	session := get[api.Session](s, call{role: auth.Runner, method: "POST", path: "/v1/sessions", body: `{}`}, 201)
	c := s.socket(auth.Runner, "/v1/sessions/"+session.ID+"/stream")
	in := func(ops string) string {
		return `{"profile":"test","session":"` + session.ID + `","args":["fake",` + ops + `]}`
	}
	one := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: in(`"print:one"`)}, 201)
	two := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: in(`"sleep"`)}, 201)
	ended := map[string]string{}
	for len(ended) < 2 {
		f, err := s.next(c)
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == api.FrameStarted && f.Run == two.ID {
			send(s, c, api.Command{Type: "cancel", Run: two.ID})
		}
		if f.Type == api.FrameExit {
			ended[f.Run] = f.Outcome.Kind
		}
	}
	if ended[one.ID] != "ok" || ended[two.ID] != "canceled" {
		t.Errorf("ended %v", ended)
	}
}

// TestEvents: server-sent events, and a reconnection with the id of the last one.
func TestEvents(t *testing.T) {
	s := newStand(t, servetest.Config{})
	r := s.submit("flood:300000", "eprint:\\xff\\xfe")
	read := func(last string) (stdout, stderr int, id string) {
		headers := map[string]string{"Accept": "text/event-stream"}
		path := "/v1/runs/" + r.ID + "/stream?stdout=0"
		if last != "" {
			headers["Last-Event-ID"] = last
		}
		resp, text := s.do(call{role: auth.Runner, path: path, headers: headers})
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
		for event := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
			line, data, _ := strings.Cut(event, "\n")
			id = strings.TrimPrefix(line, "id: ")
			var f api.Frame
			if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &f); err != nil {
				t.Fatal(err)
			}
			p, err := f.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			switch f.Channel {
			case "stdout":
				stdout += len(p)
			case "stderr":
				stderr += len(p)
			}
		}
		return stdout, stderr, id
	}
	stdout, stderr, id := read("")
	if stdout != 300_000 || stderr != 2 || id != "300000,2" {
		t.Errorf("%d and %d bytes, id %s", stdout, stderr, id)
	}
	if stdout, stderr, _ := read("299990,1"); stdout != 10 || stderr != 1 {
		t.Errorf("the rest has %d and %d bytes", stdout, stderr)
	}
}

// TestCuts: a viewer whose socket is cut again and again gets every byte exactly once.
func TestCuts(t *testing.T) {
	s := newStand(t, servetest.Config{})
	r := s.submit("flood:3000000")
	var at int64
	for cut := 0; ; cut++ {
		c := s.socket(auth.Runner, "/v1/runs/"+r.ID+"/stream?stdout="+strconv.FormatInt(at, 10))
		ended := false
		for n := 0; n < 12+cut; n++ {
			f, err := s.next(c)
			if errors.Is(err, io.EOF) || websocket.CloseStatus(err) == websocket.StatusNormalClosure {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if f.Type == api.FrameGap {
				t.Fatalf("a gap: %+v", f)
			}
			if f.Type == api.FrameOutput {
				p, err := f.Bytes()
				if err != nil || *f.Offset != at || p[0] != "0123456789"[at%10] {
					t.Fatalf("at %d comes %d: %v", at, *f.Offset, err)
				}
				at += int64(len(p))
			}
			ended = ended || f.Type == api.FrameExit
		}
		c.CloseNow()
		if ended {
			break
		}
	}
	if at != 3_000_000 {
		t.Errorf("%d bytes", at)
	}
}

// TestHandshakes: what is no handshake is told so in problem details; HEAD of a stream has an end.
func TestHandshakes(t *testing.T) {
	s := newStand(t, servetest.Config{})
	run := s.submit("sleep").ID
	session := get[api.Session](s, call{role: auth.Runner, method: "POST", path: "/v1/sessions", body: `{}`}, 201).ID
	for _, path := range []string{"/v1/runs/" + run + "/stream", "/v1/sessions/" + session + "/stream"} {
		for want, headers := range map[int]map[string]string{
			426: {"Upgrade": "websocket"},
			400: {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "short"},
		} {
			resp, text := s.do(call{role: auth.Runner, path: path, headers: headers})
			var p api.Problem
			if err := json.Unmarshal(text, &p); err != nil || resp.StatusCode != want || p.Status != want || p.Type != "urn:silk:websocket" {
				t.Errorf("%v: %d %s", headers, resp.StatusCode, text)
			}
		}
		if resp, _ := s.do(call{role: auth.Runner, method: "HEAD", path: path}); resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("HEAD: %d %v", resp.StatusCode, resp.Header)
		}
	}
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for _, method := range []string{http.MethodHead, http.MethodGet} { // over one connection: the second is answered when the first is
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+"/v1/runs/"+run, nil)
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodHead {
			r.URL.Path += "/stream"
		}
		r.Header.Set("Authorization", "Bearer "+s.secrets[auth.Runner])
		resp, err := client.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, %v", method, resp.StatusCode, err)
		}
	}
}

// TestSubprotocol: a WebSocket is silk.v1 or none. Who offers nothing leaves it to the server; who offers others is refused before
// anything is done, and told which header it is.
func TestSubprotocol(t *testing.T) {
	s := newStand(t, servetest.Config{})
	run := s.submit("sleep").ID
	path := "/v1/runs/" + run + "/stream"
	shake := map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
	for _, offer := range []string{"silk.v2", "chat, superchat", "silk.v1.1"} {
		shake["Sec-WebSocket-Protocol"] = offer
		resp, text := s.do(call{role: auth.Runner, path: path, headers: shake})
		var p api.Problem
		if err := json.Unmarshal(text, &p); err != nil || resp.StatusCode != 400 || p.Type != "urn:silk:subprotocol" ||
			len(p.Errors) != 1 || p.Errors[0].Field != "header.Sec-WebSocket-Protocol" || !strings.Contains(p.Errors[0].Detail, "silk.v1") {
			t.Errorf("%s: %d %s", offer, resp.StatusCode, text)
		}
	}
	if n := s.Broker.Stats().Viewers; n != 0 {
		t.Errorf("there are %d viewers", n)
	}
	for _, offers := range [][]string{nil, {"chat", "silk.v1"}} {
		header := http.Header{"Authorization": {"Bearer " + s.secrets[auth.Runner]}}
		c, _, err := websocket.Dial(t.Context(), s.url+path, &websocket.DialOptions{Subprotocols: offers, HTTPHeader: header})
		if err != nil {
			t.Fatalf("%v: %v", offers, err)
		}
		if f := s.until(c, api.FrameHello); f[0].Run != run || len(offers) > 0 != (c.Subprotocol() == api.Subprotocol) {
			t.Errorf("%v: %+v over %q", offers, f, c.Subprotocol())
		}
		c.CloseNow()
	}
}

// TestBytesThatAreNoText are refused by name, not replaced.
func TestBytesThatAreNoText(t *testing.T) {
	s := newStand(t, servetest.Config{})
	for body, field := range map[string]string{
		"{\"profile\":\"test\",\"args\":[\"fake\",\"print:\xff\"]}":                        "body.args[1]",
		`{"profile":"test","args":["fake"],"files":[{"path":"a","text":"\ud800"}]}`:        "body.files[0].text",
		"{\"profile\":\"test\",\"code\":\"" + strings.Repeat("x", 300<<10) + "\xe2\x82\"}": "body.code",
	} {
		p := get[api.Problem](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: body}, 422)
		if p.Type != "urn:silk:invalid" || len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%+v, want %s", p, field)
		}
	}
	r := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: `{"profile":"test","args":["fake","cat"],"stdin_open":true}`}, 201)
	if p := get[api.Problem](s, call{role: auth.Runner, method: "POST", path: "/v1/runs/" + r.ID + "/stdin", body: "{\"data\":\"\xff\"}"}, 422); p.Errors[0].Field != "body.data" {
		t.Errorf("input: %+v", p)
	}
	c := s.socket(auth.Runner, "/v1/runs/"+r.ID+"/stream")
	if err := c.Write(t.Context(), websocket.MessageText, []byte("{\"type\":\"stdin\",\"data\":\"\xff\"}")); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		_, err = s.next(c)
	}
	if websocket.CloseStatus(err) != websocket.StatusUnsupportedData || !strings.Contains(err.Error(), "command.data is not UTF-8") {
		t.Errorf("over a socket: %v", err)
	}
}
