//go:build unix

package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
)

const flooded = 20_000_000

// followed asks for a run that prints far more than the server keeps, to be followed with the word "me".
func followed(s *stand) api.Run {
	s.Helper()
	return get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs?follow=me", body: body("flood:20000000")}, 201)
}

func smallSpool(idle, away time.Duration) servetest.Config {
	return servetest.Config{Serve: serve.Config{SpoolBytes: 1 << 20}, Broker: broker.Config{FollowIdle: idle, FollowAway: away}}
}

// take reads frames up to n bytes of stdout, or the exit frame, and acknowledges each frame if ack is set.
func (s *stand) take(c *websocket.Conn, at, n int64, ack bool) (_ int64, lost int64, ended bool) {
	s.Helper()
	for at < n {
		f, err := s.next(c)
		if err != nil {
			s.Fatalf("at %d: %v", at, err)
		}
		switch f.Type {
		case api.FrameOutput:
			p, err := f.Bytes()
			if err != nil || *f.Offset != at || !bytes.HasPrefix(p, []byte{"0123456789"[at%10]}) {
				s.Fatalf("at %d comes %d: %v", at, *f.Offset, err)
			}
			at += int64(len(p))
		case api.FrameGap:
			lost += *f.To - *f.From
			at = *f.To
		case api.FrameExit:
			return at, lost, true
		}
		if ack {
			send(s, c, api.Command{Type: "ack", Stdout: at})
		}
	}
	return at, lost, false
}

// TestFollow: nothing is printed past a follower, who comes late, is killed, and comes again from where it was; another one, and a
// plain viewer, are not waited for.
func TestFollow(t *testing.T) {
	s := newStand(t, smallSpool(20*time.Second, 20*time.Second))
	r := followed(s)
	path := "/v1/runs/" + r.ID + "/stream?stdout="
	other := s.socket(auth.Runner, path+"0&follow=other")
	if hello := s.until(other, api.FrameHello)[0]; hello.Followed {
		t.Error("another word follows too")
	}
	other.CloseNow()
	var at int64
	for _, part := range []int64{3_000_000, 6_000_000, 12_000_000} {
		c := s.socket(auth.Runner, path+itoa(at)+"&follow=me")
		if hello := s.until(c, api.FrameHello)[0]; !hello.Followed {
			t.Fatalf("at %d it does not follow", at)
		}
		var lost int64
		if at, lost, _ = s.take(c, at, part, true); lost != 0 {
			t.Fatalf("%d bytes are lost at %d", lost, at)
		}
		c.CloseNow()
	}
	if got := get[api.Run](s, call{role: auth.Runner, path: "/v1/runs/" + r.ID}, 200); got.State != api.StateRunning {
		t.Errorf("it did not wait for its follower: %s", got.State)
	}
	c := s.socket(auth.Runner, path+itoa(at)+"&follow=me")
	at, lost, ended := s.take(c, at, flooded+1, true)
	if at != flooded || lost != 0 || !ended {
		t.Errorf("%d bytes, %d lost, ended %t", at, lost, ended)
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// TestFollowerIsNotWaitedForForEver: one that reads nothing, one that acknowledges nothing, one that is killed.
func TestFollowerIsNotWaitedForForEver(t *testing.T) {
	for name, does := range map[string]func(s *stand, path string){
		"it reads nothing": func(s *stand, path string) { s.socket(auth.Runner, path+"0&follow=me") },
		"it acknowledges nothing": func(s *stand, path string) {
			s.take(s.socket(auth.Runner, path+"0&follow=me"), 0, 2_000_000, false)
		},
		"it is killed": func(s *stand, path string) {
			c := s.socket(auth.Runner, path+"0&follow=me")
			s.take(c, 0, 2_000_000, true)
			c.CloseNow()
		},
		"it never comes": func(*stand, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, smallSpool(50*time.Millisecond, 50*time.Millisecond))
			r := followed(s)
			does(s, "/v1/runs/"+r.ID+"/stream?stdout=")
			s.ended(r.ID)
			if stats := s.Broker.Stats(); stats.Held == 0 {
				t.Error("the program was not held up at all")
			}
			c := s.socket(auth.Runner, "/v1/runs/"+r.ID+"/stream?stdout=0&follow=me")
			if at, lost, ended := s.take(c, 0, flooded+1, true); lost == 0 || at != flooded || !ended {
				t.Errorf("afterwards %d of %d bytes are lost, ended %t", lost, at, ended)
			}
		})
	}
}

// TestFollowerAndDeadline: the program's time goes on while it waits, and its end does not wait for the follower.
func TestFollowerAndDeadline(t *testing.T) {
	s := newStand(t, smallSpool(time.Hour, time.Hour))
	in := strings.TrimSuffix(body("flood:20000000"), "}") + `,"limits":{"timeout_ms":300}}`
	r := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs?follow=me", body: in}, 201)
	began := time.Now()
	c := s.socket(auth.Runner, "/v1/runs/"+r.ID+"/stream?stdout=0&follow=me")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	var got api.Run
	for got.State != api.StateEnded {
		got = get[api.Run](s, call{role: auth.Runner, path: "/v1/runs/" + r.ID}, 200)
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("after %v it has not ended: %+v", time.Since(began), got)
		}
	}
	at, lost, _ := s.take(c, 0, flooded+1, true)
	if got.Outcome.Kind != "timeout" || lost != 0 || at != got.Outcome.Stdout.Bytes || at == flooded {
		t.Errorf("outcome %s, %d bytes of %d came, %d lost", got.Outcome.Kind, at, got.Outcome.Stdout.Bytes, lost)
	}
}

// TestFollowIsRefused: to those who may not end the run, without a WebSocket, and to a word that is none.
func TestFollowIsRefused(t *testing.T) {
	s := newStand(t, servetest.Config{})
	r := s.submit("sleep")
	path := "/v1/runs/" + r.ID + "/stream?follow="
	for _, test := range []struct {
		name, path, want string
		role             auth.Role
	}{
		{"a viewer", path + "me", "403", auth.Viewer},
		{"no word", path, "400", auth.Runner},
		{"a word with a space", path + "a%20b", "400", auth.Runner},
		{"a long word", path + strings.Repeat("x", 65), "400", auth.Runner},
	} {
		if _, err := s.dial(test.role, test.path); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	p := get[api.Problem](s, call{role: auth.Runner, path: path + "me"}, 400)
	if len(p.Errors) != 1 || p.Errors[0].Field != "query.follow" || !strings.Contains(p.Errors[0].Detail, "WebSocket") {
		t.Errorf("as events: %+v", p)
	}
	if p := get[api.Problem](s, call{role: auth.Runner, method: "POST", path: "/v1/runs?follow=a%20b", body: body("exit:0")}, 422); p.Errors[0].Field != "query.follow" {
		t.Errorf("a request with a bad word: %+v", p)
	}
	c := s.socket(auth.Owner, path+"me") // may, since it may end the run
	if hello := s.until(c, api.FrameHello)[0]; !hello.Followed {
		t.Error("the owner does not follow")
	}
	plain := s.socket(auth.Viewer, strings.TrimSuffix(path, "?follow="))
	send(s, plain, api.Command{Type: "ack", Stdout: 1 << 40}) // means nothing
	send(s, c, api.Command{Type: "cancel"})
	s.until(plain, api.FrameExit)
	if _, err := s.next(plain); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("after the exit frame: %v", errors.Unwrap(err))
	}
}
