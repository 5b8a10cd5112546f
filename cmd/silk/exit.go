package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/nearest"
	"github.com/silk-sandbox/silk/internal/strictyaml"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// usageError is a command line that cannot be read.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// missingError is something that is not there: a file, an image, a driver.
type missingError struct{ text string }

func (e *missingError) Error() string { return e.text }

func missingf(format string, args ...any) error { return &missingError{fmt.Sprintf(format, args...)} }

// hostError is the host's fault, whatever it is made of: a state directory that cannot be made is no missing file of the
// user's.
type hostError struct{ err error }

func (e *hostError) Error() string { return e.err.Error() }
func (e *hostError) Unwrap() error { return e.err }

// endError is the end of a run, which has been reported already.
type endError struct{ status int }

func (e *endError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// findingError is a "no" for an answer: a broken audit trail, a damaged image, a host that is not fit. Exit status 1.
type findingError struct{ text string }

func (e *findingError) Error() string { return e.text }

func findingf(format string, args ...any) error { return &findingError{fmt.Sprintf(format, args...)} }

// classify is the one table from errors to outcomes. Outcomes have their exit status from run.Outcome.ExitStatus.
func classify(err error) (run.Kind, run.Reason) {
	var (
		denial      *policy.Denial
		unread      *policy.RequestError
		usage       *usageError
		unknown     *profile.UnknownError
		yaml        *strictyaml.Error
		missing     *missingError
		host        *hostError
		ambiguous   *record.AmbiguousError
		refused     *image.RefusedError
		brokenTrail *audit.BrokenError
	)
	switch {
	case errors.As(err, &denial):
		return run.Denied, ""
	case errors.As(err, &host):
		return run.Error, run.ReasonHost
	case errors.As(err, &unread), errors.As(err, &usage), errors.As(err, &unknown), errors.As(err, &yaml), errors.As(err, &ambiguous):
		return run.Error, run.ReasonUsage
	case errors.As(err, &missing), errors.Is(err, fs.ErrNotExist), errors.Is(err, image.ErrNotFound), errors.Is(err, record.ErrNotFound):
		return run.Error, run.ReasonMissing
	case errors.As(err, &refused), errors.As(err, &brokenTrail), errors.Is(err, image.ErrCorrupt):
		return run.Error, run.ReasonHost
	case errors.Is(err, context.Canceled):
		return run.Canceled, ""
	}
	return run.Error, run.ReasonHost
}

// report says what went wrong, as JSON too if that was asked for, and returns the exit status.
func (a *app) report(err error) int {
	var end *endError
	var finding *findingError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &end):
		return end.status
	case errors.As(err, &finding):
		a.errorf("%s", finding.text)
		return 1
	}
	o := failure(err)
	if a.json {
		_ = a.printOutcome(o) // it has been said, and the status is an error's already
	}
	a.errorf("%s", o.Message)
	return o.ExitStatus()
}

// printOutcome prints the end of a run as the one JSON value, or as the last frames. An error has been said.
func (a *app) printOutcome(o run.Outcome) error {
	if !a.jsonl {
		return a.printJSONLine(o)
	}
	var before any
	switch o.Kind {
	case run.Denied:
		before = denialFrame{Type: "denial", Rule: o.Rule, Detail: o.Message}
	case run.Violated:
		before = violationFrame{Type: "violation", Rule: o.Rule, Syscall: o.Syscall, Detail: o.Argument}
	}
	if before != nil {
		if err := a.printJSONLine(before); err != nil {
			return err
		}
	}
	for _, art := range o.Artifacts {
		if art.Display == "" {
			continue
		}
		if err := a.printJSONLine(displayFrame{Type: "display", MIME: art.Display, Path: art.Path}); err != nil {
			return err
		}
	}
	return a.printJSONLine(exitFrame{Type: "exit", Outcome: o})
}

// failure is the outcome of a run that err kept from starting.
func failure(err error) run.Outcome {
	o := run.Outcome{Message: err.Error(), Artifacts: []run.Artifact{}, Flags: map[string]int64{}}
	o.Kind, o.Reason = classify(err)
	var denial *policy.Denial
	if errors.As(err, &denial) {
		o.Rule = denial.Rule
	}
	return o
}

func (a *app) printJSONLine(v any) error {
	_, err := a.out.Write(jsonLine(v))
	if err != nil {
		a.errorf("write the answer: %v", err)
	}
	return err
}

// printJSON prints the answer of a verb, for people to read and programs to parse.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

func unknownCommand(cmd *cobra.Command, word string) error {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	if near := nearest.To(word, known); near != "" {
		return usagef("%q is not a command of %s; did you mean %s %s?", word, cmd.CommandPath(), cmd.CommandPath(), near)
	}
	return usagef("%q is not a command of %s; there are %s", word, cmd.CommandPath(), strings.Join(known, ", "))
}

// flagError turns pflag's message into a usage error and adds the flag that was meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if near := nearest.To(unknown.GetSpecifiedName(), known); near != "" {
			return usagef("unknown flag --%s; did you mean --%s?", unknown.GetSpecifiedName(), near)
		}
	}
	return usagef("%s; see %s --help", err, cmd.CommandPath())
}

// needArgs is cobra.RangeArgs with words that say what is wanted.
func needArgs(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usagef("%s takes %s, not %d arguments; see %s --help", cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}
