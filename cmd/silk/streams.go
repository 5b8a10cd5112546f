package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/cleanup"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/watch"
)

// streams connects one run to the user: stdin, live output, the terminal.
type streams struct {
	io    run.IO
	ctx   context.Context
	lost  error // why output could not be written
	close func()
}

// errNobodyReads is the cause of a run that was canceled because its output had nowhere to go.
var errNobodyReads = errors.New("nobody reads the output")

// streams prepares what a run is connected to. The caller calls close, which may be called twice.
func (a *app) streams(f *runFlags, req *policy.Request) (_ *streams, err error) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	var undo cleanup.Stack
	s := &streams{ctx: ctx, close: func() { _ = undo.Run(ctx) }} // none of them has an error
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	undo.PushFunc(func() { cancel(nil) })

	if s.io.Artifacts, err = makeArtifacts(f.artifacts); err != nil {
		return nil, err
	}
	switch {
	case f.events && !a.jsonl:
		return nil, usagef("--events needs --jsonl")
	case f.terminal && f.stdin != "" && f.stdin != "-":
		return nil, usagef("-t needs your terminal as stdin, so --stdin %s cannot be used with it", f.stdin)
	case f.terminal && (a.json || !isTerminal(a.in)):
		return nil, usagef("-t needs a terminal on stdin, and prints no JSON; leave it out in scripts")
	case f.terminal:
		state, err := term.MakeRaw(int(a.in.Fd()))
		if err != nil {
			return nil, errors.Join(errors.New("prepare terminal"), err)
		}
		restore := func() { _ = term.Restore(int(a.in.Fd()), state) } // nothing helps if it fails
		a.restore.Store(&restore)
		undo.PushFunc(func() { a.restore.Store(nil); restore() })
		sizes, stop := watchSize(a.in)
		undo.PushFunc(stop)
		s.io.Stdin, s.io.Resize = a.in, sizes
	case f.stdin != "" && f.stdin != "-":
		path, info, err := locate(f.stdin)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			return nil, usagef("--stdin %s is a directory", f.stdin)
		}
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		undo.PushFunc(func() { _ = file.Close() }) // read only
		s.io.Stdin = file
	case req.HasStdin:
		s.io.Stdin = a.in
	}

	// A reader that goes away ends the run, not silk: the run must still be recorded.
	signal.Ignore(syscall.SIGPIPE)
	var mu sync.Mutex // events arrive beside frames
	write := func(w io.Writer, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		if s.lost != nil {
			return
		}
		if _, err := w.Write(data); err != nil {
			s.lost = err
			cancel(errNobodyReads)
		}
	}
	s.io.OmitText = a.jsonl || !a.json // all of it is passed on
	switch {
	case a.jsonl:
		s.io.OnStart = func(started run.Started) { write(a.out, jsonLine(startedFrame{"started", started})) }
		s.io.OnFrame = func(frame run.Frame) { write(a.out, outputLine(frame)) }
		s.io.OnEgress = func(d egress.Decision) { write(a.out, jsonLine(newEgressFrame(d))) }
		if f.events {
			s.io.OnEvent = func(e watch.Event) { write(a.out, jsonLine(eventFrame{"event", e})) }
		}
	case a.json:
	default:
		oneTerminal := isTerminal(a.out) && isTerminal(a.err)
		s.io.OnFrame = func(frame run.Frame) {
			w := a.out
			if frame.Channel == "stderr" {
				w = a.err
			}
			write(w, frame.Data)
			if n := len(frame.Data); n > 0 && (frame.Channel == "stderr" || oneTerminal) {
				a.midLine.Store(frame.Data[n-1] != '\n')
			}
		}
	}
	return s, nil
}

// awaited shows, on a terminal, that a sandbox is being started, if that takes long: a machine boots, an engine gets its image. It ends before
// anything else is said.
func (s *streams) awaited(a *app) {
	if a.json {
		return
	}
	done := a.busy("starting the sandbox")
	end, frame, trace := s.close, s.io.OnFrame, s.io.Trace
	s.close = func() { done(); end() }
	if frame != nil {
		s.io.OnFrame = func(f run.Frame) { done(); frame(f) }
	}
	s.io.Trace = func(step string, at time.Time) {
		if step == run.StepRuns {
			done()
		}
		if trace != nil {
			trace(step, at)
		}
	}
}

// startedFrame is the first frame of a run that was not refused.
type startedFrame struct {
	Type string `json:"type"` // "started"
	run.Started
}

// outputFrame is one piece of output on the wire.
type outputFrame struct {
	Type    string  `json:"type"` // "output"
	Seq     uint64  `json:"seq"`
	AtMs    int64   `json:"at_ms"`
	Channel string  `json:"channel"`
	Offset  int64   `json:"offset"`
	Data    *string `json:"data,omitempty"`
	B64     []byte  `json:"b64,omitempty"` // when the bytes are not valid UTF-8 on their own
}

// eventFrame is something that was seen in the sandbox.
type eventFrame struct {
	Type string `json:"type"` // "event"
	watch.Event
}

// egressFrame is something that the program reached, or was kept from.
type egressFrame struct {
	Type    string `json:"type"` // "egress"
	Kind    string `json:"kind"` // "tcp", "udp" or "dns"
	Host    string `json:"host"`
	Port    uint16 `json:"port,omitempty"`
	Allowed bool   `json:"allowed"`
	Rule    string `json:"rule,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

func newEgressFrame(d egress.Decision) egressFrame {
	return egressFrame{Type: "egress", Kind: d.Kind, Host: d.Host, Port: d.Port, Allowed: d.Allowed, Rule: d.Rule, Detail: d.Reason}
}

// denialFrame comes before the exit of a run that was denied.
type denialFrame struct {
	Type   string `json:"type"` // "denial"
	Rule   string `json:"rule"`
	Detail string `json:"detail"`
}

// violationFrame comes before the exit of a run that policy ended.
type violationFrame struct {
	Type    string `json:"type"` // "violation"
	Rule    string `json:"rule"`
	Syscall string `json:"syscall"`
	Detail  string `json:"detail"` // of the syscall's argument
}

// displayFrame names a result that the program shows.
type displayFrame struct {
	Type string `json:"type"` // "display"
	MIME string `json:"mime"`
	Path string `json:"path"`
}

// exitFrame is the last frame of a run.
type exitFrame struct {
	Type string `json:"type"` // "exit"
	run.Outcome
}

func outputLine(f run.Frame) []byte {
	o := outputFrame{Type: "output", Seq: f.Seq, AtMs: f.At.Milliseconds(), Channel: f.Channel, Offset: f.Offset}
	if utf8.Valid(f.Data) {
		text := string(f.Data)
		o.Data = &text
	} else {
		o.B64 = f.Data
	}
	return jsonLine(o)
}
