package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/internal/pipe"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/run"
)

// maxGrant is the longest time for which an approval is good for the same request.
const maxGrant = 168 * time.Hour

func (a *app) approvalCommands() []*cobra.Command {
	var hash, reason string
	var length time.Duration
	pending := &cobra.Command{
		Use: "pending", Short: "List runs of a server that wait for your approval", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk runs pending\n  silk runs pending --json",
		RunE:    func(*cobra.Command, []string) error { return a.runsPending() },
	}
	approve := &cobra.Command{
		Use: "approve RUN", Short: "Approve a run that waits, after a look at it", Args: needArgs(1, 1, "one run"),
		Long: `Show what a run that waits would do - its plan, its code, and what has changed since you approved it last - and approve it.
On a terminal you are asked. In scripts --hash names what was looked at: a request that has another hash is not approved.`,
		Example: "  silk runs approve 01JF4Z\n  silk runs approve 01JF4Z --for 8h\n  silk runs approve 01JF4Z --hash 9f86d081...",
		RunE:    func(_ *cobra.Command, args []string) error { return a.runsApprove(args[0], hash, length) },
	}
	approve.Flags().StringVar(&hash, "hash", "", "`HASH` of the request that was looked at; you are not asked")
	approve.Flags().DurationVar(&length, "for", 0, "how long the very same request needs no other approval, in whole hours, such as 8h (default: this run only)")
	deny := &cobra.Command{
		Use: "deny RUN", Short: "Deny a run that waits", Args: needArgs(1, 1, "one run"),
		Example: "  silk runs deny 01JF4Z --reason 'ask for less memory'",
		RunE:    func(_ *cobra.Command, args []string) error { return a.runsDeny(args[0], reason) },
	}
	deny.Flags().StringVar(&reason, "reason", "", "`TEXT` for who asked")
	return []*cobra.Command{a.jsonFlag(pending), a.jsonFlag(approve), a.jsonFlag(deny)}
}

func (a *app) runsPending() error {
	c, err := a.serverOrLocal()
	if err != nil {
		return err
	}
	defer c.Close()
	list := []api.Approval{}
	for waiting, err := range c.Approvals(a.ctx, "pending") {
		if err != nil {
			return serverError(err)
		}
		list = append(list, waiting)
	}
	if a.json {
		return a.printJSON(list)
	}
	rows := [][]string{{"RUN", "ASKED", "TIME LEFT", "TOKEN", "ASKS FOR"}}
	for _, w := range list {
		rows = append(rows, []string{w.Run, timeText(w.RequestedAtMs), timeLeft(w.ExpiresAtMs), oneLine(w.Token), oneLine(w.Detail)})
	}
	return a.table(rows)
}

func (a *app) runsApprove(id, hash string, length time.Duration) error {
	if length < 0 || length > maxGrant || length%time.Hour != 0 {
		return usagef("--for %s is not a number of whole hours up to 168h", length)
	}
	return a.onServer(id, func(c *client.Client, full string) error {
		waiting, err := a.waiting(c, full)
		if err != nil {
			return err
		}
		if hash == "" {
			if err := a.showApproval(waiting); err != nil {
				return err
			}
			if a.json || !isTerminal(a.in) {
				return usagef("there is no terminal to ask on: approve what is shown with --hash %s", printable(waiting.Hash))
			}
			if yes, err := a.yes("approve this run? [y/N] "); err != nil || !yes {
				return errors.Join(err, findingf("run %s is not approved; it waits on", full))
			}
			hash = waiting.Hash
		}
		if !strings.EqualFold(hash, waiting.Hash) {
			return findingf("run %s waits with the hash %s, not with %s: look at it again", full, waiting.Hash, printable(hash))
		}
		return a.decide(c, full, api.DecisionRequest{Grant: true, Hash: waiting.Hash, ForHours: int(length / time.Hour)}, "is approved")
	})
}

func (a *app) runsDeny(id, reason string) error {
	return a.onServer(id, func(c *client.Client, full string) error {
		waiting, err := a.waiting(c, full)
		if err != nil {
			return err
		}
		return a.decide(c, full, api.DecisionRequest{Hash: waiting.Hash, Reason: reason}, "is denied")
	})
}

// waiting is what waits for a decision.
func (a *app) waiting(c *client.Client, full string) (api.Approval, error) {
	w, err := c.Approval(a.ctx, full)
	if err == nil && w.State != "pending" {
		err = findingf("run %s does not wait for a decision: it is %s", full, oneLine(w.State))
	}
	return w, err
}

func (a *app) decide(c *client.Client, full string, d api.DecisionRequest, done string) error {
	decided, err := c.Decide(a.ctx, full, d)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(decided)
	}
	if decided.ValidUntilMs > 0 {
		done += ", as is the same request until " + timeText(decided.ValidUntilMs)
	}
	a.errorf("run %s %s", full, done)
	return nil
}

// showApproval prints what the owner must see before a yes. Code and difference are untrusted; the server shows invisible
// characters in them, and what could steer a terminal is taken out here in any case.
func (a *app) showApproval(w api.Approval) error {
	if a.json {
		return a.printJSON(w)
	}
	for _, row := range [][2]string{
		{"run", w.Run}, {"asked by", "token " + w.Token + " at " + timeText(w.RequestedAtMs)}, {"asks for", w.Detail}, {"time left", timeLeft(w.ExpiresAtMs)},
	} {
		if err := a.print("%-12s %s", row[0], oneLine(row[1])); err != nil {
			return err
		}
	}
	if len(w.Plan) > 0 {
		var plan policy.Plan
		if err := planOf(w.Plan, &plan); err != nil {
			return err
		}
		if err := a.printPlan(planAnswer{Hash: w.Hash, Preview: run.Preview{Plan: plan}, Enforced: policy.Enforced(plan)}); err != nil {
			return err
		}
	}
	parts := []struct{ title, text string }{{"code", w.Code}, {"not shown of the code", w.Omitted}, {"strange about the code", strings.Join(w.Warnings, "\n")}}
	for _, f := range w.Files {
		about := fmt.Sprintf("%d bytes%s%s%s", f.Bytes, map[bool]string{true: ", executable"}[f.Executable], tail(", sha256 ", f.SHA256), tail("; not whole: ", f.Omitted))
		parts = append(parts, struct{ title, text string }{printable(f.Name) + " (" + oneLine(about) + ")", or(f.Text, "(no text)")})
	}
	for _, part := range append(parts, struct{ title, text string }{"changed since the last approval", w.Diff}) {
		if part.text == "" {
			continue
		}
		if err := a.print("\n%s:\n%s", part.title, quoted(part.text)); err != nil {
			return err
		}
	}
	return nil
}

// quoted is text of somebody else, each line of it marked, without what steers a terminal.
func quoted(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  | " + oneLine(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// yes asks a question on stderr. Anything but yes is no, and so is the end of stdin and Ctrl-C.
func (a *app) yes(question string) (bool, error) {
	fmt.Fprint(a.err, "silk: "+question)
	in := io.Reader(a.in)
	if r, stop, err := pipe.Interruptible(a.in); err == nil { // elsewhere the second Ctrl-C ends silk
		in = r
		defer stop()
		defer context.AfterFunc(a.ctx, stop)()
	}
	line, err := bufio.NewReader(io.LimitReader(in, 100)).ReadString('\n')
	if cause := context.Cause(a.ctx); cause != nil {
		return false, cause
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}
