//go:build unix

package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// TestSessionIsResumed: one viewer of a session whose connection is cut again and again, while runs come, print and end: of each
// run every byte once and in order, and its end once.
func TestSessionIsResumed(t *testing.T) {
	const runs, size = 12, 1_500_000
	s := newStand(t, servetest.Config{Broker: broker.Config{Keep: 50 * time.Millisecond}})
	var mu sync.Mutex
	var bodies []io.Closer
	cuts := 0
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
			mu.Lock()
			bodies = append(bodies, resp.Body)
			mu.Unlock()
		}
		return resp, err
	})
	token, err := client.ParseToken(s.secrets[auth.Runner])
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{URL: s.url, Token: token, HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.NewSession(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ask := func(i int) {
		in := api.RunRequest{Profile: servetest.Profile, Session: session.ID, Args: []string{"fake", fmt.Sprintf("flood:%d", size+i), fmt.Sprintf("eprint:%d", i)}}
		if _, err := c.Submit(ctx, in, ""); err != nil {
			t.Error(err)
		}
	}
	at, ends, frames := map[string]int64{}, map[string]int64{}, 0
	stream := c.WatchSession(session.ID, client.SessionCursor{})
	go func() {
		for i := range runs {
			ask(i)
		}
	}()
	for f, err := range stream.Frames(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		switch f.Type {
		case api.FrameOutput:
			p, err := f.Bytes()
			key := f.Run + f.Channel
			if err != nil || *f.Offset != at[key] || f.Channel == "stdout" && p[0] != "0123456789"[at[key]%10] {
				t.Fatalf("at %d of %s comes %d: %v", at[key], key, *f.Offset, err)
			}
			at[key] += int64(len(p))
		case api.FrameGap:
			t.Fatalf("a gap: %+v", f)
		case api.FrameExit:
			if _, twice := ends[f.Run]; twice {
				t.Errorf("run %s ends twice", f.Run)
			}
			ends[f.Run] = f.Outcome.Stdout.Bytes
		}
		if frames++; frames%40 == 0 {
			mu.Lock()
			for _, b := range bodies {
				b.Close()
			}
			cuts += len(bodies)
			bodies = nil
			mu.Unlock()
		}
		if len(ends) == runs {
			break
		}
	}
	for run, n := range ends {
		if at[run+"stdout"] != n || n < size || at[run+"stderr"] == 0 {
			t.Errorf("run %s: %d bytes of %d", run, at[run+"stdout"], n)
		}
	}
	if len(ends) != runs || cuts < 5 {
		t.Errorf("%d ends, %d cuts", len(ends), cuts)
	}
	if cursor := stream.Cursor(); len(cursor.At) != 0 || cursor.After <= session.ID {
		t.Errorf("the cursor at the end is %+v", cursor)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestSessionCursorIsRefused: what is none is named.
func TestSessionCursorIsRefused(t *testing.T) {
	s := newStand(t, servetest.Config{})
	session := get[api.Session](s, call{role: auth.Runner, method: "POST", path: "/v1/sessions", body: `{}`}, 201)
	for query, field := range map[string]string{
		"after=x": "query.after", "after=": "query.after", "at=" + someRun + ":0:0": "query.after", "after=" + strings.Repeat("Z", 26): "query.after",
		"after=" + someRun + "&at=x": "query.at", "after=" + someRun + "&at=" + someRun + ":1": "query.at", "after=" + someRun + "&at=" + someRun + ":-1:0": "query.at",
		"after=" + someRun + "&at=" + someRun + ":1:2" + someRun + ":1:2": "query.at", "after=" + someRun + "&at=" + someRun + ":1:99999999999999999999": "query.at",
	} {
		p := get[api.Problem](s, call{role: auth.Runner, path: "/v1/sessions/" + session.ID + "/stream?" + query}, 400)
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", query, p)
		}
	}
	c := s.socket(auth.Runner, "/v1/sessions/"+session.ID+"/stream?after="+someRun+"&at="+someRun+":1:2,")
	c.CloseNow()
}
