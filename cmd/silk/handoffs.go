package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/store"
)

// handoffStates are what hand-offs can be chosen by.
var handoffStates = []string{"open", "pending", "delivered", "dead", "acked"}

func (a *app) handoffsCommand() *cobra.Command {
	var f handoff.Filter
	ls := &cobra.Command{
		Use: "ls", Short: "List hand-offs, the newest first", Args: needArgs(0, 0, "no arguments"),
		Long: `List what was handed on of runs that did not end well, the newest first. It is open where no sink is configured, pending until
all sinks have it, then delivered; dead when a sink was given up, which retry changes; and acked when its receiver has taken it.`,
		Example: "  silk handoffs ls --state dead\n  silk handoffs ls --receiver code_explainer --json",
		RunE: func(*cobra.Command, []string) error {
			switch {
			case f.State != "" && !slices.Contains(handoffStates, f.State):
				return usagef("--state %q is not one of %s", f.State, strings.Join(handoffStates, ", "))
			case f.Receiver != "" && !slices.Contains(handoff.Receivers, f.Receiver):
				return usagef("--receiver %q is not one of %s", f.Receiver, strings.Join(handoff.Receivers, ", "))
			case f.Limit < 1:
				return usagef("--limit %d is not above zero", f.Limit)
			}
			return a.handoffsList(f)
		},
	}
	ls.Flags().StringVar(&f.State, "state", "", "only those in this `STATE`: "+strings.Join(handoffStates, ", "))
	ls.Flags().StringVar(&f.Receiver, "receiver", "", "only those for this `RECEIVER`: "+strings.Join(handoff.Receivers, ", "))
	ls.Flags().StringVar(&f.Run, "run", "", "only those of this `RUN` (its first characters are enough)")
	ls.Flags().StringVar(&f.Before, "before", "", "only those older than this `HANDOFF`, for the next page")
	ls.Flags().IntVar(&f.Limit, "limit", 20, "at most this `NUMBER`")

	show := &cobra.Command{
		Use: "show HANDOFF", Short: "Show a hand-off: code, log, outcome, and where it went", Args: needArgs(1, 1, "one hand-off"),
		Long:    "Show a hand-off: code, log, outcome, and where it went. With --json its content is as sinks get it (silk.handoff/v1).\nThe first characters of its id are enough.",
		Example: "  silk handoffs show 01JF4Z\n  silk handoffs show 01JF4Z --json",
		RunE:    func(_ *cobra.Command, args []string) error { return a.handoffsShow(args[0]) },
	}
	retry := &cobra.Command{
		Use: "retry HANDOFF...", Short: "Deliver hand-offs again", Args: needArgs(1, math.MaxInt, "one hand-off at least"),
		Long: `Deliver what is dead, or waits for its next attempt, at once; and where everything was delivered, all of it again. Sinks that
were configured since get it too. On a server (--server) it becomes due, and the server delivers it. Exit status 1 if a sink does not take it.`,
		Example: "  silk handoffs retry 01JF4Z",
		RunE:    func(_ *cobra.Command, args []string) error { return a.handoffsRetry(args) },
	}
	ack := &cobra.Command{
		Use: "ack HANDOFF...", Short: "Say that hand-offs are taken", Args: needArgs(1, math.MaxInt, "one hand-off at least"),
		Long:    "Say that the receiver has taken hand-offs, from wherever: nothing more of them is delivered, and they are removed after a month, or what handoffs: keep: says.",
		Example: "  silk handoffs ack 01JF4Z",
		RunE:    func(_ *cobra.Command, args []string) error { return a.handoffsAck(args) },
	}
	deliver := &cobra.Command{
		Use: "deliver", Short: "Deliver what is due, and wait for it", Args: needArgs(0, 0, "no arguments"),
		Long: `Deliver what is due, and wait for it: for a host on which silk run is used and nothing else, since a run waits a tenth of a second
for its hand-offs at most. Exit status 1 if a sink does not take something.`,
		Example: "  silk handoffs deliver",
		RunE:    func(*cobra.Command, []string) error { return a.handoffsDeliver() },
	}
	return group("handoffs", "Look at what was handed on of runs that did not end well, and deliver it again",
		"  silk handoffs ls\n  silk handoffs show 01JF4Z", a.jsonFlag(ls), a.jsonFlag(show), retry, ack, deliver)
}

func (a *app) handoffsList(f handoff.Filter) error {
	var list []api.Handoff
	if a.serverURL() != "" {
		var err error
		if list, err = a.handoffsOnServer(f); err != nil {
			return err
		}
		return a.printHandoffs(list)
	}
	db, _, err := a.openStore()
	if errors.Is(err, errNoRuns) {
		return a.printHandoffs(nil)
	}
	if err != nil {
		return err
	}
	defer db.Close()
	if f.Run, err = wholeRun(a.ctx, db, f.Run); err != nil {
		return err
	}
	f.Before = strings.ToUpper(f.Before)
	entries, err := handoff.List(a.ctx, db, f)
	if err != nil {
		return err
	}
	for _, e := range entries {
		list = append(list, e.Handoff)
	}
	return a.printHandoffs(list)
}

func (a *app) printHandoffs(list []api.Handoff) error {
	if a.json {
		if list == nil {
			list = []api.Handoff{}
		}
		return a.printJSON(list)
	}
	rows := [][]string{{"HANDOFF", "TIME", "RECEIVER", "OUTCOME", "STATE", "SINKS", "RUN"}}
	for _, h := range list {
		rows = append(rows, []string{h.ID, timeText(h.CreatedAtMs), h.Receiver, h.Outcome, h.State, sinksText(h.Deliveries), h.Run})
	}
	return a.table(rows)
}

// sinksText says which sinks have a hand-off.
func sinksText(list []api.HandoffDelivery) string {
	var parts []string
	for _, d := range list {
		parts = append(parts, d.Sink+":"+d.State)
	}
	return or(strings.Join(parts, " "), "-")
}

// withHandoff finds a hand-off of this host by the begin of its id.
func (a *app) withHandoff(id string, do func(db *store.DB, e handoff.Entry) error) error {
	db, _, err := a.openStore()
	if err != nil {
		return handoffMissing(id, err)
	}
	defer db.Close()
	e, err := handoff.Get(a.ctx, db, id)
	if err != nil {
		return handoffMissing(id, err)
	}
	return do(db, e)
}

func handoffMissing(id string, err error) error {
	var several *handoff.AmbiguousError
	switch {
	case errors.Is(err, handoff.ErrNotFound), errors.Is(err, errNoRuns):
		return missingf("there is no hand-off %s; silk handoffs ls lists them", printable(id))
	case errors.As(err, &several):
		return usagef("more than one hand-off begins with %s; give more of its id", printable(id))
	case errors.Is(err, handoff.ErrAcked), errors.Is(err, handoff.ErrNoSink):
		return findingf("%v", err)
	}
	return err
}

func (a *app) handoffsShow(id string) error {
	if a.serverURL() != "" {
		return a.onServersHandoff(id, a.showRemoteHandoff)
	}
	return a.withHandoff(id, func(_ *store.DB, e handoff.Entry) error { return a.printHandoff(e.Handoff) })
}

func (a *app) printHandoff(h api.Handoff) error {
	if a.json {
		return a.printJSON(h)
	}
	c := h.Content
	rows := [][]string{
		{"handoff", h.ID},
		{"receiver", h.Receiver},
		{"state", h.State},
		{"run", h.Run},
		{"outcome", outcomeText(c.Outcome)},
		{"message", printable(c.Outcome.Message)},
		{"command", printable(c.Command)},
		{"profile", printable(c.Profile)},
		{"language", printable(c.Language)},
		{"note", printable(c.Note)},
		{"block", printable(c.Block)},
	}
	rows = slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" })
	for _, v := range c.Violations {
		what := fmt.Sprintf("%s %s", v.Rule, times(v.Count))
		if v.Ended {
			what = fmt.Sprintf("%s ended the run: %s(%q)", v.Rule, v.Syscall, v.Argument)
		}
		rows = append(rows, []string{"violation", what})
	}
	for _, d := range h.Deliveries {
		rows = append(rows, []string{"sink", deliveryText(d)})
	}
	if h.State == "acked" {
		rows = append(rows, []string{"taken", timeText(h.AckedAtMs) + " by " + printable(h.AckedBy)})
	}
	if err := a.table(rows); err != nil {
		return err
	}
	for _, part := range parts(c) {
		if err := a.print("\n%s:\n%s", part[0], strings.TrimSuffix(part[1], "\n")); err != nil {
			return err
		}
	}
	return nil
}

// parts are code and log, with their titles, so that a terminal can show them.
func parts(c *api.HandoffContent) (list [][2]string) {
	if c.Code != nil {
		list = append(list, [2]string{"code " + printable(c.Code.Name) + tail(": ", printable(c.Code.Omitted)), handoff.Visible(c.Code.Text, c.Code.B64)})
	}
	for _, ch := range []struct {
		name string
		c    api.HandoffChannel
	}{{"stdout", c.Log.Stdout}, {"stderr", c.Log.Stderr}} {
		if ch.c.Bytes == 0 {
			continue
		}
		list = append(list, [2]string{ch.name, handoff.Visible(ch.c.Text, ch.c.B64)})
		if ch.c.Omitted > 0 {
			list = append(list, [2]string{fmt.Sprintf("%s after %d bytes that are left out", ch.name, ch.c.Omitted), handoff.Visible(ch.c.Tail, ch.c.TailB64)})
		}
	}
	return list
}

func outcomeText(o api.HandoffOutcome) string {
	text := o.Kind + tail(", ", o.Phase) + tail(", ", o.Reason) + tail(", ", o.Rule)
	switch {
	case o.Signal != 0:
		text += ", " + signalName(o.Signal)
	case o.ExitCode != nil:
		text += fmt.Sprintf(", exit %d", *o.ExitCode)
	}
	return text
}

func deliveryText(d api.HandoffDelivery) string {
	text := fmt.Sprintf("%s: %s after %d attempts", d.Sink, d.State, d.Attempts)
	if d.Attempts == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	if d.DoneAtMs > 0 {
		text += ", " + timeText(d.DoneAtMs)
	}
	if d.DueAtMs > 0 {
		text += ", next " + timeText(d.DueAtMs)
	}
	return text + tail(": ", printable(d.Error))
}

func (a *app) handoffsAck(ids []string) error {
	if a.serverURL() != "" {
		return each(ids, func(id string) error { return a.onServersHandoff(id, a.ackRemoteHandoff) })
	}
	return each(ids, func(id string) error {
		return a.withHandoff(id, func(db *store.DB, e handoff.Entry) error {
			return handoff.Ack(a.ctx, db, e.ID, auth.LocalToken, time.Now())
		})
	})
}

// each does something with each of several, and says what went wrong with any.
func each(ids []string, do func(id string) error) error {
	for i, id := range ids {
		if err := do(id); err != nil {
			if len(ids) > 1 {
				return fmt.Errorf("%s, number %d of %d: %w", printable(id), i+1, len(ids), err)
			}
			return err
		}
	}
	return nil
}

func (a *app) handoffsRetry(ids []string) error {
	if a.serverURL() != "" {
		return each(ids, func(id string) error { return a.onServersHandoff(id, a.retryRemoteHandoff) })
	}
	o, err := a.localOutbox()
	if err != nil {
		return err
	}
	err = each(ids, func(id string) error {
		return a.withHandoff(id, func(db *store.DB, e handoff.Entry) error { return handoffMissing(id, o.Retry(a.ctx, db, e.ID)) })
	})
	if err != nil {
		return err
	}
	return a.deliverNow(o)
}

// localOutbox is the outbox as this host's configuration has it, for verbs that run nothing.
func (a *app) localOutbox() (*handoff.Outbox, error) {
	c, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	return (&host{config: c}).outbox(nil)
}

func (a *app) handoffsDeliver() error {
	if a.serverURL() != "" {
		return usagef("silk handoffs deliver is about this host: a server delivers by itself; leave --server out")
	}
	o, err := a.localOutbox()
	if err != nil {
		return err
	}
	return a.deliverNow(o)
}

// deliverNow delivers what is due, and waits for it.
func (a *app) deliverNow(o *handoff.Outbox) error {
	db, _, err := a.openStore()
	if errors.Is(err, errNoRuns) {
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	report, err := o.Deliver(a.ctx, db)
	if err != nil {
		return err
	}
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	a.errorf("%s delivered", countText(report.Delivered, "hand-off"))
	for _, f := range report.Failed {
		more := "it is tried again"
		if f.Dead {
			more = "it is given up until silk handoffs retry " + f.Handoff
		}
		a.errorf("%s to %s by %s: %v; %s", f.Handoff, f.Receiver, f.Sink, f.Err, more)
	}
	if len(report.Failed) > 0 {
		return findingf("%s not delivered", countText(len(report.Failed), "hand-off"))
	}
	return nil
}

// countText is a number of things.
func countText(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
