package serve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/approval"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// errNotCovered says that a grant that was there a moment ago is over.
var errNotCovered = errors.New("no grant covers the request any more")

// Submit accepts a run for id. It returns when the request is on the disk. A key makes the call repeatable: the same key with
// the same request returns the run that was accepted first, and existed; with another request it is queue.ErrKeyReused. Other
// errors: [*InvalidError], [*DeniedError], *queue.FullError, auth.ErrForbidden, and what the host does to it.
func (s *Server) Submit(ctx context.Context, id auth.Identity, in api.RunRequest, key string) (_ api.Run, existed bool, err error) {
	if !id.Can(auth.ActRun) {
		return api.Run{}, false, auth.ErrForbidden
	}
	if s.stopping.Load() {
		return api.Run{}, false, queue.ErrClosed
	}
	text, hash, err := encode(in)
	if err != nil {
		return api.Run{}, false, err
	}
	req, err := RequestOf(in)
	if err != nil {
		return api.Run{}, false, err
	}
	if in.Session != "" {
		if _, err := s.Session(ctx, id, in.Session); err != nil {
			return api.Run{}, false, err
		}
	}
	sub := queue.Submission{
		Run: newID(), Token: id.Token, Session: in.Session, Key: key, Hash: hash, Request: text, MaxQueued: id.MaxQueued, MaxRunning: id.MaxRunning,
	}
	defer s.traces.submit(ctx, sub, policy.ProfileFor(req))(&existed, &err)
	plan, err := s.cfg.Decide(req)
	var denial *policy.Denial
	switch {
	case errors.As(err, &denial) && denial.Rule == policy.RuleApproval && plan.Profile != "":
		sub.Pending = true
	case errors.As(err, &denial):
		return api.Run{}, false, s.deny(ctx, sub, req, denial)
	case err != nil:
		return api.Run{}, false, invalid(err)
	}
	sub.Need = queue.Need{MemoryBytes: plan.Limits.MemoryBytes, CPUs: plan.Limits.CPUs}
	entry, existed, err := s.accept(ctx, sub, in, plan, denial)
	if err != nil {
		return api.Run{}, false, err
	}
	if !existed {
		if err := s.announce(entry, in, plan, denial); err != nil {
			return api.Run{}, false, err
		}
	}
	r, err := s.runOf(ctx, entry)
	return r, existed, err
}

// accept writes the row, and the question to the owner beside it if an approval is needed and no earlier grant covers the request.
func (s *Server) accept(ctx context.Context, sub queue.Submission, in api.RunRequest, plan policy.Plan, denial *policy.Denial) (queue.Entry, bool, error) {
	if !sub.Pending {
		return s.cfg.Queue.Submit(ctx, sub, nil)
	}
	use := approval.Use{Run: sub.Run, Token: sub.Token, Hash: sub.Hash}
	covered := sub
	covered.Pending = false
	entry, existed, err := s.cfg.Queue.Submit(ctx, covered, func(tx *sql.Tx) error {
		if _, ok, err := approval.Covered(ctx, tx, use); err != nil || ok {
			return err
		}
		return errNotCovered
	})
	if !errors.Is(err, errNotCovered) {
		return entry, existed, err
	}
	ask, err := s.ask(sub, in, plan, denial)
	if err != nil {
		return queue.Entry{}, false, err
	}
	return s.cfg.Queue.Submit(ctx, sub, func(tx *sql.Tx) error {
		_, err := approval.Ask(ctx, tx, ask)
		return err
	})
}

func (s *Server) ask(sub queue.Submission, in api.RunRequest, plan policy.Plan, denial *policy.Denial) (approval.Request, error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return approval.Request{}, fmt.Errorf("encode plan: %w", err)
	}
	now := time.Now()
	ask := approval.Request{
		Run: sub.Run, Hash: sub.Hash, Token: sub.Token, Rule: denial.Rule, Detail: denial.Detail, Plan: text, At: now, Expires: now.Add(s.cfg.ApprovalFor),
		Subject: approval.Subject(plan.Profile, ""),
	}
	if plan.Code != nil {
		ask.Code, ask.CodeSHA256 = string(plan.Code.Bytes), plan.Code.SHA256
		ask.Subject = approval.Subject(plan.Profile, plan.Code.Name)
	}
	ask.StdinOpen = in.StdinOpen || in.Terminal != nil
	if in.Stdin != nil {
		ask.Stdin = *in.Stdin
	}
	for _, u := range plan.Uploads {
		ask.Files = append(ask.Files, shown(u))
	}
	return ask, nil
}

// shown is a file of a request as the owner sees it.
func shown(u policy.Upload) approval.Upload {
	switch {
	case u.Link != "":
		return approval.Upload{Name: u.Name + " (a link)", Content: u.Link}
	case u.Dir:
		return approval.Upload{Name: u.Name + " (a directory)"}
	}
	return approval.Upload{Name: u.Name, Content: string(u.Bytes), Executable: u.Executable || u.Mode&0o111 != 0}
}

// announce opens the stream of a run that was just accepted.
func (s *Server) announce(e queue.Entry, in api.RunRequest, plan policy.Plan, denial *policy.Denial) error {
	l, err := s.open(e, in, plan.Limits.OutputBytes)
	if errors.Is(err, broker.ErrOpen) { // it has run and ended meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	s.traces.accepted(e, plan.Profile)
	l.stream.Describe(plan.Profile, "")
	if e.State == queue.Pending {
		detail := "the owner decides"
		if denial != nil {
			detail = denial.Detail
		}
		l.stream.Publish(api.Frame{Type: api.FrameApproval, State: string(approval.Pending), Detail: detail})
		return nil
	}
	s.tellPosition(l, e.Run)
	return nil
}

// tellPosition tells the viewers of a run that waits for its turn where it stands, now and whenever that changes.
func (s *Server) tellPosition(l *liveRun, id string) {
	changes, stop := s.cfg.Queue.Watch(id)
	last := 0
	tell := func() (waits bool) {
		position, eta, waits := s.cfg.Queue.Position(id)
		if waits && position != last {
			last = position
			l.stream.Publish(api.Frame{Type: api.FrameQueued, Position: position, EtaMs: max(0, eta.Milliseconds())})
		}
		return waits
	}
	if !tell() { // its turn came at once
		stop()
		return
	}
	go func() { // ends with the waiting, or with the queue
		defer stop()
		for range changes {
			tell()
		}
	}()
}

// deny ends a request that policy refuses, with a record, and a row that says whose it was.
func (s *Server) deny(ctx context.Context, sub queue.Submission, req policy.Request, denial *policy.Denial) error {
	io := run.IO{Run: sub.Run, Note: noteOf(sub.Request), Decisions: []record.Decision{askedBy(sub.Token)}}
	out, err := s.cfg.Engine.Refuse(ctx, req, io, run.ReasonUsage, denial)
	if err != nil {
		return err
	}
	s.traces.end(sub.Run, out, func() *TraceContent { return nil }) // nothing of it ran
	if err := s.cfg.Queue.Refused(ctx, sub); err != nil {
		return err
	}
	return &DeniedError{sub.Run, denial}
}

func askedBy(token string) record.Decision {
	return record.Decision{What: "asked by", Text: "token " + token}
}

// invalid turns what policy says of a request that makes no sense into what clients see.
func invalid(err error) error {
	var unread *policy.RequestError
	if !errors.As(err, &unread) {
		return err
	}
	e, field := &InvalidError{}, "body"
	if unread.Field != "" {
		field += "." + unread.Field
	}
	for _, f := range unread.Faults {
		e.Faults = append(e.Faults, Fault{field, f})
	}
	return e
}

// encode returns a request as it is kept, and its hash: SHA-256 of its JSON without session and note, with the fields in the order of
// api.RunRequest. Requests that ask for the same have the same hash, however a client wrote them.
func encode(in api.RunRequest) (text []byte, hash string, err error) {
	if text, err = json.Marshal(in); err != nil {
		return nil, "", fmt.Errorf("encode request: %w", err)
	}
	same := text
	if in.Session != "" || in.Note != "" || in.Block != "" {
		in.Session, in.Note, in.Block = "", "", ""
		if same, err = json.Marshal(in); err != nil {
			return nil, "", fmt.Errorf("encode request: %w", err)
		}
	}
	sum := sha256.Sum256(same)
	return text, hex.EncodeToString(sum[:]), nil
}

func newID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }
