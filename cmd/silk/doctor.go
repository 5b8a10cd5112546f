package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/promise"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/store"
)

func (a *app) doctorCommand() *cobra.Command {
	var docker, writes bool
	var file string
	c := &cobra.Command{
		Use: "doctor", Short: "Say what this host can keep, and start one sandbox to prove it", Args: needArgs(0, 0, "no arguments"),
		Long: `Look at what sandboxes need of this host, and start one with an image that is there to prove it. Each line is yes, no (a
promise is kept in another way, or something optional is missing), unknown, or fatal (nothing can run). Exit status 1 if
something is fatal.

With --docker it asks the Docker Engine of this machine instead whether it knows silk as a runtime, and has it run a container.`,
		Example: "  silk doctor\n  silk doctor --json\n  silk doctor --docker --write",
		RunE: func(*cobra.Command, []string) error {
			switch {
			case docker:
				return a.doctorDocker(file, writes)
			case writes:
				return usagef("--write is for --docker")
			}
			return a.doctor()
		},
	}
	c.Flags().BoolVar(&docker, "docker", false, "say whether Docker can use silk as its runtime (docker run --runtime silk), and prove it")
	c.Flags().BoolVar(&writes, "write", false, "with --docker: put silk into the engine's configuration")
	c.Flags().StringVar(&file, "daemon-json", daemonFile, "`FILE` of that configuration")
	return a.jsonFlag(c)
}

func (a *app) doctor() error {
	done := a.busy("looking at this host")
	facts := a.facts()
	done()
	if err := a.printFacts(facts); err != nil {
		return err
	}
	if slices.ContainsFunc(facts, func(f fact) bool { return f.State == factFatal }) {
		return findingf("nothing can run on this host until what is fatal above is repaired")
	}
	return nil
}

// printFacts prints what was found out.
func (a *app) printFacts(facts []fact) error {
	if a.json {
		if err := a.printJSON(facts); err != nil {
			return err
		}
	} else {
		rows := make([][]string, len(facts))
		for i, f := range facts {
			colour := map[factState]string{factYes: "32", factNo: "33", factUnknown: "33", factFatal: "31"}[f.State]
			rows[i] = []string{f.Name, a.colour(a.out, colour, string(f.State)), f.Text}
		}
		if err := a.table(rows); err != nil {
			return err
		}
	}
	return nil
}

// facts finds out everything, as far as it gets.
func (a *app) facts() []fact {
	facts := []fact{{"system", factYes, runtime.GOOS + " on " + runtime.GOARCH}}
	facts = append(facts, hostFacts()...)

	c, err := a.loadConfig()
	if err != nil {
		return append(facts, fact{"configuration", factFatal, err.Error()})
	}
	facts = append(facts, fact{"configuration", factYes, or(c.file, "none: defaults")})
	home, err := a.home(c)
	var text string
	if err == nil {
		text, err = tryHome(home)
	}
	if err != nil {
		return append(facts, fact{"state directory", factFatal, err.Error()})
	}
	facts = append(facts, fact{"state directory", factYes, text}, a.trailFact(home))
	facts = append(facts, watchFact(c.mustWatch))

	h, err := a.lookHost()
	if err != nil {
		return append(facts, fact{"sandbox kernel", factFatal, err.Error()})
	}
	defer h.close() // what hangs on it was waited for
	facts = append(append(facts, a.sinkFacts(h)...), a.handoffFacts(c)...)
	if len(h.tools.Drivers) == 0 {
		text := "no driver"
		if h.tools.WhyNone != nil {
			text = h.tools.WhyNone.Error()
		}
		return append(facts, fact{"sandbox kernel", factFatal, text})
	}
	if h.tools.Carried != nil {
		for _, f := range h.tools.Carried() {
			if h.scratch != "" { // which is gone in a moment
				f.Text = strings.ReplaceAll(f.Text, h.scratch, h.home)
			}
			facts = append(facts, f)
		}
	}
	images, imageFact := imageFacts(h.images)
	facts = append(facts, imageFact)
	for _, d := range h.tools.Drivers {
		if d.Name() == "qemu" { // Carried has said it
			continue
		}
		facts = append(facts, a.driverFacts(h, d, images)...)
	}
	for _, name := range []string{"gvisor", "docker"} {
		if why, ok := h.tools.Absent[name]; ok {
			facts = append(facts, fact{"driver " + name, factNo, why})
		}
	}
	for _, d := range h.tools.Drivers {
		if summary, known := promise.Summary(d.Name(), os.Geteuid() == 0); known {
			facts = append(facts, fact{"promises of " + d.Name(), factYes, summary})
		}
	}
	return facts
}

// trailFact says whether records and audit events can be read. Without them no code runs.
func (a *app) trailFact(home string) fact {
	const name = "audit trail"
	path := filepath.Join(home, store.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := audit.WithoutDatabase(home); err != nil {
			return fact{name, factFatal, "the " + err.Error() + "; put the database back that belongs to them, or move that directory away and keep it"}
		}
		return fact{name, factYes, "begins with the first run"}
	}
	db, err := store.Open(a.ctx, path)
	if err != nil {
		return fact{name, factFatal, err.Error()}
	}
	defer db.Close()
	events, err := audit.List(a.ctx, db, audit.Filter{Limit: 1})
	if err != nil {
		return fact{name, factFatal, err.Error()}
	}
	err = audit.Strays(a.ctx, db)
	if err != nil && len(events) == 0 {
		return fact{name, factFatal, err.Error()} // no run begins a second trail
	}
	if err = errors.Join(err, audit.Guarded(a.ctx, db)); err != nil {
		return fact{name, factNo, strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	if len(events) == 0 {
		return fact{name, factYes, "no event yet"}
	}
	return fact{name, factYes, fmt.Sprintf("%d events; silk audit verify looks whether all are there", events[0].Seq)}
}

// sinkFacts asks each place that alerts go to.
func (a *app) sinkFacts(h *host) []fact {
	sinks, err := a.alerts(h)
	if err != nil {
		return []fact{{"alerts", factNo, err.Error()}}
	}
	var facts []fact
	for _, c := range sinks.Check(a.ctx) {
		f := fact{"alert by " + c.Sink, factYes, "can be told"}
		if c.Err != nil {
			f.State, f.Text = factNo, c.Err.Error()
		}
		facts = append(facts, f)
	}
	return facts
}

// handoffFacts asks each place that hand-offs go to.
func (a *app) handoffFacts(c config) (facts []fact) {
	for _, s := range c.handoffs.sinks {
		f := fact{"hand-offs to " + s.Name, factYes, "can be delivered"}
		ctx, cancel := context.WithTimeout(a.ctx, cmp.Or(s.Timeout, 5*time.Second))
		if err := s.Reach(ctx); err != nil {
			f.State, f.Text = factNo, err.Error()
		}
		cancel()
		facts = append(facts, f)
	}
	return facts
}

// tryHome makes a file in the state directory, or tries whether the directory could be made.
func tryHome(home string) (text string, err error) {
	if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
		dir, err := besideHome(home)
		if err != nil {
			return "", err
		}
		return home + " can be made", os.Remove(dir)
	}
	f, err := os.CreateTemp(home, ".doctor-*")
	if err != nil {
		return "", err
	}
	_ = f.Close() // nothing was written
	return home + " can be written", os.Remove(f.Name())
}

func imageFacts(store imageStore) (tags []string, _ fact) {
	images, err := store.List()
	if err != nil {
		return nil, fact{"images", factUnknown, err.Error()}
	}
	for _, img := range images {
		tags = append(tags, img.Tags...)
	}
	slices.Sort(tags)
	if len(tags) == 0 {
		return nil, fact{"images", factNo, "none yet; make one with: silk image build lab:text"}
	}
	return tags, fact{"images", factYes, strings.Join(tags, ", ")}
}

// probeLimit bounds the start of doctor's own sandbox.
const probeLimit = 20 * time.Second

// driverFacts asks a driver what it cannot keep here, and lets it start a sandbox.
func (a *app) driverFacts(h *host, d driver.Driver, tags []string) []fact {
	name := "driver " + d.Name()
	if len(tags) == 0 {
		return []fact{{name, factUnknown, "not tried, as there is no image"}}
	}
	tag := tags[0]
	if slices.Contains(tags, "lab:text") {
		tag = "lab:text"
	}
	ctx, cancel := context.WithTimeout(a.ctx, probeLimit)
	defer cancel()
	img, err := h.images.Open(ctx, tag)
	if err != nil {
		return []fact{{name, factUnknown, err.Error()}}
	}
	defer img.Root.Close()
	l := profile.Defaults
	spec := driver.Spec{
		ID: fmt.Sprintf("doctor-%d", os.Getpid()), Image: img.Root, Trees: img.Trees, Args: []string{"true"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/workspace", Hostname: "silk",
		Network: driver.NetworkDeny, MemoryBytes: l.MemoryBytes, WorkspaceBytes: l.WorkspaceBytes, TmpBytes: l.TmpBytes, ShmBytes: l.ShmBytes,
		Processes: l.Processes, CPUs: l.CPUs,
	}
	var facts []fact
	also := ""
	if p, ok := d.(run.Prober); ok {
		notes, err := p.Probe(ctx, spec)
		if err != nil && name == "driver docker/silk" { // what every engine must be told first
			return []fact{{name, factNo, err.Error()}}
		}
		if err != nil {
			return []fact{{name, factFatal, err.Error()}}
		}
		for _, note := range notes {
			if strings.HasPrefix(note, "the sandbox's kernel is the only watcher") {
				continue // watchFact has said whether there could be another
			}
			if about := noteName(note); about != "" {
				facts = append(facts, fact{about, factNo, note})
			} else {
				also += "; " + note
			}
		}
	}
	start := time.Now()
	exit, err := tryDriver(ctx, d, spec)
	took := time.Since(start).Round(time.Millisecond)
	switch {
	case err != nil:
		facts = append(facts, fact{name, factFatal, err.Error()})
	case exit.NotFound, exit.Code != 0, exit.Signal != 0, exit.OOM, exit.Violation != nil, exit.Killed:
		facts = append(facts, fact{name, factFatal, fmt.Sprintf("the program true in %s ended with %+v", tag, exit)})
	default:
		facts = append(facts, fact{name, factYes, fmt.Sprintf("started a sandbox with %s in %s%s", tag, took, also)})
	}
	return facts
}

// noteName names the line of a limit that a driver does not keep, by its note; "" for other notes.
func noteName(note string) string {
	for about, name := range map[string]string{"memory ": "memory limit", "CPU ": "CPU limit"} {
		if strings.HasPrefix(note, about) {
			return name
		}
	}
	return ""
}

// tryDriver runs spec with its output thrown away.
func tryDriver(ctx context.Context, d driver.Driver, spec driver.Spec) (driver.Exit, error) {
	said, output, err := os.Pipe()
	if err != nil {
		return driver.Exit{}, err
	}
	defer said.Close()
	defer output.Close()
	spec.Stdout, spec.Stderr = output, output
	s, err := d.Start(ctx, spec)
	if err != nil {
		return driver.Exit{}, err
	}
	stop := context.AfterFunc(ctx, func() { s.Kill(driver.KillNow) })
	defer stop()
	return s.Wait()
}
