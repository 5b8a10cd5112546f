package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/audit"
)

func (a *app) auditCommand() *cobra.Command {
	var f audit.Filter
	ls := &cobra.Command{
		Use: "ls", Short: "List the newest audit events", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk audit ls --event security_violation\n  silk audit ls --run 01JF4Z7M6W8V4Y2K3T5R9QXBCD --json",
		RunE:    func(*cobra.Command, []string) error { return a.auditList(f) },
	}
	ls.Flags().StringVar(&f.Run, "run", "", "only those of this run (whole id)")
	ls.Flags().StringVar(&f.Prefix, "event", "", "only those whose name begins so, such as sandbox_")
	ls.Flags().Int64Var(&f.Before, "before", 0, "only those with a lower sequence number, for the next page")
	ls.Flags().IntVar(&f.Limit, "limit", 20, "at most so many")
	verify := &cobra.Command{
		Use: "verify", Short: "Check that no audit event was changed or removed", Args: needArgs(0, 0, "no arguments"),
		Long:    "Read the whole audit trail and check its hash chain. Exit status 1 if an event was changed, removed or put in between.\nThe head that is printed can be kept elsewhere: a later trail that is whole and has it has the same history.",
		Example: "  silk audit verify",
		RunE:    func(*cobra.Command, []string) error { return a.auditVerify() },
	}
	return group("audit", "Read and check the append-only trail of what happened", "  silk audit ls\n  silk audit verify", a.jsonFlag(ls), a.jsonFlag(verify))
}

func (a *app) auditList(f audit.Filter) error {
	events := []audit.Event{}
	db, _, err := a.openStore()
	switch {
	case errors.Is(err, errNoRuns):
	case err != nil:
		return err
	default:
		defer db.Close()
		if events, err = audit.List(a.ctx, db, f); err != nil {
			return err
		}
	}
	if a.json {
		if events == nil {
			events = []audit.Event{}
		}
		return a.printJSON(events)
	}
	rows := [][]string{{"SEQ", "TIME", "RUN", "EVENT", "DATA"}}
	for _, e := range events {
		rows = append(rows, []string{fmt.Sprint(e.Seq), timeText(e.Timestamp), e.Run, string(e.Name), string(e.Data)})
	}
	return a.table(rows)
}

func (a *app) auditVerify() error {
	db, _, err := a.openStore()
	if errors.Is(err, errNoRuns) {
		return a.verified(audit.Head{}, nil)
	}
	if err != nil {
		return err
	}
	defer db.Close()
	done := a.busy("reading the audit trail")
	head, err := audit.Verify(a.ctx, db)
	done()
	var broken *audit.BrokenError
	if err != nil && !errors.As(err, &broken) {
		return err
	}
	return a.verified(head, broken)
}

// auditAnswer is the JSON of `silk audit verify`.
type auditAnswer struct {
	Whole bool       `json:"whole"`
	Head  audit.Head `json:"head"` // of the part that is whole
	Why   string     `json:"why,omitempty"`
}

func (a *app) verified(head audit.Head, broken *audit.BrokenError) error {
	answer := auditAnswer{Whole: broken == nil, Head: head}
	if broken != nil {
		answer.Why = broken.Error()
	}
	var err error
	switch {
	case a.json:
		err = a.printJSON(answer)
	case broken == nil:
		err = a.print("the audit trail is whole: %d events, head %s", head.Seq, or(head.Hash, "none"))
	}
	if err == nil && broken != nil {
		err = findingf("the audit trail is broken: %v; events up to %d are whole", broken, head.Seq)
	}
	return err
}
