package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// runsOnServers are the verbs that need a server: that of --server, or else the one of this host.
func (a *app) runsOnServers() []*cobra.Command {
	var f runFlags
	var all bool
	attach := &cobra.Command{
		Use: "attach RUN", Short: "Follow a run of a server until it ends", Args: needArgs(1, 1, "one run"),
		Long: `Follow a run of a server: show what it prints, from its last 4 KiB of each channel on, and end as it ends, with its exit
status. Ctrl-C leaves the run alone and ends only the watching; silk runs kill ends the run.`,
		Example: "  silk runs attach 01JF4Z\n  silk --server https://lab:7455 runs attach 01JF4Z --all",
		RunE: func(_ *cobra.Command, args []string) error {
			a.json = a.json || a.jsonl
			return a.runsAttach(&f, args[0], all)
		},
	}
	attach.Flags().BoolVar(&all, "all", false, "show everything that it has printed so far, from the begin")
	attach.Flags().BoolVarP(&f.interactive, "interactive", "i", false, "pass stdin on, if the run was asked for with an open one")
	attach.Flags().BoolVar(&a.json, "json", false, "print one JSON object at the end, and nothing else on stdout")
	attach.Flags().BoolVar(&a.jsonl, "jsonl", false, "print JSON lines, as silk run --jsonl does")

	kill := &cobra.Command{
		Use: "kill RUN", Short: "End a run of a server", Args: needArgs(1, 1, "one run"),
		Long:    "End a run of a server. One that waits never starts. One that runs is ended, with the outcome canceled.",
		Example: "  silk runs kill 01JF4Z",
		RunE:    func(_ *cobra.Command, args []string) error { return a.runsKill(args[0]) },
	}
	return append([]*cobra.Command{attach, kill}, a.approvalCommands()...)
}

// onServer does something with a run of a server, given by the begin of its id.
func (a *app) onServer(id string, do func(c *client.Client, run string) error) error {
	c, err := a.serverOrLocal()
	if err != nil {
		return err
	}
	defer c.Close()
	full, err := a.findRun(c, id)
	if err != nil {
		return err
	}
	return serverError(do(c, full))
}

// serverError gives what a server says the kind that it has among the errors of this program.
func serverError(err error) error {
	var p *api.Problem
	if !errors.As(err, &p) {
		return withHint(err)
	}
	switch {
	case p.Status == http.StatusNotFound:
		return missingf("%s", problemText(p))
	case p.Status == http.StatusConflict:
		return findingf("%s", problemText(p))
	case p.Status < http.StatusInternalServerError:
		return usagef("%s", problemText(p))
	}
	return errors.New(problemText(p))
}

// idLength is that of a ULID.
const idLength = 26

// findRun makes an id of the begin of one, as on this host.
func (a *app) findRun(c *client.Client, id string) (string, error) {
	id = strings.ToUpper(id)
	if len(id) == idLength {
		return id, nil
	}
	if id == "" || len(id) > idLength || strings.Trim(id, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
		return "", runMissing(id, record.ErrNotFound)
	}
	var found []string
	for r, err := range c.Runs(a.ctx, client.RunFilter{Before: id + "~", Page: 2}) { // "~" is above all letters of an id
		if err != nil {
			return "", serverError(err)
		}
		if strings.HasPrefix(r.ID, id) {
			found = append(found, r.ID)
		}
		if !strings.HasPrefix(r.ID, id) || len(found) == 2 {
			break
		}
	}
	switch len(found) {
	case 0:
		return "", runMissing(id, record.ErrNotFound)
	case 2:
		return "", usagef("more than one run begins with %s; give more of its id", id)
	}
	return found[0], nil
}

// listOnServer is runsList for a server.
func (a *app) listOnServer(f record.Filter) error {
	c, err := a.server()
	if err != nil {
		return err
	}
	defer c.Close()
	want := client.RunFilter{Outcome: f.Outcome, Profile: f.Profile, Before: f.Before, Page: min(f.Limit, 500)}
	if f.Outcome == "running" || isWaiting(f.Outcome) {
		want.Outcome, want.State = "", api.State(f.Outcome)
	}
	if want.Before != "" {
		if want.Before, err = a.findRun(c, f.Before); err != nil {
			return err
		}
	}
	var entries []record.Entry
	for r, err := range c.Runs(a.ctx, want) {
		if err != nil {
			return serverError(err)
		}
		if !f.Since.IsZero() && r.AcceptedAtMs < f.Since.UnixMilli() {
			break
		}
		e := record.Entry{Record: recordFor(r)}
		if a.json && r.StartedAtMs > 0 {
			if e.Record, err = fetchRecord(a.ctx, c, r.ID); err != nil {
				return serverError(err)
			}
		}
		if entries = append(entries, e); len(entries) == f.Limit {
			break
		}
	}
	return a.printRuns(entries)
}

// recordFor is what a list says of a run. One that waits has its state in place of an outcome, and no record yet.
func recordFor(r api.Run) record.Record {
	rec := record.Record{
		Schema: record.Schema, Run: r.ID, Client: r.Client, Profile: r.Profile, Command: oneLine(r.Command), StartedAtMs: r.StartedAtMs, EndedAtMs: r.EndedAtMs,
	}
	if rec.StartedAtMs == 0 {
		rec.StartedAtMs = r.AcceptedAtMs
	}
	if r.State == api.StatePending || r.State == api.StateQueued {
		rec.Outcome.Kind = string(r.State)
	}
	if o := r.Outcome; o != nil {
		rec.Outcome = record.Outcome{
			Kind: o.Kind, Reason: o.Reason, Message: o.Message, ExitCode: o.ExitCode, Signal: o.Signal, Phase: o.Phase, Rule: o.Rule, WallMs: o.WallMs,
		}
	}
	return rec
}

// showOnServer is runsShow for a server.
func (a *app) showOnServer(id string) error {
	return a.onServer(id, func(c *client.Client, full string) error {
		rec, err := fetchRecord(a.ctx, c, full)
		var p *api.Problem
		if errors.As(err, &p) && p.Status == http.StatusConflict { // it has none
			if r, err := c.Run(a.ctx, full); err == nil && isWaiting(string(r.State)) {
				return a.printWaiting(r)
			}
		}
		if err != nil {
			return err
		}
		return a.printRecord(record.Entry{Record: rec})
	})
}

// logsOnServer is runsLogs for a server.
func (a *app) logsOnServer(id, channel string) error {
	return a.onServer(id, func(c *client.Client, full string) error {
		r, err := c.Run(a.ctx, full)
		if err != nil {
			return err
		}
		if r.Outcome == nil {
			return findingf("run %s has not ended; follow it with silk runs attach %s --all", full, full)
		}
		for _, ch := range []struct {
			name string
			w    io.Writer
			all  api.Channel
		}{{"stdout", a.out, r.Outcome.Stdout}, {"stderr", a.err, r.Outcome.Stderr}} {
			if channel != "" && channel != ch.name || ch.all.Bytes == 0 {
				continue
			}
			in, err := c.Output(a.ctx, full, ch.name)
			if err != nil {
				return err
			}
			n, err := io.Copy(ch.w, in)
			if err = errors.Join(err, in.Close()); err != nil {
				return fmt.Errorf("print %s of run %s: %w", ch.name, full, err)
			}
			if ch.all.Truncated {
				a.errorf("%s is cut: %d of %d bytes were kept", ch.name, n, ch.all.Bytes)
			}
		}
		return nil
	})
}

func (a *app) runsKill(id string) error {
	return a.onServer(id, func(c *client.Client, full string) error {
		if err := c.Cancel(a.ctx, full); err != nil {
			var p *api.Problem
			if errors.As(err, &p) && p.Status == http.StatusConflict {
				return findingf("run %s has ended already", full)
			}
			return err
		}
		ctx, stop := context.WithTimeout(a.ctx, cancelGrace)
		defer stop()
		o, err := c.Wait(ctx, full)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			a.errorf("run %s is being ended", full)
			return nil
		case err != nil:
			return err
		case o.Kind != string(run.Canceled):
			a.errorf("run %s ended by itself before: %s", full, o.Kind)
		}
		return nil
	})
}

// errDetached is the cause of a watch that the user has ended.
var errDetached = errors.New("the run goes on without being watched")

func (a *app) runsAttach(f *runFlags, id string, all bool) error {
	return a.onServer(id, func(c *client.Client, full string) error {
		cfg, err := a.loadConfig()
		if err != nil {
			return err
		}
		r := &remoteRun{app: a, flags: f, client: c, config: cfg, id: full, attached: true}
		r.req.HasStdin = f.interactive
		if r.streams, err = a.streams(f, &r.req); err != nil {
			return err
		}
		defer r.streams.close()
		from := client.Cursor{Tail: !all}
		end, err := r.follow(from)
		if errors.Is(err, errDetached) {
			a.errorf("run %s goes on; silk runs kill %s ends it", full, full)
			return &endError{statusInterrupted}
		}
		if errors.As(err, new(*api.Problem)) {
			return err
		}
		return r.finish(end, err)
	})
}

// timeLeft is how long until a moment, for people.
func timeLeft(ms int64) string {
	return max(0, time.Until(time.UnixMilli(ms))).Round(time.Second).String()
}

// planOf reads the plan of an approval.
func planOf(text json.RawMessage, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	return nil
}
