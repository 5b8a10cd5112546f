package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/internal/logkey"
)

// Resume is where a viewer of a session goes on.
type Resume struct {
	// After is the newest run that it knows. Runs that were accepted later come from their begin, whether they have ended or not.
	After string

	// At are the runs whose exit frame it does not have, with what it has of them. nil: it begins, and what lives and is not
	// newer than After comes with its tail.
	At map[string]broker.Cursor
}

// margin is how much older than the newest known run one may be that the viewer does not know.
func (r Resume) margin() time.Duration {
	if r.At == nil {
		return 0
	}
	return resumeMargin
}

// begin is where a run that lives begins for the viewer.
func (r *Resume) begin(run string) broker.Cursor {
	if r == nil || r.At == nil && run <= r.After {
		return broker.Cursor{Tail: true}
	}
	return r.At[run] // one that is not known comes from its begin
}

// resumeMargin is for ids, which are made before runs are accepted, and for clocks that are set.
const resumeMargin = 5 * time.Second

// SessionStream is a viewer of all runs of a session, those that are accepted later included. Beyond 256 at once, runs wait for
// one that ends, from their begin. The caller closes it. Next is for one goroutine at a time.
type SessionStream struct {
	server  *Server
	id      auth.Identity
	session string
	many    *broker.Many
	ctx     context.Context //nolint:containedctx // of the viewer, for records that are read while it lasts
	replay  *Replayed       // of a run that has ended; nil: none at the moment

	mu      sync.Mutex
	told    map[string]bool // runs that came while those before were listed; nil: they are
	pending []sessionRun    // have no place yet
	ended   []sessionRun    // whose frames are in their records
}

type sessionRun struct {
	run    string
	cursor broker.Cursor
}

// SessionStream attaches a viewer to a session: to what lives, with its tail, and what is to come; or from where it was.
func (s *Server) SessionStream(ctx context.Context, id auth.Identity, session string, resume *Resume) (_ *SessionStream, err error) {
	if _, err := s.Session(ctx, id, session); err != nil {
		return nil, err
	}
	v := &SessionStream{server: s, id: id, session: session, many: s.cfg.Broker.ViewMany(ctx), ctx: ctx, told: map[string]bool{}}
	defer func() {
		if err != nil {
			v.Close()
		}
	}()
	live := v.register()
	known := map[string]bool{}
	for _, run := range live {
		known[run] = true
		v.add(run, resume.begin(run))
	}
	var over []string
	if resume != nil {
		if over, err = s.over(ctx, session, *resume); err != nil {
			return nil, err
		}
	}
	v.mu.Lock()
	told := v.told
	v.told = nil
	v.mu.Unlock()
	for _, run := range over {
		if !known[run] && !told[run] {
			v.add(run, resume.At[run])
		}
	}
	return v, nil
}

// register makes the viewer hear of runs that come, and returns those that live, the oldest first.
func (v *SessionStream) register() (live []string) {
	s := v.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[v.session] == nil {
		s.sessions[v.session] = map[*SessionStream]bool{}
	}
	s.sessions[v.session][v] = true
	for run, l := range s.live {
		if l.session == v.session {
			live = append(live, run)
		}
	}
	slices.Sort(live)
	return live
}

// over returns the runs of a session that have ended and whose end a viewer that comes again does not have, the oldest first.
func (s *Server) over(ctx context.Context, session string, resume Resume) (runs []string, err error) {
	newest, err := ulid.ParseStrict(resume.After)
	if err != nil {
		return nil, &InvalidError{[]Fault{{"query.after", "it is not the id of a run"}}}
	}
	first := resume.After
	if margin := uint64(resume.margin().Milliseconds()); margin > 0 {
		var u ulid.ULID
		if err := u.SetTime(max(newest.Time(), margin) - margin); err != nil {
			return nil, fmt.Errorf("resume session %s: %w", session, err)
		}
		first = u.String()
	}
	oldest := first
	for run := range resume.At {
		oldest = min(oldest, run)
	}
	rows, err := s.cfg.DB.QueryContext(ctx, "SELECT run FROM requests WHERE session = ? AND run >= ? AND state = 'ended' ORDER BY run", session, oldest)
	if err != nil {
		return nil, fmt.Errorf("list runs of session %s: %w", session, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var run string
		if err := rows.Scan(&run); err != nil {
			return nil, fmt.Errorf("list runs of session %s: %w", session, err)
		}
		if _, ok := resume.At[run]; ok || run > first {
			runs = append(runs, run)
		}
	}
	return runs, rows.Err()
}

// tell adds a run that has come to the streams of its session. s.mu is held.
func (s *Server) tell(run, session string) {
	for v := range s.sessions[session] {
		v.mu.Lock()
		if v.told != nil {
			v.told[run] = true
		}
		v.mu.Unlock()
		v.add(run, broker.Cursor{})
	}
}

func (v *SessionStream) add(run string, cursor broker.Cursor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pending = append(v.pending, sessionRun{run, cursor})
	v.fill()
}

// fill attaches runs that wait, as long as there is room. The lock is held.
func (v *SessionStream) fill() {
	for len(v.pending) > 0 {
		p := v.pending[0]
		switch err := v.many.Add(p.run, p.cursor); {
		case errors.Is(err, broker.ErrMany), errors.Is(err, broker.ErrClosed):
			return
		case errors.Is(err, broker.ErrCursor): // it lives, and has printed less than the viewer says
			v.pending[0].cursor = broker.Cursor{Tail: true}
			continue
		case errors.Is(err, broker.ErrUnknownRun):
			v.ended = append(v.ended, p)
		case err != nil:
			v.server.cfg.Logger.Error("watch a run of a session", logkey.Run, p.run, logkey.Error, err)
		}
		v.pending = v.pending[1:]
	}
}

// Next returns the next frame of any of the runs as JSON and waits for it, as [broker.Many.Next] does.
func (v *SessionStream) Next(ctx context.Context) ([]byte, error) {
	for {
		if v.replay == nil {
			v.mu.Lock()
			v.fill()
			var p sessionRun
			if len(v.ended) > 0 {
				p, v.ended = v.ended[0], v.ended[1:]
			}
			v.mu.Unlock()
			if p.run == "" {
				return v.many.Next(ctx)
			}
			var err error
			if v.replay, err = v.server.replayOf(v.ctx, v.id, p); errors.Is(err, ErrNotFound) || errors.Is(err, broker.ErrUnknownRun) {
				continue // it is another's, or will be told of when it is taken up
			} else if err != nil {
				return nil, err
			}
		}
		frame, err := v.replay.Next(ctx)
		if !errors.Is(err, io.EOF) {
			return frame, err
		}
		v.replay = nil
	}
}

// replayOf is what a viewer does not have of a run that has ended. One that has more than was kept gets the end.
func (s *Server) replayOf(ctx context.Context, id auth.Identity, p sessionRun) (*Replayed, error) {
	r, err := s.Run(ctx, id, p.run)
	if err != nil {
		return nil, err
	}
	if r.Outcome == nil {
		return nil, broker.ErrUnknownRun
	}
	p.cursor.Stdout, p.cursor.Stderr = min(p.cursor.Stdout, r.Outcome.Stdout.Bytes), min(p.cursor.Stderr, r.Outcome.Stderr.Bytes)
	return s.ReplayFrames(ctx, id, p.run, p.cursor), nil
}

// Close releases the viewer. Next returns broker.ErrClosed from then on.
func (v *SessionStream) Close() {
	s := v.server
	s.mu.Lock()
	delete(s.sessions[v.session], v)
	if len(s.sessions[v.session]) == 0 {
		delete(s.sessions, v.session)
	}
	s.mu.Unlock()
	v.many.Close()
}
