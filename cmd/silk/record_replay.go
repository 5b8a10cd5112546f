package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/replay"
	"github.com/silk-sandbox/silk/run"
)

// replayFlags are the flags of silk record replay.
type replayFlags struct {
	env, keys                  []string
	driver, approve, artifacts string
	quick                      bool
}

func (a *app) recordReplayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use: "replay RUN|FILE", Short: "Run a run again, and compare what comes out", Args: needArgs(1, 1, "one run, or one file of silk record export"),
		Long: `Run again what was run, from what was kept of its request and on the same image, and compare outcome, output and artifacts by their
hashes. What is asked for is decided about anew, by this host's configuration. FILE is what silk record export wrote; it is verified, with --key or
the keys of this host, before anything in it runs, and gets nothing beyond its profile that is not approved.

Where something came out otherwise, silk looks for the reason: it runs the same four times more with clock and random numbers
held still, and with each of them another (--quick leaves that out). Values of variables that were given with --env are not kept, and
are to be given again.

Exit status: 0 all came out the same, 1 something did not, 125 it could not be run or checked, 126 it was refused, or cannot be replayed.`,
		Example: "  silk record replay 01JF4Z\n  silk record replay run.silk --key silk.pub --json",
		RunE:    func(_ *cobra.Command, args []string) error { return a.recordReplay(args[0], f) },
	}
	c.Flags().StringArrayVar(&f.env, "env", nil, "`KEY=VALUE` that the run was given, with the same value (repeatable)")
	c.Flags().StringArrayVar(&f.keys, "key", nil, "`FILE` with public keys in PEM, any of which may have signed (default: those of this host); may be repeated")
	c.Flags().StringVar(&f.driver, "driver", "", "`DRIVER` that isolates the replay (default: that of the run)")
	c.Flags().StringVar(&f.approve, "approve", "", "`HASH` of the plan that you approve, where it takes an approval")
	c.Flags().StringVar(&f.artifacts, "artifacts", "", "`DIR` that receives copies of the replay's artifacts")
	c.Flags().BoolVar(&f.quick, "quick", false, "only compare; do not look for reasons")
	return a.jsonFlag(c)
}

func (a *app) recordReplay(name string, f replayFlags) error {
	kept, foreign, err := a.keptRun(name, f.keys)
	if err != nil {
		return err
	}
	r, err := kept.Read()
	if err == nil {
		err = a.replayOf(kept, r, foreign, f)
	}
	var refusal *replay.Refusal
	if errors.As(err, &refusal) {
		return &policy.Denial{Rule: "replay", Detail: fmt.Sprintf("run %s: %v", kept.Record.Run, refusal)}
	}
	return err
}

// keptRun finds a run by its id, or reads it from a file; its record is verified either way. What is in a file may be somebody else's.
func (a *app) keptRun(name string, keyFiles []string) (kept replay.Kept, foreign bool, err error) {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		b, faults, err := a.readBundle(name, keyFiles)
		if err == nil && len(faults) > 0 {
			err = &findingError{name + ": " + strings.Join(faults, "; ")}
		}
		return b.Kept, true, err
	}
	db, home, err := a.openStore()
	if err != nil {
		return kept, false, runMissing(name, err)
	}
	defer db.Close()
	b, err := a.bundleOf(db, home, name)
	if err != nil {
		return kept, false, err
	}
	if b.Envelope == nil { // it has not ended, or nobody has signed it
		return b.Kept, false, nil
	}
	keys, err := a.publicKeys(keyFiles)
	if err != nil {
		return kept, false, err
	}
	v, err := record.Verify(b.Envelope, keys)
	if err != nil {
		return kept, false, findingf("the record of run %s: %v", b.Kept.Record.Run, err)
	}
	b.Kept.Record = v.Record
	return b.Kept, false, nil
}

// replayOf runs r again and says what came of it. foreign is whether somebody else may have written it.
func (a *app) replayOf(kept replay.Kept, r replay.Request, foreign bool, f replayFlags) error {
	req, err := r.Again(kept.Workspace, f.env)
	if err != nil {
		return err
	}
	req.Approve, req.Foreign = f.approve, foreign
	if f.driver != "" {
		req.Driver = f.driver
	}
	h, err := a.openHost(false)
	if err != nil {
		return err
	}
	defer h.close()
	if _, err := h.images.Resolve(r.Image); errors.Is(err, fs.ErrNotExist) {
		return missingf("there is no image %s here, on which it ran: it was %s there, and the same version of silk builds the same bytes with silk image build; or bring it here with silk image export and import", r.Image, r.Tag)
	}
	if err := h.knownDriver(req.Driver); err != nil {
		return err
	}
	engine, err := a.engine(h)
	if err != nil {
		return err
	}
	again := replaying{app: a, host: h, engine: engine, stdin: kept.Stdin, quick: f.quick}
	report, outcome, err := again.do(kept.Record, req, f.artifacts)
	if err := errors.Join(err, engine.Leave()); err != nil {
		return err
	}
	if report == nil { // it was refused, or could not be run
		plan, _ := h.decide(req)
		return exitAs(outcome, nil, a.show(&runFlags{}, outcome, told{plan: plan}, nil), nil)
	}
	return a.printReplay(kept.Record, *report)
}

// replaying is one replay and its trials.
type replaying struct {
	*app
	host   *host
	engine *run.Engine
	stdin  []byte
	quick  bool
}

// do runs a request again and looks for the reasons of differences. A nil report: it did not run, as the outcome says.
func (p replaying) do(before record.Record, req policy.Request, artifacts string) (*replay.Report, run.Outcome, error) {
	p.askApproval(p.host, &req, "")
	dir, err := makeArtifacts(artifacts)
	if err != nil {
		return nil, run.Outcome{}, err
	}
	after, outcome, err := p.once(req, dir)
	if err != nil || after.Replay == nil {
		return nil, outcome, err
	}
	report := replay.Compare(before, after)
	if report.Same {
		return &report, outcome, nil
	}
	var trials []replay.Trial
	for _, held := range replay.Trials() {
		if p.quick {
			break
		}
		trial := req
		trial.Deterministic, trial.Held, trial.Approve = true, held.Of(req.Held), ""
		if !p.host.holdsStill(trial) {
			break
		}
		done := p.busy("looking for the reason: " + string(held))
		got, end, err := p.once(trial, "")
		done()
		if err != nil || end.Kind == run.Denied || end.Kind == run.Error || end.Kind == run.Canceled {
			trials = nil // half of them say nothing
			break
		}
		trials = append(trials, replay.Trial{Run: got.Run, Held: held, Record: got})
	}
	replay.Explain(&report, before, after, trials)
	return &report, outcome, nil
}

// holdsStill says whether a request would be taken as it is.
func (h *host) holdsStill(req policy.Request) bool {
	_, err := h.decide(req)
	return err == nil
}

// once runs a request and reads its record.
func (p replaying) once(req policy.Request, artifacts string) (record.Record, run.Outcome, error) {
	with := run.IO{OmitText: true, Artifacts: artifacts}
	if req.HasStdin {
		with.Stdin = bytes.NewReader(p.stdin)
	}
	outcome, err := p.engine.Run(p.ctx, req, with)
	if err != nil {
		return record.Record{}, outcome, err
	}
	db, _, err := p.openStore()
	if err != nil {
		return record.Record{}, outcome, err
	}
	defer db.Close()
	e, err := record.Get(p.ctx, db, outcome.Run)
	return e.Record, outcome, err
}

func (a *app) printReplay(before record.Record, rep replay.Report) error {
	if a.json {
		if err := a.printJSON(rep); err != nil {
			return err
		}
	} else if err := a.printReport(before, rep); err != nil {
		return err
	}
	if rep.Same {
		return nil
	}
	var names []string
	for _, d := range rep.Differences {
		names = append(names, printable(d.What))
	}
	return findingf("run %s did not come out as it was: %s", rep.Run, strings.Join(names, ", "))
}

func (a *app) printReport(before record.Record, rep replay.Report) error {
	rows := [][]string{
		{"run", rep.Run},
		{"replay", rep.Replay},
		{"command", printable(before.Command)},
	}
	for _, what := range rep.Matched {
		rows = append(rows, []string{"same", printable(what)})
	}
	for _, d := range rep.Differences {
		rows = append(rows, []string{"different", fmt.Sprintf("%s: was %s, is %s", printable(d.What), printable(or(d.Before, "not there")), printable(or(d.After, "not there")))})
		for _, r := range d.Reasons {
			rows = append(rows, []string{"  " + r.Kind, printable(r.Text)})
		}
	}
	for _, note := range rep.Notes {
		rows = append(rows, []string{"note", printable(note)})
	}
	for _, t := range rep.Trials {
		rows = append(rows, []string{"trial", t.Run + ": " + string(t.Held)})
	}
	return a.table(rows)
}
