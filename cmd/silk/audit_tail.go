package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/internal/escape"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/store"
)

const (
	// tailEvery is how often --follow looks: soon enough for a person, and a query of a tenth of a millisecond.
	tailEvery = 250 * time.Millisecond
	tailMost  = 1000 // events that one look reads
)

func (a *app) auditTailCommand() *cobra.Command {
	var limit int
	var follow bool
	c := &cobra.Command{
		Use: "tail", Short: "Print the newest audit events, the last one last, and go on with --follow", Args: needArgs(0, 0, "no arguments"),
		Long:    "Print the newest audit events, one a line, the last one last. With --follow go on until Ctrl-C.",
		Example: "  silk audit tail -n 50\n  silk audit tail -f --json | jq .event",
		RunE: func(*cobra.Command, []string) error {
			if limit < 0 {
				return usagef("--lines %d is below zero", limit)
			}
			return a.auditTail(limit, follow)
		},
	}
	c.Flags().IntVarP(&limit, "lines", "n", 10, "begin with so many `EVENTS`")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print further events as they come")
	c.Flags().BoolVar(&a.json, "json", false, "print one JSON object a line")
	return c
}

func (a *app) auditTail(limit int, follow bool) error {
	db, home, err := a.openStore()
	if errors.Is(err, errNoRuns) {
		if err := brokenTrail(audit.WithoutDatabase(home)); err != nil {
			return err
		}
	}
	for errors.Is(err, errNoRuns) && follow { // its first event makes it
		if err := a.nextLook(); err != nil {
			return err
		}
		db, _, err = a.openStore()
	}
	if errors.Is(err, errNoRuns) {
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	newest, err := audit.List(a.ctx, db, audit.Filter{Limit: max(limit, 1)})
	if err != nil {
		return err
	}
	seen := int64(0)
	if len(newest) > 0 {
		seen = newest[0].Seq
	}
	slices.Reverse(newest)
	for _, e := range newest[max(0, len(newest)-limit):] {
		if err := a.printEvent(e); err != nil {
			return err
		}
	}
	for follow {
		if err := a.nextLook(); err != nil {
			return err
		}
		if seen, err = a.printAfter(db, seen); err != nil {
			return err
		}
	}
	return nil
}

// printAfter prints the events that follow seen and returns the last one.
func (a *app) printAfter(db *store.DB, seen int64) (int64, error) {
	for {
		events, err := audit.After(a.ctx, db, seen, tailMost)
		if err != nil && a.ctx.Err() != nil {
			return seen, stoppedFollowing()
		}
		if err != nil {
			return seen, err
		}
		for _, e := range events {
			if err := a.printEvent(e); err != nil {
				return seen, err
			}
			seen = e.Seq
		}
		if len(events) < tailMost {
			return seen, nil
		}
	}
}

// nextLook waits until it is time to look again.
func (a *app) nextLook() error {
	select {
	case <-time.After(tailEvery):
		return nil
	case <-a.ctx.Done():
		return stoppedFollowing()
	}
}

// stoppedFollowing is the usual end of --follow: there is nothing to say about it.
func stoppedFollowing() error { return &endError{run.Outcome{Kind: run.Canceled}.ExitStatus()} }

func (a *app) printEvent(e audit.Event) error {
	if a.json {
		return a.printJSONLine(e)
	}
	_, err := fmt.Fprintf(a.out, "%d  %s  %s  %s  %s\n", e.Seq, timeText(e.Timestamp), e.Run, e.Name, escape.JSON(string(e.Data)))
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}
