package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/selftest"
	"github.com/silk-sandbox/silk/skill"
	"github.com/silk-sandbox/silk/store"
)

func (a *app) skillSelftestCommand() *cobra.Command {
	var drivers []string
	var only string
	c := &cobra.Command{
		Use: "selftest", Short: "Attack the sandboxes of skills on this host and say what held", Args: needArgs(0, 0, "no arguments"),
		Long: `Run the five tests that were published for skills - network, filesystem, process, timeout, memory - and what they leave out. Each program
runs twice, both times in a sandbox: without the restriction, where it must have its effect, or the test would show nothing; and as a skill with it,
where it must not. Needs the image lab:python, which --driver must be able to run.

Exit status: 0 if every test holds, 1 if one does not, 125 if the tests cannot run.`,
		Example: "  silk skill selftest\n  silk skill selftest --driver gvisor --json\n  silk skill selftest --only 'network|port'",
		RunE:    func(*cobra.Command, []string) error { return a.skillSelftest(drivers, only) },
	}
	c.Flags().StringArrayVar(&drivers, "driver", nil, "`DRIVER` to attack, a column each (repeatable; default the one that runs use)")
	c.Flags().StringVar(&only, "only", "", "tests whose name matches `REGEX`")
	return c
}

func (a *app) skillSelftest(drivers []string, only string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return usagef("--only: %v", err)
	}
	tests := slices.DeleteFunc(selftest.SkillTests(), func(t selftest.SkillTest) bool { return !pattern.MatchString(t.Name) })
	if len(tests) == 0 {
		return usagef("no test matches --only %s", only)
	}
	h, err := a.openHost(false)
	if err != nil {
		return err
	}
	report, err := a.attackSkills(h, drivers, tests)
	if err = errors.Join(err, h.close()); err != nil {
		return err
	}
	if err := a.showSkillSelftest(report); err != nil {
		return err
	}
	if n := report.Failures(); n > 0 {
		return findingf("%d of %d tests do not hold", n, len(report.Tests)*len(report.Drivers))
	}
	return nil
}

// skillAttack is one call of the tests.
type skillAttack struct {
	*app
	engine   *run.Engine
	services *selftest.SkillServices
	db       *store.DB
	dir      string
}

// attackSkills runs tests with an engine and a state directory of their own, one run after the other, since services count who asks.
func (a *app) attackSkills(h *host, drivers []string, tests []selftest.SkillTest) (report selftest.SkillReport, err error) {
	if len(drivers) == 0 && len(h.tools.Drivers) > 0 {
		drivers = []string{h.tools.Drivers[0].Name()}
	}
	if len(drivers) == 0 {
		return report, h.knownDriver("")
	}
	const image = "lab:python"
	report = selftest.SkillReport{Schema: selftest.SkillSchema, Silk: version, Image: image, UID: os.Geteuid(), Began: time.Now().UTC().Format(time.RFC3339), Drivers: drivers}
	for _, name := range drivers {
		if err := h.knownDriver(name); err != nil {
			return report, err
		}
	}
	if _, err := h.images.Resolve(image); err != nil {
		return report, err
	}
	if err := sweepScratch(); err != nil {
		return report, fmt.Errorf("remove what a selftest left that was killed: %w", err)
	}
	dir, release, err := scratchDir(selftestDirs)
	if err != nil {
		return report, &hostError{err}
	}
	defer func() { err = errors.Join(err, release()) }()
	t := skillAttack{app: a, dir: dir}
	if t.db, err = attackStore(a.ctx, dir); err != nil {
		return report, &hostError{err}
	}
	defer func() { err = errors.Join(err, t.db.Close()) }()
	if t.services, err = selftest.OpenSkillServices(); err != nil {
		return report, &hostError{err}
	}
	defer func() { err = errors.Join(err, t.services.Close()) }()
	t.engine, err = run.New(run.Config{
		Home: filepath.Join(dir, attackState), Store: t.db, Drivers: h.tools.Drivers, Images: h.images, Egress: h.tools.Egress, Sweep: h.tools.Sweep,
		Decide: func(req policy.Request) (policy.Plan, error) {
			prof, err := profile.NewSet().Lookup(policy.ProfileFor(req))
			if err == nil && req.Skill != nil {
				prof, err = req.Skill.Profile(prof)
			}
			if err != nil {
				return policy.Plan{}, err
			}
			return policy.Decide(req, prof, policy.Grants{})
		},
	})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, t.engine.Close()) }()

	began := time.Now()
	for i, test := range tests {
		if isTerminal(a.err) {
			fmt.Fprintf(a.err, "\r\x1b[K%d of %d: %s", i+1, len(tests), test.Name)
		}
		one := selftest.SkillTestReport{Name: test.Name, About: test.About, Published: test.Published, On: map[string]selftest.SkillColumn{}}
		for _, name := range drivers {
			if one.On[name], err = t.column(test, name); err != nil {
				return report, err
			}
		}
		report.Tests = append(report.Tests, one)
	}
	if isTerminal(a.err) {
		fmt.Fprint(a.err, "\r\x1b[K")
	}
	report.WallMs = time.Since(began).Milliseconds()
	return report, nil
}

// column is one test on one driver.
func (t *skillAttack) column(test selftest.SkillTest, driver string) (c selftest.SkillColumn, err error) {
	host := t.services.Host()
	do := func(s selftest.SkillSetup) (selftest.SkillResult, error) { return t.do(test.Request(s, host), driver) }
	switch {
	case test.Tampered:
		var without selftest.SkillResult
		if without, c.With, err = t.tampered(test, driver); err != nil {
			return c, err
		}
		c.Without = &without
		c.Verdict, c.Problems = test.Judge(without, c.With)
	case test.Ordinary:
		if c.With, err = do(test.Held); err != nil {
			return c, err
		}
		c.Verdict, c.Problems = test.Judge(selftest.SkillResult{}, c.With)
	default:
		without, err := do(test.Free)
		if err != nil {
			return c, err
		}
		c.Without = &without
		if c.With, err = do(test.Held); err != nil {
			return c, err
		}
		c.Verdict, c.Problems = test.Judge(without, c.With)
	}
	return c, nil
}

// do runs one request.
func (t *skillAttack) do(req policy.Request, driver string) (selftest.SkillResult, error) {
	req.Driver = driver
	t.services.Taken("")
	o, err := t.engine.Run(t.ctx, req, run.IO{})
	if t.ctx.Err() != nil {
		return selftest.SkillResult{}, fmt.Errorf("attack skills: %w", context.Canceled)
	}
	api := ""
	if req.Skill != nil {
		api = req.Skill.API
	}
	r := skillResultOf(o)
	r.Asked, r.Others = t.services.Taken(api)
	return r, err
}

func skillResultOf(o run.Outcome) selftest.SkillResult {
	r := selftest.SkillResult{Outcome: string(o.Kind), Message: o.Message, ExitCode: skillExit(o), Rule: o.Rule, Refused: o.Refused, Flags: o.Flags, WallMs: o.WallMs}
	r.Effect = o.Stdout.Text != nil && strings.Contains(*o.Stdout.Text, selftest.SkillEffect)
	return r
}

// tampered registers the test's program as a skill and runs it, changes one byte of its file, and runs it again.
func (t *skillAttack) tampered(test selftest.SkillTest, driver string) (before, after selftest.SkillResult, err error) {
	name := "selftest-" + strings.ReplaceAll(driver, "/", "-")
	dir := filepath.Join(t.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return before, after, &hostError{err}
	}
	put := func(text string) error { return atomicfile.Write(filepath.Join(dir, "main.py"), []byte(text), 0o600) }
	if err := put(test.Program); err != nil {
		return before, after, &hostError{err}
	}
	m := skill.Manifest{
		Version: skill.Version, Name: name, Publisher: skill.Publisher{Name: "silk", Contact: "selftest@example.org"},
		Sandbox: skill.Sandbox{MemoryMb: skill.DefaultMemoryMb, TimeoutMs: skill.DefaultTimeoutMs},
	}
	key, err := skill.NewKey()
	if err != nil {
		return before, after, err
	}
	if m.Files, err = skill.HashFiles(dir, []string{"main.py"}); err != nil {
		return before, after, err
	}
	m.Sign(key)
	r, err := skill.Register(t.ctx, t.db, m.Text(), skill.Origin{Dir: dir}, time.Now())
	if err != nil || !r.Registered {
		return before, after, errors.Join(err, fmt.Errorf("register the skill of a test: %s", r.Error))
	}
	once := func() (selftest.SkillResult, error) {
		req, err := loadSkill(t.ctx, t.db, policy.Request{Client: policy.ClientCLI, Driver: driver}, name, "")
		if err == nil {
			return t.do(req, driver)
		}
		var denial *policy.Denial
		if !errors.As(err, &denial) {
			return selftest.SkillResult{}, err
		}
		return skillResultOf(failure(denial)), nil
	}
	if before, err = once(); err != nil {
		return before, after, err
	}
	if err := put(string(bytes.Replace([]byte(test.Program), []byte("E"), []byte("e"), 1))); err != nil {
		return before, after, &hostError{err}
	}
	after, err = once()
	return before, after, err
}

func (a *app) showSkillSelftest(report selftest.SkillReport) error {
	if a.json {
		return a.printJSON(report)
	}
	rows := [][]string{append(append([]string{"TEST"}, upper(report.Drivers)...), "WHAT IT TRIES")}
	var notes []string
	for _, t := range report.Tests {
		name := t.Name
		if t.Published {
			name += " *"
		}
		row := []string{name}
		for _, driver := range report.Drivers {
			c := t.On[driver]
			row = append(row, fmt.Sprintf("%s (%s)", c.Verdict, c.With.Outcome))
			if c.Verdict != selftest.Holds {
				notes = append(notes, fmt.Sprintf("%s: %s on %s: %s", a.colour(a.out, "31", string(c.Verdict)), t.Name, driver, strings.Join(c.Problems, "; ")))
			}
		}
		rows = append(rows, append(row, t.About))
	}
	if err := a.table(rows); err != nil {
		return err
	}
	for _, note := range notes {
		if err := a.print("%s", note); err != nil {
			return err
		}
	}
	total := len(report.Tests) * len(report.Drivers)
	return a.print("%d of %d hold, in %.1f s; * is one of the five that were published", total-report.Failures(), total, float64(report.WallMs)/1000)
}

func upper(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = strings.ToUpper(n)
	}
	return list
}
