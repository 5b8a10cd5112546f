//go:build unix

package httpapi_test

import (
	"testing"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// TestInputOverHTTP: the answer says where the next piece begins, of one that is refused too.
func TestInputOverHTTP(t *testing.T) {
	s := newStand(t, servetest.Config{})
	r := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: `{"profile":"test","args":["fake","cat"],"stdin_open":true}`}, 201)
	post := func(body string) call {
		return call{role: auth.Runner, method: "POST", path: "/v1/runs/" + r.ID + "/stdin", body: body}
	}
	for range 3 {
		if got := get[api.InputTaken](s, post(`{"data":"abc","offset":0}`), 200); got.Offset != 3 {
			t.Errorf("the next piece begins at %d", got.Offset)
		}
	}
	if p := get[api.Problem](s, post(`{"data":"x","offset":5}`), 409); p.Type != "urn:silk:input-offset" || p.Offset == nil || *p.Offset != 3 {
		t.Errorf("after a gap: %+v", p)
	}
	if p := get[api.Problem](s, post(`{"data":"x","offset":-5}`), 422); p.Errors[0].Field != "body.offset" {
		t.Errorf("below 0: %+v", p)
	}
	get[api.InputTaken](s, post(`{"end":true,"offset":3}`), 200)
	s.ended(r.ID)
	if _, text := s.do(call{role: auth.Runner, path: "/v1/runs/" + r.ID + "/output/stdout"}); string(text) != "abc" {
		t.Errorf("the program read %q", text)
	}
}

// TestInputOverSocket: pieces with an offset are answered, and can be sent again over the next connection.
func TestInputOverSocket(t *testing.T) {
	s := newStand(t, servetest.Config{})
	r := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: `{"profile":"test","args":["fake","cat"],"stdin_open":true}`}, 201)
	path := "/v1/runs/" + r.ID + "/stream?stdout=0"
	answer := func(f []api.Frame) api.Frame { return f[len(f)-1] }
	at := func(n int64) *int64 { return &n }
	c := s.socket(auth.Runner, path)
	send(s, c, api.Command{Type: "stdin", Data: "abc", Offset: at(0)})
	if f := answer(s.until(c, api.FrameInput)); f.Run != r.ID || f.Offset == nil || *f.Offset != 3 || f.Detail != "" {
		t.Errorf("answered %+v", f)
	}
	send(s, c, api.Command{Type: "stdin", Data: "def", Offset: at(3)})
	c.CloseNow() // whether that arrived is not known
	c = s.socket(auth.Runner, path)
	for _, cmd := range []api.Command{{Type: "stdin", Data: "abc", Offset: at(0)}, {Type: "stdin", Data: "def", Offset: at(3)}} {
		send(s, c, cmd)
		answer(s.until(c, api.FrameInput))
	}
	send(s, c, api.Command{Type: "stdin", Data: "x", Offset: at(100)})
	if f := answer(s.until(c, api.FrameInput)); f.Offset == nil || *f.Offset != 6 || f.Detail == "" {
		t.Errorf("after a gap %+v", f)
	}
	send(s, c, api.Command{Type: "stdin", Data: "ghi"}) // is not answered
	send(s, c, api.Command{Type: "stdin_end", Offset: at(9)})
	if f := answer(s.until(c, api.FrameInput)); f.Offset == nil || *f.Offset != 9 || f.Detail != "" {
		t.Errorf("the end %+v", f)
	}
	s.until(c, api.FrameExit)
	if _, text := s.do(call{role: auth.Runner, path: "/v1/runs/" + r.ID + "/output/stdout"}); string(text) != "abcdefghi" {
		t.Errorf("the program read %q", text)
	}
	late := s.socket(auth.Runner, path)
	s.until(late, api.FrameHello)
	send(s, late, api.Command{Type: "stdin", Data: "x", Offset: at(9)})
	s.until(late, api.FrameExit)
}
