package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/selftest"
	"github.com/silk-sandbox/silk/store"
)

// selftestFlags are the flags of `silk selftest`.
type selftestFlags struct {
	driver, only, image string
	jobs                int
	list                bool
}

func (a *app) selftestCommand() *cobra.Command {
	var f selftestFlags
	c := &cobra.Command{
		Use: "selftest", Short: "Attack sandboxes on this host and say what held", Args: needArgs(0, 0, "no arguments"),
		Long: `Run the attack suite: programs that try, each in a sandbox of its own, what a sandbox must not let happen, and ordinary
acts that it must leave alone. A row holds if the attack got to the forbidden call, the effect did not happen, and the
rule that should have stopped it did. Nothing of the policy is ever switched off, and nothing is left behind; what a
selftest leaves that is killed, the next one and silk gc remove.

Exit status: 0 if every row holds, 1 if one does not, 125 if the suite cannot run, 130 after Ctrl-C or SIGTERM.`,
		Example: `  silk selftest
  silk selftest --only races
  silk selftest --only 'file\.|network\.' --json
  silk selftest --list`,
		RunE: func(*cobra.Command, []string) error { return a.selftest(f) },
	}
	c.Flags().StringVar(&f.driver, "driver", "", "`DRIVER` to attack (default: the one that runs use)")
	c.Flags().StringVar(&f.only, "only", "", "rows whose class, name, class/name or rule matches `REGEX`")
	c.Flags().IntVar(&f.jobs, "jobs", min(runtime.NumCPU(), 4), "rows at once")
	c.Flags().StringVar(&f.image, "image", "lab:text", "`TAG` of the image to attack; any that has files")
	c.Flags().BoolVar(&f.list, "list", false, "list the rows, and run none")
	return a.jsonFlag(c)
}

func (a *app) selftest(f selftestFlags) error {
	rows, err := f.rows()
	if err != nil {
		return err
	}
	if f.list {
		return a.listRows(rows)
	}
	h, err := a.openHost(false)
	if err != nil {
		return err
	}
	err = h.knownDriver(f.driver)
	if err == nil {
		_, err = h.images.Resolve(f.image)
	}
	if err != nil {
		return errors.Join(err, h.close())
	}
	rows, leftOut := selftest.For(f.driver, rows)
	if len(rows) == 0 {
		return errors.Join(usagef("the %s driver has nothing of what these rows attack", f.driver), h.close())
	}
	report, err := a.attack(h, f, rows)
	report.LeftOut = leftOut
	if err = errors.Join(err, h.close()); err != nil {
		return err
	}
	if report.Totals[selftest.Broken] == len(rows) { // nothing was shown
		return &hostError{fmt.Errorf("attack sandboxes: %s", strings.Join(report.Rows[0].Problems, "; "))}
	}
	if err := a.showSelftest(report); err != nil {
		return err
	}
	if !report.OK() {
		return findingf("%d of %d rows do not hold", len(rows)-report.Totals[selftest.Holds], len(rows))
	}
	return nil
}

// rows are those that --only names.
func (f selftestFlags) rows() ([]selftest.Row, error) {
	only, err := regexp.Compile(f.only)
	if err != nil {
		return nil, usagef("--only: %v", err)
	}
	rows := slices.DeleteFunc(slices.Clone(selftest.All()), func(r selftest.Row) bool {
		return !slices.ContainsFunc([]string{r.Class, r.Name, r.ID(), r.Rule}, only.MatchString)
	})
	if len(rows) == 0 {
		return nil, usagef("no row matches --only %s; silk selftest --list shows them", f.only)
	}
	if f.jobs < 1 {
		return nil, usagef("--jobs %d is not at least 1", f.jobs)
	}
	return rows, nil
}

func (a *app) listRows(rows []selftest.Row) error {
	type listed struct {
		Class    string   `json:"class"`
		Name     string   `json:"name"`
		Rule     string   `json:"rule,omitempty"`
		Attack   []string `json:"attack"`
		Expected string   `json:"expected"`
	}
	list := make([]listed, len(rows))
	table := [][]string{{"CLASS", "ATTACK", "EXPECTED"}}
	for i, r := range rows {
		report := r.Report()
		list[i] = listed{report.Class, report.Name, report.Rule, report.Attack, report.Expected}
		table = append(table, []string{r.Class, r.Name, report.Expected})
	}
	if a.json {
		return a.printJSON(list)
	}
	return a.table(table)
}

// decoyVariable is in silk's own environment while it attacks, and must be in no sandbox's.
const decoyVariable = "SILK_SELFTEST_DECOY"

// attack runs rows with an engine and a state directory of their own, so that the user's runs stay theirs.
func (a *app) attack(h *host, f selftestFlags, rows []selftest.Row) (_ selftest.Report, err error) {
	report := selftest.Report{Schema: selftest.Schema, Silk: version, Driver: f.driver, Image: f.image, UID: os.Geteuid(), Began: time.Now().UTC().Format(time.RFC3339)}
	if err := sweepScratch(); err != nil {
		return report, fmt.Errorf("remove what a selftest left that was killed: %w", err)
	}
	dir, release, err := scratchDir(selftestDirs)
	if err != nil {
		return report, &hostError{err}
	}
	defer func() { err = errors.Join(err, release()) }()
	program, err := putAttack(dir)
	if err != nil {
		return report, err
	}
	if err := os.Setenv(decoyVariable, "of the host"); err != nil {
		return report, &hostError{err}
	}
	decoys, err := selftest.OpenDecoys(dir, decoyVariable)
	if err != nil {
		return report, &hostError{err}
	}
	defer func() { err = errors.Join(err, decoys.Close()) }()
	db, err := attackStore(a.ctx, dir)
	if err != nil {
		return report, &hostError{err}
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	engine, err := h.attackEngine(dir, f.image, db, decoys)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()

	suite := selftest.Suite{Attack: program, Decoys: decoys, Dir: dir, Jobs: f.jobs}
	var mu sync.Mutex
	suite.Run = func(ctx context.Context, req policy.Request, artifacts string) (selftest.Result, error) {
		req.Driver = f.driver
		outcome, err := engine.Run(ctx, req, run.IO{Artifacts: artifacts})
		mu.Lock()
		report.Driver, report.Digest = or(outcome.Driver, report.Driver), or(outcome.Image, report.Digest)
		mu.Unlock()
		result := resultOf(outcome)
		if err == nil {
			result.Egress, err = audited(ctx, db, outcome)
		}
		return result, err
	}
	var done func()
	suite.Progress, done = a.attackProgress()
	began := time.Now()
	report.Rows, err = suite.Do(a.ctx, rows)
	done()
	if errors.Is(err, errSignal) {
		err = fmt.Errorf("%w: %w", err, context.Canceled) // the user's doing: exit.go
	}
	report.WallMs = time.Since(began).Milliseconds()
	report.Sum()
	return report, err
}

// putAttack writes the attack program into dir, where only its owner can change it.
func putAttack(dir string) (string, error) {
	program, err := selftest.Attack()
	if errors.Is(err, selftest.ErrNotBuilt) {
		return "", missingf("%v", err)
	}
	if err != nil {
		return "", &hostError{err}
	}
	path := filepath.Join(dir, "silk-attack")
	if err := atomicfile.Write(path, program, 0o755); err != nil {
		return "", &hostError{fmt.Errorf("unpack the attack program: %w", err)}
	}
	return path, nil
}

// attackState is the state directory below the suite's own.
const attackState = "state"

// attackStore makes a state directory. The caller closes the store.
func attackStore(ctx context.Context, dir string) (*store.DB, error) {
	home := filepath.Join(dir, attackState)
	if err := makeHome(home); err != nil {
		return nil, err
	}
	return store.Open(ctx, filepath.Join(home, store.FileName))
}

// audited is what the audit trail says of a run's way out: what was refused and is not there was not refused as it should be.
func audited(ctx context.Context, db *store.DB, o run.Outcome) (list []selftest.Destination, err error) {
	if len(o.Egress) == 0 {
		return nil, nil
	}
	events, err := audit.List(ctx, db, audit.Filter{Run: o.Run, Prefix: string(audit.NetworkDecision), Limit: len(o.Egress) + 1})
	if err != nil {
		return nil, fmt.Errorf("read the audit trail: %w", err)
	}
	for _, e := range events {
		var d selftest.Destination
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return nil, fmt.Errorf("read audit event %d: %w", e.Seq, err)
		}
		list = append(list, d)
	}
	return list, nil
}

// attackEngine is the engine of every run but for its state directory, and for the image of the one profile that rows use.
// What its owner says about the network is about decoys only.
func (h *host) attackEngine(dir, image string, db *store.DB, decoys *selftest.Decoys) (*run.Engine, error) {
	grants := policy.Grants{Stores: []string{dir}}
	grants.Addrs, grants.Targets = decoys.Owner()
	return run.New(run.Config{
		Home:  filepath.Join(dir, attackState),
		Store: db,
		Decide: func(req policy.Request) (policy.Plan, error) {
			prof, err := profile.NewSet().Lookup(req.Profile)
			if err != nil {
				return policy.Plan{}, err
			}
			prof.Image = image
			return policy.Decide(req, prof, grants)
		},
		Drivers:  h.tools.Drivers,
		Images:   h.images,
		Egress:   h.tools.Egress,
		Stores:   []string{dir},
		Snapshot: snapshot,
		Sweep:    h.tools.Sweep,
	})
}

// resultOf is what rows look at of an outcome.
func resultOf(o run.Outcome) selftest.Result {
	r := selftest.Result{
		Outcome: string(o.Kind), Message: o.Message, ExitCode: o.ExitCode, Signal: o.Signal, Rule: o.Rule, Syscall: o.Syscall, Argument: o.Argument,
		Refused: o.Refused, Flags: o.Flags,
	}
	if o.Stdout.Text != nil {
		r.Output = []byte(*o.Stdout.Text)
	} else if o.Stdout.B64 != nil {
		r.Output, _ = base64.StdEncoding.DecodeString(*o.Stdout.B64) // our own; a fault shows as output that is missing
	}
	return r
}

// attackProgress shows how far the suite is, on a terminal.
func (a *app) attackProgress() (report func(done, total int, row selftest.RowReport), done func()) {
	if !isTerminal(a.err) {
		return nil, func() {}
	}
	const clear = "\r\x1b[K"
	holes := 0
	return func(done, total int, row selftest.RowReport) {
			if row.Verdict != selftest.Holds {
				holes++
			}
			fmt.Fprintf(a.err, "%s%d of %d attacks, %d do not hold: %s", clear, done, total, holes, row.Class)
		}, func() {
			_, _ = io.WriteString(a.err, clear)
		}
}

func (a *app) showSelftest(report selftest.Report) error {
	if a.json {
		return a.printJSON(report)
	}
	table := [][]string{}
	for _, c := range report.Classes {
		state := a.colour(a.out, "32", "holds")
		if c.Holds != c.Rows {
			state = a.colour(a.out, "31", "HOLE")
		}
		table = append(table, []string{state, fmt.Sprintf("%d of %d", c.Holds, c.Rows), c.Class})
	}
	if err := a.table(table); err != nil {
		return err
	}
	for _, row := range report.Rows {
		if row.Verdict == selftest.Holds {
			continue
		}
		if err := a.print("%s: %s/%s: expected %s; %s", a.colour(a.out, "31", string(row.Verdict)), row.Class, row.Name, row.Expected, strings.Join(row.Problems, "; ")); err != nil {
			return err
		}
	}
	for _, need := range slices.Sorted(maps.Keys(report.LeftOut)) {
		if err := a.print("%d rows need %s, which this driver does not have", report.LeftOut[need], need); err != nil {
			return err
		}
	}
	return a.print("%d of %d rows hold; driver %s, image %s, in %.1f s", report.Totals[selftest.Holds], len(report.Rows), report.Driver, report.Image, float64(report.WallMs)/1000)
}
