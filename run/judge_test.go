package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/workspace"
)

// slow is a sandbox that takes its time to die.
type slow struct {
	drainStarts time.Duration // after a KillDrain; 0: never
	drainEnds   time.Duration // after that
	draining    chan struct{}

	mu    sync.Mutex
	begin time.Time
	kills []string // with the time since begin
	gone  chan struct{}
	once  sync.Once
}

func newSlow(starts, ends time.Duration) *slow {
	return &slow{drainStarts: starts, drainEnds: ends, draining: make(chan struct{}), begin: time.Now(), gone: make(chan struct{})}
}

func (s *slow) Kill(how driver.KillMode) {
	s.mu.Lock()
	s.kills = append(s.kills, fmt.Sprintf("%d@%v", how, time.Since(s.begin)))
	s.mu.Unlock()
	if how == driver.KillNow {
		s.end()
	} else if s.drainStarts > 0 {
		time.AfterFunc(s.drainStarts, func() {
			close(s.draining)
			time.AfterFunc(s.drainEnds, s.end)
		})
	}
}

func (s *slow) end() { s.once.Do(func() { close(s.gone) }) }

func (s *slow) Wait() (driver.Exit, error) {
	<-s.gone
	return driver.Exit{Killed: true}, nil
}

func TestSuperviseEscalates(t *testing.T) {
	for _, test := range []struct {
		name         string
		starts, ends time.Duration
		want         string
		took         time.Duration
	}{
		{"the workspace arrives in time", time.Second, 500 * time.Millisecond, "[0@5s]", 6500 * time.Millisecond},
		{"the workspace is large", time.Second, 20 * time.Second, "[0@5s]", 26 * time.Second},
		{"the workspace never begins to arrive", 0, 0, "[0@5s 1@7s]", 7 * time.Second},
		{"the workspace begins too late", 3 * time.Second, time.Second, "[0@5s 1@7s]", 7 * time.Second},
		{"the workspace never ends", time.Second, time.Hour, "[0@5s 1@37s]", 37 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errTimeout)
				defer cancel()
				s := newSlow(test.starts, test.ends)
				exit, err := supervise(ctx, s, s.draining)
				if err != nil || !exit.Killed {
					t.Errorf("exit %+v, %v", exit, err)
				}
				if got := fmt.Sprint(s.kills); got != test.want {
					t.Errorf("kills %s, want %s", got, test.want)
				}
				if took := time.Since(s.begin); took != test.took {
					t.Errorf("it took %v, want %v", took, test.took)
				}
				if !errors.Is(context.Cause(ctx), errTimeout) {
					t.Errorf("cause is %v", context.Cause(ctx))
				}
			})
		})
	}
}

func TestSuperviseLetsAnEndedSandboxBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(0, 0)
		time.AfterFunc(time.Second, s.end)
		if _, err := supervise(t.Context(), s, s.draining); err != nil || len(s.kills) != 0 {
			t.Errorf("kills %v, %v", s.kills, err)
		}
	})
}

// TestJudge has what TestOutcomes cannot make a real sandbox say.
func TestJudge(t *testing.T) {
	violation := &driver.Violation{Rule: "file", Syscall: "openat", Argument: "/etc/passwd"}
	lost := errors.New("lost")
	for _, test := range []struct {
		name  string
		exit  driver.Exit
		err   error
		cause error
		want  Kind
	}{
		{"violation beats a timeout", driver.Exit{Violation: violation, Killed: true}, nil, errTimeout, Violated},
		{"memory beats a lost sandbox", driver.Exit{OOM: true}, lost, nil, OOM},
		{"the program ended before the deadline's kill", driver.Exit{Code: 0}, nil, errTimeout, OK},
		{"killed at the deadline, and the host had trouble", driver.Exit{Killed: true}, lost, errTimeout, Timeout},
		{"killed by nobody", driver.Exit{Killed: true}, nil, nil, Error},
		{"killed by a cancel", driver.Exit{Killed: true}, nil, context.Canceled, Canceled},
		{"killed by a caller's own deadline", driver.Exit{Killed: true}, nil, context.DeadlineExceeded, Canceled},
		{"killed since stdin broke", driver.Exit{Killed: true}, nil, fmt.Errorf("%w: EIO", errStdin), Error},
		{"lost though it seems to have exited with 0", driver.Exit{}, lost, nil, Error},
		{"a status that looks like a kill", driver.Exit{Code: 137}, nil, nil, Failed},
		{"a status that looks like a violation", driver.Exit{Code: 159}, nil, nil, Failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := judge(test.exit, test.err, test.cause, profile.Defaults)
			if out.Kind != test.want {
				t.Errorf("got %s (%s), want %s", out.Kind, out.Message, test.want)
			}
			if (out.Kind == OK) != (out.ExitStatus() == 0) {
				t.Errorf("%s exits with %d", out.Kind, out.ExitStatus())
			}
			if (out.ExitCode != nil) != (out.Kind == OK || out.Kind == Failed && out.Signal == 0) {
				t.Errorf("%s has exit code %v", out.Kind, out.ExitCode)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, test := range []struct {
		name     string
		err      error
		canceled bool
		want     Outcome // Kind, Reason, Rule
	}{
		{"denial", fmt.Errorf("decide: %w", &policy.Denial{Rule: "memory"}), false, Outcome{Kind: Denied, Rule: "memory"}},
		{"denial of a canceled run", &policy.Denial{Rule: "memory"}, true, Outcome{Kind: Denied, Rule: "memory"}},
		{"promise that the host cannot keep", fmt.Errorf("start sandbox: %w", &driver.Unheld{Promise: "cpus", Detail: "no", Fix: "x"}), false, Outcome{Kind: Denied, Rule: "cpus"}},
		{"mount", &workspace.MountError{Rule: workspace.MountMissing, Err: os.ErrNotExist}, false, Outcome{Kind: Denied, Rule: "mount"}},
		{"too much input", fmt.Errorf("fill: %w", &workspace.LimitError{What: "bytes"}), false, Outcome{Kind: Denied, Rule: "disk"}},
		{"two inputs of one name", &workspace.ConflictError{Path: "a"}, false, Outcome{Kind: Error, Reason: ReasonUsage}},
		{"request that makes no sense", &policy.RequestError{Faults: []string{"x"}}, false, Outcome{Kind: Error, Reason: ReasonUsage}},
		{"missing file", fmt.Errorf("open: %w", os.ErrNotExist), false, Outcome{Kind: Error, Reason: ReasonMissing}},
		{"missing state", host(fmt.Errorf("open: %w", os.ErrNotExist)), false, Outcome{Kind: Error, Reason: ReasonHost}},
		{"canceled while the driver worked", errors.New("killed"), true, Outcome{Kind: Canceled}},
		{"anything else", errors.New("fork: out of memory"), false, Outcome{Kind: Error, Reason: ReasonHost}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := refused(test.err, test.canceled)
			if out.Message == "" {
				t.Error("no message")
			}
			out.Message = ""
			if diff := cmp.Diff(test.want, out); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
