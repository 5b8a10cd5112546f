package serve

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/approval"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/internal/escape"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// Run returns one run.
func (s *Server) Run(ctx context.Context, id auth.Identity, runID string) (api.Run, error) {
	e, err := s.visible(ctx, id, runID)
	if err == nil {
		return s.runOf(ctx, e)
	}
	if !errors.Is(err, ErrNotFound) || !id.Can(auth.ActViewAll) {
		return api.Run{}, err
	}
	// A run of the command line has a record and no request.
	entry, err := s.recordOf(ctx, runID)
	return RunFromRecord(entry.Record.Brief()), err
}

// recordOf is the record with exactly this id.
func (s *Server) recordOf(ctx context.Context, runID string) (record.Entry, error) {
	entry, err := record.Get(ctx, s.cfg.DB, runID)
	if errors.Is(err, record.ErrNotFound) || err == nil && entry.Record.Run != runID || errors.As(err, new(*record.AmbiguousError)) {
		return record.Entry{}, fmt.Errorf("run %q: %w", runID, ErrNotFound)
	}
	return entry, err
}

// Record returns the record of a run that has started or ended.
func (s *Server) Record(ctx context.Context, id auth.Identity, runID string) (record.Entry, error) {
	if _, err := s.Run(ctx, id, runID); err != nil {
		return record.Entry{}, err
	}
	entry, err := s.recordOf(ctx, runID)
	if errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("%w: it has no record before it starts", ErrState)
	}
	return entry, err
}

// runOf is what a client sees of a row, and of the record if there is one.
func (s *Server) runOf(ctx context.Context, e queue.Entry) (api.Run, error) {
	entry, err := s.recordOf(ctx, e.Run)
	switch {
	case err == nil:
		brief := entry.Record.Brief()
		return s.describe(e, &brief), nil
	case errors.Is(err, ErrNotFound):
		return s.describe(e, nil), nil
	}
	return api.Run{}, err
}

// describe is runOf with what is brief of the record, nil before there is one.
func (s *Server) describe(e queue.Entry, rec *record.Brief) api.Run {
	r := api.Run{
		ID: e.Run, State: api.State(e.State), Client: "api", Session: e.Session, Hash: e.Hash,
		AcceptedAtMs: ms(e.AcceptedAt), StartedAtMs: ms(e.StartedAt), EndedAtMs: ms(e.EndedAt),
	}
	if rec != nil {
		known := RunFromRecord(*rec)
		r.Profile, r.Client, r.Command = known.Profile, known.Client, known.Command
		if e.State == queue.Ended {
			r.Outcome = known.Outcome
		}
		return r
	}
	if _, req, err := decode(e); err == nil {
		r.Profile, r.Client, r.Command = policy.ProfileFor(req), string(req.Client), run.CommandOf(req)
	}
	if position, eta, ok := s.cfg.Queue.Position(e.Run); ok {
		r.Position, r.EtaMs = position, max(0, eta.Milliseconds())
	}
	return r
}

// RunFromRecord is what clients see of a run by its record.
func RunFromRecord(r record.Brief) api.Run {
	state := api.StateRunning
	if r.Outcome.Kind != "" {
		state = api.StateEnded
	}
	return api.Run{
		ID: r.Run, State: state, Profile: r.Profile, Client: r.Client, Command: r.Command,
		AcceptedAtMs: r.StartedAtMs, StartedAtMs: r.StartedAtMs, EndedAtMs: r.EndedAtMs, Outcome: recordedOutcome(r),
	}
}

func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Stream attaches a viewer to a run. A run that has ended a while ago is broker.ErrUnknownRun: its record has everything.
func (s *Server) Stream(ctx context.Context, id auth.Identity, runID string, cursor broker.Cursor) (*broker.Viewer, error) {
	if _, err := s.Run(ctx, id, runID); err != nil {
		return nil, err
	}
	v, err := s.cfg.Broker.View(ctx, runID, cursor)
	return v, s.orElsewhere(ctx, runID, err)
}

// Output opens what is kept of one channel of a run that has ended. The caller closes it.
func (s *Server) Output(ctx context.Context, id auth.Identity, runID, channel string) (io.ReadCloser, error) {
	look, err := s.Run(ctx, id, runID)
	if err != nil {
		return nil, err
	}
	if look.State != api.StateEnded {
		return nil, fmt.Errorf("%w: it has not ended; its stream has the output so far", ErrState)
	}
	if err := s.outputHere(ctx, runID, channel); err != nil {
		return nil, err
	}
	r, err := record.Output(ctx, s.cfg.DB, s.cfg.Home, runID, channel)
	if errors.Is(err, record.ErrRemoved) {
		err = fmt.Errorf("%w: %w", err, ErrNotFound)
	}
	return r, err
}

// outputHere says where the output of a channel is, if that is a file of another server.
func (s *Server) outputHere(ctx context.Context, runID, channel string) error {
	e, err := s.cfg.Queue.Get(ctx, runID)
	if err != nil || !s.cfg.Queue.Elsewhere(e) { // the command line's runs have no row
		return nil
	}
	entry, err := s.recordOf(ctx, runID)
	if err != nil {
		return err
	}
	kept := map[string]int64{"stdout": entry.Record.Stdout.Kept, "stderr": entry.Record.Stderr.Kept}[channel]
	if kept > record.InlineBytes {
		return ErrElsewhere
	}
	return nil
}

// notKept is why an artifact that a record lists is not here.
func (s *Server) notKept(ctx context.Context, runID, name string) error {
	if e, err := s.cfg.Queue.Get(ctx, runID); err == nil && s.cfg.Queue.Elsewhere(e) {
		return ErrElsewhere
	}
	return fmt.Errorf("artifact %q of run %s is not kept any more: %w", name, runID, ErrNotFound)
}

// Artifact opens the copy of an artifact. Only what the record lists is opened, and never through a link.
func (s *Server) Artifact(ctx context.Context, id auth.Identity, runID, name string) (*os.File, api.Artifact, error) {
	r, err := s.Run(ctx, id, runID)
	if err != nil {
		return nil, api.Artifact{}, err
	}
	if r.Outcome == nil {
		return nil, api.Artifact{}, fmt.Errorf("%w: it has not ended", ErrState)
	}
	i := slices.IndexFunc(r.Outcome.Artifacts, func(a api.Artifact) bool { return a.Path == name && a.Type == "file" && a.Omitted == "" })
	if i < 0 {
		return nil, api.Artifact{}, fmt.Errorf("artifact %q of run %s: %w", name, runID, ErrNotFound)
	}
	root, err := os.OpenRoot(s.artifacts(runID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Artifact{}, s.notKept(ctx, runID, name)
	}
	if err != nil {
		return nil, api.Artifact{}, fmt.Errorf("open artifacts of run %s: %w", runID, err)
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Artifact{}, s.notKept(ctx, runID, name)
	}
	return f, r.Outcome.Artifacts[i], err
}

// Session returns a session of id's, or of anybody's if it may see them.
func (s *Server) Session(ctx context.Context, id auth.Identity, session string) (api.Session, error) {
	var token string
	out := api.Session{ID: session}
	err := s.cfg.DB.QueryRowContext(ctx, "SELECT token, name, created_at FROM sessions WHERE id = ?", session).Scan(&token, &out.Name, &out.CreatedAtMs)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !id.Sees(token) {
		return api.Session{}, fmt.Errorf("session %q: %w", session, ErrNotFound)
	}
	return out, err
}

// NewSession makes a session.
func (s *Server) NewSession(ctx context.Context, id auth.Identity, in api.NewSession) (api.Session, error) {
	if !id.Can(auth.ActRun) {
		return api.Session{}, auth.ErrForbidden
	}
	out := api.Session{ID: newID(), Name: strings.ToValidUTF8(in.Name, "\ufffd"), CreatedAtMs: time.Now().UnixMilli()}
	err := s.cfg.DB.Update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO sessions (id, token, name, created_at) VALUES (?, ?, ?, ?)", out.ID, id.Token, out.Name, out.CreatedAtMs)
		return err
	})
	return out, err
}

// Approvals lists what waits, or waited, for the owner.
func (s *Server) Approvals(ctx context.Context, id auth.Identity, f approval.Filter) ([]api.Approval, error) {
	if !id.Can(auth.ActDecide) {
		return nil, auth.ErrForbidden
	}
	list, err := approval.List(ctx, s.cfg.DB, f)
	out := make([]api.Approval, len(list))
	for i, a := range list {
		out[i] = approvalOf(a)
		out[i].Plan, out[i].Code, out[i].Files = nil, "", nil
	}
	return out, err
}

// Approval returns one, with plan, code and the difference to the last version that was approved.
func (s *Server) Approval(ctx context.Context, id auth.Identity, runID string) (api.Approval, error) {
	if !id.Can(auth.ActDecide) {
		return api.Approval{}, auth.ErrForbidden
	}
	a, err := approval.Get(ctx, s.cfg.DB, runID)
	if err != nil {
		return api.Approval{}, err
	}
	out := approvalOf(a)
	before, ok, err := approval.Previous(ctx, s.cfg.DB, a)
	if ok {
		out.Diff = approval.Diff(before, a)
	}
	out.Warnings = approval.Warnings(a.Code)
	return out, err
}

func approvalOf(a approval.Approval) api.Approval {
	out := api.Approval{
		Run: a.Run, State: string(a.State), Hash: a.Hash, Rule: a.Rule, Detail: a.Detail, Token: a.Token, Plan: json.RawMessage(escape.JSON(string(a.Plan))), Code: a.Code, Omitted: a.Omitted,
		RequestedAtMs: ms(a.Requested), ExpiresAtMs: ms(a.Expires), DecidedAtMs: ms(a.Decided), DecidedBy: a.DecidedBy, ValidUntilMs: ms(a.ValidUntil),
	}
	for _, f := range a.Files {
		out.Files = append(out.Files, api.ApprovalFile{Name: f.Name, Bytes: f.Bytes, SHA256: f.SHA256, Executable: f.Executable, Text: f.Text, Omitted: f.Omitted})
	}
	return out
}
