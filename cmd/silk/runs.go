package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/store"
)

func (a *app) runsCommand() *cobra.Command {
	var f record.Filter
	var since time.Duration
	ls := &cobra.Command{
		Use: "ls", Short: "List the newest runs, those that wait in a server included", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk runs ls --outcome violated --since 24h\n  silk runs ls --limit 1000 --json",
		RunE: func(*cobra.Command, []string) error {
			switch {
			case f.Outcome != "" && !slices.Contains(outcomes, f.Outcome):
				return usagef("--outcome %q is not one of %s", f.Outcome, strings.Join(outcomes, ", "))
			case f.Limit < 1:
				return usagef("--limit %d is not above zero", f.Limit)
			case since < 0:
				return usagef("--since %s is not above zero", since)
			case since > 0:
				f.Since = time.Now().Add(-since)
			}
			return a.runsList(f)
		},
	}
	ls.Flags().StringVar(&f.Outcome, "outcome", "", "only those that ended so: "+strings.Join(outcomes, ", "))
	ls.Flags().StringVarP(&f.Profile, "profile", "p", "", "only those of this profile")
	ls.Flags().DurationVar(&since, "since", 0, "only those started within this time, such as 24h")
	ls.Flags().StringVar(&f.Before, "before", "", "only those older than this run, for the next page")
	ls.Flags().IntVar(&f.Limit, "limit", 20, "at most so many")

	show := &cobra.Command{
		Use: "show RUN", Short: "Show the record of a run", Args: needArgs(1, 1, "one run"),
		Long:    "Show the record of a run: what was asked, what was decided, how it ended, and the hashes of what went in and came out.\nThe first characters of a run's id are enough.",
		Example: "  silk runs show 01JF4Z",
		RunE:    func(_ *cobra.Command, args []string) error { return a.runsShow(args[0]) },
	}
	var channel string
	logs := &cobra.Command{
		Use: "logs RUN", Short: "Print what a run printed", Args: needArgs(1, 1, "one run"),
		Long:    "Print the kept output of a run byte for byte: its stdout on stdout, its stderr on stderr.",
		Example: "  silk runs logs 01JF4Z\n  silk runs logs 01JF4Z --channel stderr 2>errors.txt",
		RunE:    func(_ *cobra.Command, args []string) error { return a.runsLogs(args[0], channel) },
	}
	logs.Flags().StringVar(&channel, "channel", "", "only stdout or stderr")
	return group("runs", "List runs, their records and their output; follow, end and approve those of a server", "  silk runs ls\n  silk runs logs 01JF4Z",
		append([]*cobra.Command{a.jsonFlag(ls), a.jsonFlag(show), logs}, a.runsOnServers()...)...)
}

// outcomes are what runs can be chosen by.
var outcomes = []string{
	string(run.OK), string(run.Failed), string(run.Timeout), string(run.OOM), string(run.Violated), string(run.Denied), string(run.Canceled), string(run.Error), "running", "queued", "pending",
}

// openStore opens the database of the state directory, without making either; the server's executable opens the one that
// servers share, if there is one.
func (a *app) openStore() (db *store.DB, home string, err error) {
	c, err := a.loadConfig()
	if err != nil {
		return nil, "", err
	}
	if home, err = a.home(c); err != nil {
		return nil, "", err
	}
	if db, err = a.openShared(c); db != nil || err != nil {
		return db, filepath.Join(home, sharedDir), err
	}
	if c.serve.databaseFile != "" || !c.serve.database.Empty() || a.env("SILK_DATABASE") != "" {
		a.errorf("this is what ran with this host's command line; what its servers ran is in the database that they share: %s reads it with the same arguments", serverName)
	}
	path := filepath.Join(home, store.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, home, errNoRuns
	}
	db, err = store.Open(a.ctx, path)
	return db, home, err
}

// errNoRuns is returned by openStore when nothing has been run yet with this state directory.
var errNoRuns = errors.New("nothing has been run yet")

func (a *app) runsList(f record.Filter) error {
	if a.serverURL() != "" {
		return a.listOnServer(f)
	}
	db, _, err := a.openStore()
	if errors.Is(err, errNoRuns) {
		return a.printRuns(nil)
	}
	if err != nil {
		return err
	}
	defer db.Close()
	var entries []record.Entry
	if !isWaiting(f.Outcome) {
		if entries, err = record.List(a.ctx, db, f); err != nil {
			return err
		}
	}
	runs, err := waiting(a.ctx, db)
	if err != nil {
		return err
	}
	return a.printRuns(withWaiting(entries, runs, f))
}

func (a *app) printRuns(entries []record.Entry) error {
	if a.json {
		list := make([]record.Record, len(entries))
		for i, e := range entries {
			list[i] = e.Record
		}
		return a.printJSON(list)
	}
	rows := [][]string{{"RUN", "STARTED", "PROFILE", "OUTCOME", "EXIT", "TIME", "COMMAND"}}
	for _, e := range entries {
		r := e.Record
		rows = append(rows, []string{r.Run, timeText(r.StartedAtMs), r.Profile, or(r.Outcome.Kind, "running"), exitText(r.Outcome), fmt.Sprintf("%d ms", r.Outcome.WallMs), shortened(r.Command)})
	}
	return a.table(rows)
}

// shortened cuts a command that would break the lines of a list.
func shortened(command string) string {
	const most = 60
	if r := []rune(command); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return command
}

func exitText(o record.Outcome) string {
	switch {
	case o.Signal != 0:
		return signalName(o.Signal)
	case o.Rule != "":
		return o.Rule
	case o.ExitCode != nil:
		return strconv.Itoa(*o.ExitCode)
	}
	return or(o.Reason, "-")
}

func (a *app) runsShow(id string) error {
	if a.serverURL() != "" {
		return a.showOnServer(id)
	}
	db, _, err := a.openStore()
	if err != nil {
		return runMissing(id, err)
	}
	defer db.Close()
	e, err := record.Get(a.ctx, db, id)
	if errors.Is(err, record.ErrNotFound) {
		r, ok, waitErr := findWaiting(a.ctx, db, id)
		if waitErr != nil {
			return waitErr
		}
		if ok {
			return a.printWaiting(r)
		}
	}
	if err != nil {
		return runMissing(id, err)
	}
	return a.printRecord(e)
}

func (a *app) printRecord(e record.Entry) error {
	if a.json {
		return a.printJSON(struct {
			record.Record
			Plan any `json:"plan"`
		}{e.Record, e.Plan})
	}
	r := e.Record
	rows := [][]string{
		{"run", r.Run},
		{"started", timeText(r.StartedAtMs)},
		{"command", r.Command}, // printable already
		{"profile", r.Profile},
		{"driver", r.Driver},
		{"image", r.Image},
		{"outcome", or(r.Outcome.Kind, "running")},
		{"exit", exitText(r.Outcome)},
		{"time", fmt.Sprintf("%d ms, %d ms of processor time", r.Outcome.WallMs, r.Usage.CPUMs)},
		{"memory", sizeText(r.Usage.PeakMemoryBytes)},
		{"stdout", channelText(r.Stdout)},
		{"stderr", channelText(r.Stderr)},
		{"request", r.RequestSHA256},
		{"policy", r.PolicySHA256},
		{"input", r.Input.SHA256},
	}
	if r.Outcome.Message != "" {
		rows = append(rows, []string{"message", printable(r.Outcome.Message)})
	}
	if r.Outcome.Syscall != "" {
		rows = append(rows, []string{"tried", fmt.Sprintf("%s(%q)", r.Outcome.Syscall, r.Outcome.Argument)})
	}
	if r.Outcome.DeadAfterUs > 0 {
		rows = append(rows, []string{"dead after", fmt.Sprintf("%.2f ms; --json has the %d events before", float64(r.Outcome.DeadAfterUs)/1000, len(r.Outcome.Events))})
	}
	for _, d := range r.Outcome.Egress {
		rows = append(rows, egressRow(d))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Outcome.Refused)) {
		rows = append(rows, []string{"refused", fmt.Sprintf("%s %s", name, times(r.Outcome.Refused[name]))})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Outcome.Flags)) {
		rows = append(rows, []string{"limit hit", fmt.Sprintf("%s %d", name, r.Outcome.Flags[name])})
	}
	for _, d := range r.Decisions {
		if d.What != "driver" { // shown above
			rows = append(rows, []string{d.What, printable(d.Text)})
		}
	}
	for _, art := range r.Artifacts {
		rows = append(rows, []string{"artifact", printable(art.Path) + " " + sizeText(art.Size) + tail(" ", art.SHA256)})
	}
	return a.table(slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" })) // a run that was denied has no driver, image and input
}

func channelText(c record.Channel) string {
	if c.SHA256 == "" {
		return "not recorded"
	}
	s := fmt.Sprintf("%d bytes, sha256 %s", c.Bytes, c.SHA256)
	if c.Truncated {
		s += fmt.Sprintf(", the first %d kept", c.Kept)
	}
	return s
}

func (a *app) runsLogs(id, channel string) error {
	if channel != "" && channel != "stdout" && channel != "stderr" {
		return usagef("--channel %s is not stdout or stderr", channel)
	}
	if a.serverURL() != "" {
		return a.logsOnServer(id, channel)
	}
	db, home, err := a.openStore()
	if err != nil {
		return runMissing(id, err)
	}
	defer db.Close()
	e, err := record.Get(a.ctx, db, id)
	if err != nil {
		return runMissing(id, err)
	}
	for _, ch := range []struct {
		name string
		w    io.Writer
		kept record.Channel
	}{{"stdout", a.out, e.Record.Stdout}, {"stderr", a.err, e.Record.Stderr}} {
		if channel != "" && channel != ch.name || ch.kept.Bytes == 0 {
			continue
		}
		r, err := record.Output(a.ctx, db, home, e.Record.Run, ch.name)
		if err != nil {
			return err
		}
		_, err = io.Copy(ch.w, r)
		if err = errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("print %s of run %s: %w", ch.name, e.Record.Run, err)
		}
		if ch.kept.Truncated {
			a.errorf("%s is cut: %d of %d bytes were kept", ch.name, ch.kept.Kept, ch.kept.Bytes)
		}
	}
	return nil
}

func runMissing(id string, err error) error {
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, errNoRuns) {
		return missingf("there is no run %s; silk runs ls lists them", printable(id))
	}
	return err
}

// egressRow says what was reached, or was not.
func egressRow(d record.Destination) []string {
	if !d.Allowed {
		return []string{"kept from", fmt.Sprintf("%s, %s", refusedText(run.Destination(d)), times(int64(d.Count)))}
	}
	text := fmt.Sprintf("%s %s, %s sent, %s received", net.JoinHostPort(printable(d.Host), strconv.Itoa(d.Port)), times(int64(d.Count)), sizeText(d.Sent), sizeText(d.Taken))
	return []string{"reached", text + tail(": ", d.Reason)}
}
