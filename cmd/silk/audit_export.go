package main

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/internal/atomicfile"
)

func (a *app) auditExportCommand() *cobra.Command {
	var s audit.Selection
	var since, until, file string
	var force bool
	c := &cobra.Command{
		Use: "export", Short: "Write audit events as JSON lines, with the head of the trail at the end", Args: needArgs(0, 0, "no arguments"),
		Long: `Write audit events, the oldest first, one JSON object a line. The last line has the number of events and the head of the
whole trail, whatever was chosen: keep it elsewhere, and silk audit verify --head SEQ:HASH shows later that nothing
was cut off. The trail is verified on the way; a broken one is not exported (exit status 1).`,
		Example: "  silk audit export -o trail.jsonl\n  silk audit export --since 24h --event security_violation\n  silk audit export --since 2026-11-01 --until 2026-12-01 -o november.jsonl",
		RunE: func(*cobra.Command, []string) (err error) {
			now := time.Now()
			if s.Since, err = parseMoment("--since", since, now); err != nil {
				return err
			}
			if s.Until, err = parseMoment("--until", until, now); err != nil {
				return err
			}
			return a.auditExport(s, file, force)
		},
	}
	c.Flags().StringVar(&since, "since", "", "only what happened at this `TIME` or later: 24h (ago), 2026-11-01, 2026-11-01T12:00:00Z")
	c.Flags().StringVar(&until, "until", "", "only what happened before this `TIME`")
	c.Flags().StringVar(&s.Run, "run", "", "only events of this run (its first characters are enough)")
	c.Flags().StringVar(&s.Prefix, "event", "", "only events whose name begins so, such as sandbox_")
	c.Flags().StringVarP(&file, "output", "o", "", "write to `FILE`, for your eyes only, instead of standard output")
	c.Flags().BoolVar(&force, "force", false, "replace FILE if it is there")
	return c
}

// parseMoment reads a time: a duration before now, a date in the local time zone, or RFC 3339. "" is no time.
func parseMoment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return time.Time{}, usagef("%s %s is in the future", flag, text)
		}
		return now.Add(-d), nil
	}
	if at, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return at, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usagef("%s %s is not a time: write 24h (ago), 2026-11-01 or 2026-11-01T12:00:00Z", flag, printable(text))
	}
	return at, nil
}

func (a *app) auditExport(s audit.Selection, file string, force bool) error {
	if file != "" && !force {
		if _, err := os.Lstat(file); err == nil {
			return usagef("%s is there already; --force replaces it", printable(file))
		}
	}
	db, home, err := a.openStore()
	if errors.Is(err, errNoRuns) {
		if err := brokenTrail(audit.WithoutDatabase(home)); err != nil {
			return err
		}
		return missingf("there is no audit trail yet")
	}
	if err != nil {
		return err
	}
	defer db.Close()
	if s.Run, err = wholeRun(a.ctx, db, s.Run); err != nil {
		return err
	}
	var events int64
	var report audit.Report
	export := func(w io.Writer) (err error) {
		events, report, err = audit.Export(a.ctx, db, w, s)
		return err
	}
	if file == "" {
		err = export(a.out)
	} else {
		err = atomicfile.WriteFunc(file, 0o600, export)
	}
	var broken *audit.BrokenError
	if errors.As(err, &broken) {
		return findingf("the %v; what was written is not an export", broken)
	}
	if err == nil && s.Run != "" && events == 0 {
		a.errorf("no event that was asked for is of run %s", printable(s.Run))
	}
	if err != nil || file == "" {
		return err
	}
	return a.print("wrote %d events to %s; head %s", events, printable(file), headText(report.Head))
}
