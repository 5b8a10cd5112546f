package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/profile"
)

// judge names the end of a sandbox. What the driver counted or recorded comes first, then why we killed it, then what
// the program itself returned: a program cannot choose its outcome by an exit status. waitErr is Wait's error, cause why
// we ended the sandbox, if we did.
func judge(exit driver.Exit, waitErr, cause error, limits profile.Limits) Outcome {
	switch {
	case exit.Violation != nil:
		v := exit.Violation
		return Outcome{
			Kind: Violated, Rule: v.Rule, Syscall: v.Syscall, Argument: v.Argument,
			Message: "policy ended the run: " + v.String(),
		}
	case exit.OOM:
		return Outcome{Kind: OOM, Message: fmt.Sprintf("the memory limit of %s ended the run", profile.FormatBytes(limits.MemoryBytes))}
	case exit.Killed && errors.Is(cause, errTimeout):
		return Outcome{Kind: Timeout, Message: fmt.Sprintf("the time limit of %v ended the run", limits.Timeout)}
	case exit.Killed && errors.Is(cause, errStdin):
		return Outcome{Kind: Error, Reason: ReasonHost, Message: cause.Error()}
	case exit.Killed && errors.Is(cause, ErrHostStops):
		return Outcome{Kind: Error, Reason: ReasonHost, Message: HostRestarted + ": the server was ended while the run was running"}
	case exit.Killed && cause != nil:
		return Outcome{Kind: Canceled, Message: "the run was canceled"}
	case waitErr != nil:
		return Outcome{Kind: Error, Reason: ReasonHost, Message: waitErr.Error()}
	case exit.Killed:
		return Outcome{Kind: Error, Reason: ReasonHost, Message: "the sandbox was ended by nobody we know"}
	case exit.Signal != 0:
		return Outcome{Kind: Failed, Signal: exit.Signal, Message: fmt.Sprintf("the program ended by signal %d", exit.Signal)}
	}
	code := exit.Code
	out := Outcome{Kind: OK, ExitCode: &code}
	if code != 0 {
		out.Kind, out.Message = Failed, fmt.Sprintf("the program exited with status %d", code)
	}
	if exit.NotFound {
		out.Message = exit.Message
	}
	return out
}

// flags are the limits that were hit, by the names that users read.
func flags(f driver.Flags) map[string]int64 {
	all := map[string]int64{
		"pids_limit_hit": f.PidsLimitHit,
		"tmp_full":       f.TmpFull,
		"disk_full":      f.DiskFull,
	}
	for name, n := range all {
		if n == 0 {
			delete(all, name)
		}
	}
	return all
}

// refusedByRule counts what each rule has refused; nil if nothing.
func refusedByRule(list []driver.Refusal) map[string]int64 {
	if len(list) == 0 {
		return nil
	}
	counts := map[string]int64{}
	for _, r := range list {
		counts[r.Rule] += r.Count
	}
	return counts
}

const (
	killGrace  = 2 * time.Second  // from the kill to the moment when the workspace begins to arrive
	drainGrace = 30 * time.Second // from then on, for the whole of it
)

// supervise waits for the end of a sandbox, and ends it when ctx is done: at first so that its workspace can still be
// read, and if that takes too long at once. draining is closed when the workspace begins to arrive.
func supervise(ctx context.Context, sandbox driver.Sandbox, draining <-chan struct{}) (driver.Exit, error) {
	gone := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-gone:
			return
		case <-ctx.Done():
		}
		if errors.Is(context.Cause(ctx), errRefused) { // as every violation
			sandbox.Kill(driver.KillNow)
			return
		}
		sandbox.Kill(driver.KillDrain)
		select {
		case <-gone:
			return
		case <-time.After(killGrace):
		}
		select {
		case <-draining:
			select {
			case <-gone:
				return
			case <-time.After(drainGrace):
			}
		default:
		}
		sandbox.Kill(driver.KillNow)
	}()
	exit, err := sandbox.Wait()
	close(gone)
	<-watched
	return exit, err
}
