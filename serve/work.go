package serve

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/approval"
	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// endTimeout bounds what is written when a run has ended, whatever became of its context.
const endTimeout = 10 * time.Second

// Work runs what is queued until ctx ends. Then nothing more is accepted, and it waits for the runs that it has begun, as long
// as the queue gives them.
func (s *Server) Work(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { s.stopping.Store(true) })()
	return s.cfg.Queue.Work(ctx, s.do)
}

// Hold is Work without running anything: what is accepted waits, until ctx ends and for whoever works after.
func (s *Server) Hold(ctx context.Context) error {
	s.holding.Store(true)
	<-ctx.Done()
	s.stopping.Store(true)
	return nil
}

// do is one run. When it returns without an error, the run has ended in the record and in the queue.
func (s *Server) do(ctx context.Context, e queue.Entry) error {
	in, req, err := decode(e)
	if err != nil {
		return s.finish(ctx, e, policy.Request{Client: policy.ClientAPI}, err)
	}
	decisions, err := s.approved(ctx, e, &req)
	if err != nil {
		return s.finish(ctx, e, req, err)
	}
	l, err := s.open(e, in, req.Limits.OutputBytes)
	if err != nil {
		return err
	}
	io := run.IO{
		Run: e.Run, Note: run.Note{Path: in.Note, Block: in.Block}, Decisions: append([]record.Decision{askedBy(e.Token)}, decisions...), OmitText: true,
		Artifacts: s.artifacts(e.Run),
		Before:    func() error { return s.cfg.Queue.OnDisk(e.Run) },
		OnStart: func(started run.Started) {
			l.stream.Describe(started.Profile, started.Driver)
			now := time.Now().UnixMilli()
			l.stream.Publish(api.Frame{Type: api.FrameStarted, AtMs: &now, Driver: started.Driver})
		},
		OnFrame: func(f run.Frame) { l.stream.Output(f.Channel, f.Offset, f.Seq, f.At, f.Data) },
		OnEgress: func(d egress.Decision) {
			l.stream.Publish(api.Frame{Type: api.FrameEgress, Kind: d.Kind, Host: d.Host, Port: int(d.Port), Allowed: &d.Allowed, Rule: d.Rule, Detail: d.Reason})
		},
		OnGone: l.stream.ProgramGone,
		Stdin:  inputOf(in, l),
		Trace:  s.traces.steps(e, s.metrics.trace(time.Now())),
	}
	if in.Terminal != nil {
		l.setSize(run.Size{Columns: in.Terminal.Columns, Rows: in.Terminal.Rows})
		io.Resize = l.resize
	}
	ctx, stop := hostStops(ctx)
	defer stop()
	out, err := s.cfg.Engine.Run(ctx, req, io)
	if err != nil {
		s.cfg.Logger.Error("run", logkey.Run, e.Run, logkey.Error, err)
	}
	if errors.Is(err, run.ErrUnrecorded) {
		if out.Kind == run.Violated {
			l.stream.Publish(violation(out))
		}
		s.tellEnd(e.Run, unrecorded(out)) // its record gets an end when it can be written: see endLost
		return err
	}
	if out.Kind == run.Error {
		s.cfg.Logger.Error("a run ended with an error", logkey.Run, e.Run, "reason", out.Reason, "message", out.Message)
	}
	return s.end(ctx, e.Run, out)
}

// unrecorded is the end that the record of a run will have whose end could not be written: what it was is lost then, so viewers
// are not told of another one. Of a violation they were told by its own frame.
func unrecorded(out run.Outcome) run.Outcome {
	lost := run.Outcome{Kind: run.Error, Reason: run.ReasonHost, Message: out.Message, Run: out.Run, Driver: out.Driver, Image: out.Image, WallMs: out.WallMs, Usage: out.Usage}
	lost.Stdout, lost.Stderr = out.Stdout, out.Stderr
	return lost
}

// hostStops returns a context that tells the engine in its own words that the server stops.
func hostStops(ctx context.Context) (context.Context, context.CancelFunc) {
	engine, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, queue.ErrStopped) {
			cause = run.ErrHostStops
		}
		cancel(cause)
	})
	return engine, func() {
		stop()
		cancel(nil)
	}
}

// inputOf is what the program reads: the input that came with the request, or what clients send while it runs.
func inputOf(in api.RunRequest, l *liveRun) io.Reader {
	if in.Stdin != nil {
		return strings.NewReader(*in.Stdin)
	}
	return l.input
}

func decode(e queue.Entry) (in api.RunRequest, req policy.Request, err error) {
	if err := json.Unmarshal(e.Request, &in); err != nil {
		return in, req, fmt.Errorf("decode the request of run %s: %w", e.Run, err)
	}
	req, err = RequestOf(in)
	return in, req, err
}

// noteOf is where the code of a request is from.
func noteOf(request []byte) run.Note {
	var in api.RunRequest
	if json.Unmarshal(request, &in) != nil { // it has ended, or is none: then nobody knows
		return run.Note{}
	}
	return run.Note{Path: in.Note, Block: in.Block}
}

// approved puts the owner's approval into req if the run needed one, and says whose it was. A profile or a grant that has
// changed since makes another plan, which nobody has approved: then the engine refuses it.
func (s *Server) approved(ctx context.Context, e queue.Entry, req *policy.Request) ([]record.Decision, error) {
	plan, err := s.cfg.Decide(*req)
	var denial *policy.Denial
	if !errors.As(err, &denial) || denial.Rule != policy.RuleApproval {
		return nil, nil // the engine says what is wrong, if anything is
	}
	a, err := approval.Get(ctx, s.cfg.DB, e.Run)
	if errors.Is(err, approval.ErrNotFound) { // accepted under a grant for the same request
		err = s.cfg.DB.View(ctx, func(tx *sql.Tx) (err error) {
			under, ok, err := approval.Covering(ctx, tx, approval.Use{Run: e.Run, Token: e.Token, Hash: e.Hash, At: e.AcceptedAt})
			if err == nil && ok {
				a, err = approval.Get(ctx, tx, under.Run) // with its plan
			}
			return err
		})
	}
	if err != nil || a.State != approval.Granted || a.Hash != e.Hash {
		return nil, err
	}
	if sum := sha256.Sum256(a.Plan); hex.EncodeToString(sum[:]) != plan.Hash() {
		return nil, nil
	}
	req.Approve = plan.Hash()
	return []record.Decision{{What: "approval", Text: fmt.Sprintf("%s, granted by token %s at %s", denial.Detail, a.DecidedBy, a.Decided.UTC().Format(time.RFC3339))}}, nil
}

// finish ends a run that never came to the engine.
func (s *Server) finish(ctx context.Context, e queue.Entry, req policy.Request, cause error) error {
	out, err := s.refuse(ctx, e, req, cause)
	if err != nil {
		return err
	}
	return s.end(ctx, e.Run, out)
}

// refuse records the end of a run that never came to the engine.
func (s *Server) refuse(ctx context.Context, e queue.Entry, req policy.Request, cause error) (run.Outcome, error) {
	return s.cfg.Engine.Refuse(ctx, req, run.IO{Run: e.Run, Note: noteOf(e.Request), Decisions: []record.Decision{askedBy(e.Token)}}, run.ReasonHost, cause)
}

// end writes that a run has ended and tells its viewers.
func (s *Server) end(ctx context.Context, id string, out run.Outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	s.dropEmpty(id)
	return errors.Join(s.cfg.Queue.Done(ctx, id, nil), s.close(id, out))
}
