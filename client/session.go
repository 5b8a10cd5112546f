package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/silk-sandbox/silk/api"
)

// SessionCursor is where a [SessionStream] goes on. Its zero value begins: with the last 4 KiB of each channel of what lives.
type SessionCursor struct {
	// After is the newest run that the viewer knows; the id of the session if it knows none.
	After string

	// At are the runs whose exit frame it does not have, and what it has of their output.
	At map[string]Cursor
}

// SessionStream follows all runs of a session, those to come included, over one connection. [SessionStream.Frames] is for one
// goroutine and may be called once.
type SessionStream struct {
	session  string
	patience time.Duration
	dial     func(context.Context, url.Values) (socket, error)
	newest   func(context.Context) (string, error) // run of the session; "": there is none
	used     atomic.Bool

	after string
	runs  map[string]*follower // that have not ended
	ended []string             // the last runs whose exit frame was given
}

// keptEnded is how many runs that have ended are known again, of those that come a second time: some seconds' worth.
const keptEnded = 4096

// WatchSession makes a stream of the frames of all runs of a session. It connects when Frames is ranged over.
func (c *Client) WatchSession(session string, from SessionCursor) *SessionStream {
	s := &SessionStream{
		session: session, patience: c.patience, after: from.After, runs: map[string]*follower{},
		dial: func(ctx context.Context, q url.Values) (socket, error) {
			return c.dial(ctx, "/v1/sessions/"+url.PathEscape(session)+"/stream", q)
		},
		newest: func(ctx context.Context) (string, error) {
			for r, err := range c.Runs(ctx, RunFilter{Session: session, Page: 1}) {
				return r.ID, err
			}
			return "", nil
		},
	}
	for run, at := range from.At {
		s.runs[run] = &follower{run: run, at: at, greeted: true}
	}
	return s
}

// Cursor is where a stream would go on that comes after this one. It is for the goroutine that ranges over Frames.
func (s *SessionStream) Cursor() SessionCursor {
	c := SessionCursor{After: s.after, At: map[string]Cursor{}}
	for run, f := range s.runs {
		c.At[run] = f.at
	}
	return c
}

// Frames gives the frames of the runs as they come; each has its Run. What is said of [Stream.Frames] holds for each of them: hello,
// then each byte once or in a gap, then exit. When the connection is lost it connects again, each run goes on from where it was,
// and runs that came meanwhile from their begin, also those that have ended. It ends with an error, or when the caller wants no
// more: another run may come.
func (s *SessionStream) Frames(ctx context.Context) iter.Seq2[api.Frame, error] {
	return func(yield func(api.Frame, error) bool) {
		if s.used.Swap(true) {
			yield(api.Frame{}, errors.New("watch a session: Frames was called before"))
			return
		}
		resume := s.after != ""
		if !resume { // what comes from now on is to come whole
			newest, err := s.newest(ctx)
			if err != nil {
				yield(api.Frame{}, err)
				return
			}
			s.after = max(newest, s.session)
		}
		err := persist(ctx, s.patience, func(ctx context.Context) (attempt, error) {
			a, err := s.connect(ctx, resume, yield)
			resume = resume || a.heard
			return a, err
		})
		if err != nil {
			yield(api.Frame{}, err)
		}
	}
}

// query says where the next connection begins.
func (s *SessionStream) query(resume bool) url.Values {
	if !resume {
		return url.Values{"after": {s.after}}
	}
	var at strings.Builder
	for _, run := range slices.Sorted(maps.Keys(s.runs)) {
		fmt.Fprintf(&at, "%s:%d:%d,", run, s.runs[run].at.Stdout, s.runs[run].at.Stderr)
	}
	return url.Values{"after": {s.after}, "at": {at.String()}}
}

// connect gives what comes over one connection.
func (s *SessionStream) connect(ctx context.Context, resume bool, yield func(api.Frame, error) bool) (a attempt, err error) {
	conn, err := s.dial(ctx, s.query(resume))
	if err != nil {
		return a, err
	}
	defer conn.CloseNow()
	a.heard = true // it is connected: what comes now is not missed
	for _, f := range s.runs {
		f.fresh = true
	}
	for {
		text, err := read(ctx, conn)
		if err != nil {
			return a, err
		}
		frames, err := s.take(text)
		if err != nil {
			return a, err
		}
		for _, f := range frames {
			a.progress = a.progress || f.Type != api.FrameHello
			if !yield(f, nil) {
				a.ended = true
				return a, nil
			}
		}
	}
}

// take returns what a message means for the caller.
func (s *SessionStream) take(text []byte) ([]api.Frame, error) {
	run, err := runOf(text)
	if err != nil || run == "" {
		return nil, err
	}
	f := s.runs[run]
	if f == nil {
		if slices.Contains(s.ended, run) {
			return nil, nil // it comes a second time
		}
		f = &follower{run: run, at: Cursor{Tail: true}, fresh: true}
		s.runs[run] = f
		s.after = max(s.after, run)
	}
	frames, err := f.take(text)
	if n := len(frames); n > 0 && frames[n-1].Type == api.FrameExit {
		delete(s.runs, run)
		if s.ended = append(s.ended, run); len(s.ended) > keptEnded {
			s.ended = slices.Clone(s.ended[keptEnded/2:])
		}
	}
	return frames, err
}
