package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/silk-sandbox/silk/api"
)

// A follower acknowledges what the caller has taken, each 64 KiB, or a second of a slow caller; a viewer never does.
func TestAcks(t *testing.T) {
	for name, test := range map[string]struct {
		follows bool
		pieces  []int
		wait    time.Duration // of the caller, with each frame
		want    []int64
	}{
		"short pieces are acknowledged together": {true, slices.Repeat([]int{10 << 10}, 20), 0, []int64{70 << 10, 140 << 10}},
		"each piece of a slow caller":            {true, []int{10, 20, 30}, time.Second, []int64{10, 30, 60}},
		"what is long alone":                     {true, []int{100 << 10, 70 << 10}, 0, []int64{100 << 10, 170 << 10}},
		"nothing by who only watches":            {false, slices.Repeat([]int{10 << 10}, 20), time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &script{frames: []api.Frame{hello(0, 0)}}
				at := 0
				for _, n := range test.pieces {
					c.frames = append(c.frames, output("stdout", int64(at), strings.Repeat("x", n)))
					at += n
				}
				c.frames = append(c.frames, exit(int64(at), 0))
				s := streamOf(func(context.Context, Cursor) (socket, error) { return c, nil })
				s.follows = test.follows
				for f, err := range s.Frames(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if f.Type == api.FrameOutput && test.wait > 0 {
						<-time.After(test.wait)
					}
				}
				var got []int64
				for _, text := range c.sent {
					var cmd api.Command
					if err := json.Unmarshal(text, &cmd); err != nil || cmd.Type != "ack" {
						t.Fatalf("%s, %v", text, err)
					}
					got = append(got, cmd.Stdout)
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("acknowledged %v, want %v", got, test.want)
				}
			})
		})
	}
}

// The word is in the request and in that for the stream.
func TestFollowWord(t *testing.T) {
	var asked []url.Values
	c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query())
		if r.Method == http.MethodPost {
			answer(w, 201, api.Run{ID: testRun})
			return
		}
		answer(w, 404, api.Problem{Title: "there is no such thing"})
	})
	if _, err := c.SubmitFollowed(t.Context(), api.RunRequest{}, "word"); err != nil {
		t.Fatal(err)
	}
	if _, err := allFrames(t.Context(), c.Follow(testRun, Cursor{Stdout: 5}, "word")); err == nil {
		t.Fatal("there was a stream")
	}
	if len(asked) != 2 || asked[0].Encode() != "follow=word" || asked[1].Encode() != "follow=word&stderr=0&stdout=5" {
		t.Errorf("asked %v", asked)
	}
}
