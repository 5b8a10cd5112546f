package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/internal/escape"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/store"
)

func (a *app) auditCommand() *cobra.Command {
	var f audit.Filter
	ls := &cobra.Command{
		Use: "ls", Short: "List the newest audit events", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk audit ls --event security_violation\n  silk audit ls --run 01JF4Z7M6W8V4Y2K3T5R9QXBCD --json",
		RunE:    func(*cobra.Command, []string) error { return a.auditList(f) },
	}
	ls.Flags().StringVar(&f.Run, "run", "", "only those of this run (its first characters are enough)")
	ls.Flags().StringVar(&f.Prefix, "event", "", "only those whose name begins so, such as sandbox_")
	ls.Flags().Int64Var(&f.Before, "before", 0, "only those with a lower sequence number, for the next page")
	ls.Flags().IntVar(&f.Limit, "limit", 20, "at most so many")
	return group("audit", "Read and check the append-only trail of what happened", "  silk audit ls\n  silk audit tail -f\n  silk audit verify",
		a.jsonFlag(ls), a.auditTailCommand(), a.jsonFlag(a.auditVerifyCommand()), a.auditExportCommand())
}

func (a *app) auditList(f audit.Filter) error {
	events := []audit.Event{}
	db, home, err := a.openStore()
	switch {
	case errors.Is(err, errNoRuns):
		if err := brokenTrail(audit.WithoutDatabase(home)); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		defer db.Close()
		if f.Run, err = wholeRun(a.ctx, db, f.Run); err != nil {
			return err
		}
		if events, err = audit.List(a.ctx, db, f); err != nil {
			return err
		}
	}
	if f.Run != "" && len(events) == 0 {
		a.errorf("no event that was asked for is of run %s", printable(f.Run))
	}
	if a.json {
		if events == nil {
			events = []audit.Event{}
		}
		return a.printJSON(events)
	}
	rows := [][]string{{"SEQ", "TIME", "RUN", "EVENT", "DATA"}}
	for _, e := range events {
		rows = append(rows, []string{fmt.Sprint(e.Seq), timeText(e.Timestamp), e.Run, string(e.Name), escape.JSON(string(e.Data))})
	}
	return a.narrowTable(rows)
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var heads []string
	c := &cobra.Command{
		Use: "verify", Short: "Check that no audit event was changed or removed", Args: needArgs(0, 0, "no arguments"),
		Long: `Read the whole audit trail, in the database and in the files of old events, and check its hash chain. Exit status 1 if an
event was changed, removed, moved or put in between, if files hold events that the database does not know, or if the
database no longer forbids changes. What the owner's retention removed is said, and is no fault.
The head that is printed can be kept elsewhere: --head then shows that nothing was cut off since, which nothing
inside the trail can.`,
		Example: "  silk audit verify\n  silk audit verify --head 1204:5aed0bbeda70166508e09362c35432d0dbc92f298bdf4f8e6ca40429ec4a649f",
		RunE: func(*cobra.Command, []string) error {
			var known []audit.Head
			for _, text := range heads {
				head, err := parseHead(text)
				if err != nil {
					return err
				}
				known = append(known, head)
			}
			return a.auditVerify(known)
		},
	}
	c.Flags().StringArrayVar(&heads, "head", nil, "a head `SEQ:HASH` that was printed earlier and must still be in the trail (repeatable)")
	return c
}

// parseHead reads what headText prints.
func parseHead(text string) (audit.Head, error) {
	seq, hash, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(seq, 10, 64)
	if err != nil || n < 1 || len(hash) != 64 || strings.Trim(hash, "0123456789abcdef") != "" {
		return audit.Head{}, usagef("--head %s is not SEQ:HASH, a number and 64 hex digits, as silk audit verify prints it", printable(text))
	}
	return audit.Head{Seq: n, Hash: hash}, nil
}

func headText(h audit.Head) string {
	if h.Seq == 0 {
		return "none"
	}
	return fmt.Sprintf("%d:%s", h.Seq, h.Hash)
}

func (a *app) auditVerify(known []audit.Head) error {
	db, home, err := a.openStore()
	if errors.Is(err, errNoRuns) {
		err := audit.WithoutDatabase(home)
		if err == nil && len(known) > 0 {
			err = &audit.BrokenError{Seq: 1, Why: "it is missing: there is no trail, but a head of one was kept"}
		}
		return a.verified(audit.Report{}, err)
	}
	if err != nil {
		return err
	}
	defer db.Close()
	done := a.busy("reading the audit trail")
	report, err := audit.Verify(a.ctx, db, known...)
	done()
	return a.verified(report, err)
}

// auditAnswer is the JSON of `silk audit verify`.
type auditAnswer struct {
	Whole    bool       `json:"whole"`
	Head     audit.Head `json:"head"`              // of the part that is whole
	Events   int64      `json:"events"`            // of that part, but for those that retention removed
	Segments int        `json:"segments"`          // files that were read
	Gap      *audit.Gap `json:"removed,omitempty"` // what retention removed
	Why      string     `json:"why,omitempty"`
}

func (a *app) verified(report audit.Report, verdict error) error {
	var broken *audit.BrokenError
	if verdict != nil && !errors.As(verdict, &broken) && !errors.As(verdict, new(*audit.GoneError)) && !errors.As(verdict, new(*audit.UnguardedError)) {
		return verdict
	}
	first := int64(0)
	if report.Gap != nil {
		first = report.Gap.LastSeq
	}
	answer := auditAnswer{Whole: broken == nil, Head: report.Head, Events: report.Seq - first, Segments: report.Segments, Gap: report.Gap}
	if verdict != nil {
		answer.Why = verdict.Error()
	}
	var err error
	switch {
	case a.json:
		err = a.printJSON(answer)
	case broken == nil:
		removed := ""
		if report.Gap != nil {
			removed = fmt.Sprintf("; events 1 to %d were removed by retention, the last of them on %s", first, time.UnixMilli(report.Gap.AtMs).Format(time.DateOnly))
		}
		err = a.print("the audit trail is whole: %d events, head %s%s", answer.Events, headText(report.Head), removed)
	}
	switch {
	case err != nil:
		return err
	case broken != nil:
		return findingf("the %v; events up to %d are whole", broken, report.Seq)
	case verdict != nil:
		return findingf("%v", verdict)
	}
	return nil
}

// brokenTrail makes a finding of a trail that is broken, and leaves other errors as they are.
func brokenTrail(err error) error {
	var broken *audit.BrokenError
	if errors.As(err, &broken) {
		return findingf("the %v", broken)
	}
	return err
}

// wholeRun is the id of the run that begins with id, as `silk runs show` takes it, or id itself: events are also of
// "system", and of what has no record.
func wholeRun(ctx context.Context, db *store.DB, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	e, err := record.Get(ctx, db, id)
	if errors.Is(err, record.ErrNotFound) {
		return id, nil
	}
	return e.Record.Run, err
}
