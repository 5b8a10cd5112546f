package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/retention"
)

// holdCommands are those about what must not be removed.
func (a *app) holdCommands() []*cobra.Command {
	var reason string
	hold := &cobra.Command{
		Use: "hold RUN", Short: "Keep a run with all that its record names, whatever retention wants", Args: needArgs(1, 1, "one run"),
		Long: `Keep the record of a run, its output, artifacts and hand-offs, its image, the key that signed, and the audit events from its first one on,
until it is released: neither silk gc nor any other command removes them. Who holds what is in the audit trail.`,
		Example: "  silk record hold 01JF4Z --reason 'case 4711'",
		RunE:    func(_ *cobra.Command, args []string) error { return a.recordHold(args[0], reason) },
	}
	hold.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	release := &cobra.Command{
		Use: "release RUN", Short: "End the hold of a run", Args: needArgs(1, 1, "one run"),
		Example: "  silk record release 01JF4Z",
		RunE:    func(_ *cobra.Command, args []string) error { return a.recordRelease(args[0]) },
	}
	holds := &cobra.Command{
		Use: "holds", Short: "List the runs that are held", Args: needArgs(0, 0, "no arguments"), Example: "  silk record holds --json",
		RunE: func(*cobra.Command, []string) error { return a.recordHolds() },
	}
	return []*cobra.Command{a.jsonFlag(hold), release, a.jsonFlag(holds)}
}

// withKeeper calls do with the keeper of the state directory and the run with this id.
func (a *app) withKeeper(id string, do func(k retention.Keeper, run string) error) (err error) {
	h, err := a.openImages()
	if err != nil {
		return err
	}
	db, home, err := a.openStore()
	if err != nil {
		return runMissing(id, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	e, err := record.Get(a.ctx, db, id)
	if err != nil {
		return runMissing(id, err)
	}
	h.home = home
	return do(h.keeper(db), e.Record.Run)
}

func (a *app) recordHold(id, reason string) error {
	return a.withKeeper(id, func(k retention.Keeper, run string) error {
		h, missing, err := k.Place(a.ctx, run, reason, localDecider)
		if err != nil {
			return err
		}
		if missing {
			a.errorf("its image is not here any more, so the hold does not keep it")
		}
		for what, at := range map[string]int64{"output": h.OutputGoneMs, "artifacts": h.ArtifactsGoneMs} {
			if at > 0 {
				a.errorf("its %s had been removed before, at %s", what, timeText(at))
			}
		}
		if a.json {
			return a.printJSON(h)
		}
		return a.print("run %s is held; the audit trail is kept from event %d on", run, h.FirstSeq)
	})
}

// localDecider is who asks on the command line, in the audit trail.
const localDecider = "local"

func (a *app) recordRelease(id string) error {
	return a.withKeeper(id, func(k retention.Keeper, run string) error {
		err := k.Lift(a.ctx, run, localDecider)
		if errors.Is(err, retention.ErrNotHeld) {
			return usagef("run %s is not held; silk record holds lists those that are", run)
		}
		if err != nil {
			return err
		}
		return a.print("run %s is not held any more", run)
	})
}

func (a *app) recordHolds() error {
	holds := []retention.Hold{}
	db, _, err := a.openStore()
	if err == nil {
		holds, err = retention.Holds(a.ctx, db)
		err = errors.Join(err, db.Close())
	}
	if err != nil && !errors.Is(err, errNoRuns) {
		return err
	}
	if a.json {
		return a.printJSON(holds)
	}
	rows := [][]string{{"RUN", "SINCE", "FROM EVENT", "REASON"}}
	for _, h := range holds {
		rows = append(rows, []string{h.Run, timeText(h.AtMs), strconv.FormatInt(h.FirstSeq, 10), oneLine(h.Reason)})
	}
	return a.table(rows)
}
