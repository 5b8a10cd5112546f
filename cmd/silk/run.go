package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/run"
)

const runExample = `  silk run hello.py
  silk run -p lab:python -c 'print(6*7)' --json
  echo 'console.log(1)' | silk run -p lab:node -
  silk run count.py --stdin words.txt -- --top 10
  silk run --dir . -p lab:repo --timeout 5m -- go test ./...
  silk run plot.py --artifacts out
  silk run client.py --net api.example.org:443
  silk run -p lab:text -it`

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [FILE|-] [-- ARGV...]",
		Short: "Run a file, code or a command in a sandbox",
		Long: `Run a file, code or a command in a sandbox that lives for this one run.

With FILE (or - for stdin, or -c CODE) that program is run and ARGV are its arguments; without, ARGV is the whole command.
The program sees a minimal read-only system, /workspace, /tmp and /dev/shm; no network but what --net names, none of your files,
nothing of your environment. Its output is shown as it arrives. Files that it makes under /workspace are its artifacts: --artifacts
DIR receives copies.

Exit status: the program's own, 128+s after signal s, 124 timeout, 137 out of memory, 159 policy violation, 126 denied,
130 canceled, 125 silk, the host or the command line is at fault.`,
		Example: runExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.json = a.json || a.jsonl
			return a.run(&f, cmd, args)
		},
	}
	f.add(a, c)
	c.Flags().StringVar(&f.artifacts, "artifacts", "", "`DIR` that receives copies of the artifacts")
	c.Flags().BoolVar(&a.json, "json", false, "print one JSON object at the end, and nothing else on stdout")
	c.Flags().BoolVar(&a.jsonl, "jsonl", false, "print JSON lines: started unless refused, output as it arrives, egress for what was reached and refused, denial or violation if there is one, exit with the outcome")
	c.Flags().BoolVar(&f.events, "events", false, "with --jsonl: print also what was seen in the sandbox (opens, execs, sockets, ...) as it happens")
	c.Flags().BoolVar(&f.trace, "trace-start", false, "show on stderr what the start of the sandbox took")
	return c
}

// runGCPercent lets the heap of a run's silk, 3-5 MiB, grow to five times that before it is collected (GOGC): most runs end
// before. A collection takes 3 ms of the processors that the sandbox starts on.
const runGCPercent = 400

func (a *app) run(f *runFlags, cmd *cobra.Command, args []string) error {
	if a.serverURL() != "" {
		return a.runRemote(f, cmd, args)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(runGCPercent)
	}
	var trace startTrace
	if f.trace {
		trace.step("command line read", time.Now())
	}
	h, err := a.openHost(f.requireWatch)
	if err != nil {
		return err
	}
	engine, err := a.engine(h)
	if err != nil {
		return err
	}
	deliveries, err := a.startDeliveries(h)
	if err != nil {
		return err
	}
	closeEngine := sync.OnceValue(engine.Leave)
	defer closeEngine() // the error of the regular way out is reported below

	// From here on there is a state directory, so a run that comes to nothing is recorded too.
	req, err := f.request(a, h.config, cmd, args)
	if err == nil {
		err = h.knownDriver(f.driver)
	}
	var s *streams
	if err == nil {
		a.askApproval(h, &req, "")
		s, err = a.streams(f, &req)
	}
	var outcome run.Outcome
	var lost error
	if err != nil {
		_, reason := classify(err)
		outcome, err = engine.Refuse(a.ctx, req, run.IO{}, reason, err)
	} else {
		defer s.close()
		if f.trace {
			s.io.Trace = trace.step
		}
		s.awaited(a)
		outcome, err = engine.Run(s.ctx, req, s.io)
		s.close() // the terminal is the user's again before anything is said
		lost = s.lost
	}
	plan, _ := h.decide(req) // as the engine did; the outcome has its refusal
	unsaid := a.show(f, outcome, told{plan: plan, guessed: f.guessed, alerted: !h.config.alerts.quiet}, lost)
	if f.trace {
		trace.print(a.err)
	}
	deliveries.finish(outcome)
	if err = errors.Join(err, closeEngine()); err != nil && (outcome.Message == "" || !strings.Contains(err.Error(), outcome.Message)) {
		a.errorf("after the run: %v", err) // what the outcome does not say already
	}
	return exitAs(outcome, err, unsaid, lost)
}

// exitAs is the end of silk after a run: the program's own, unless the host has kept silk from doing or saying what it
// should. A reader that has gone away, unlike a full disk, is the user's doing.
func exitAs(o run.Outcome, err, unsaid, lost error) error {
	status := o.ExitStatus()
	lostByHost := lost != nil && !errors.Is(lost, syscall.EPIPE)
	if status == 0 && (err != nil || unsaid != nil) || (status == 0 || o.Kind == run.Canceled) && lostByHost {
		status = run.Outcome{Kind: run.Error}.ExitStatus()
	}
	if status == 0 {
		return nil
	}
	return &endError{status}
}

// show prints the end of a run: its outcome on stdout if JSON was asked for, and what people need on stderr. lost is why
// output could not be written. An error is why the outcome could not; it has been said.
func (a *app) show(f *runFlags, o run.Outcome, t told, lost error) (err error) {
	if a.json {
		err = a.printOutcome(o)
	}
	if text := sentence(o, t); text != "" {
		a.errorf("%s", a.bold(text))
	}
	if notes := limitNotes(o, t.plan.Limits); notes != "" {
		a.errorf("%s", notes)
	}
	if note := egressNote(o, t.plan); note != "" {
		a.errorf("%s", note)
	}
	if lost != nil {
		a.errorf("output could not be written: %v", lost)
	}
	if a.json {
		return err
	}
	for _, art := range o.Artifacts {
		if art.Display != "" {
			a.errorf("result %s", artifactLine(art, f.artifacts))
		}
	}
	if f.artifacts == "" {
		if note := notKept(o.Artifacts, t.remote); note != "" {
			a.errorf("%s", note)
		}
		return nil
	}
	for _, art := range o.Artifacts {
		if art.Display != "" { // is said
			continue
		}
		a.errorf("artifact %s", artifactLine(art, f.artifacts))
	}
	return nil
}

// makeArtifacts makes the directory for artifacts and returns its absolute path.
func makeArtifacts(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find working directory: %w", err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", fmt.Errorf("make directory for artifacts: %w", err)
	}
	return path, nil
}
