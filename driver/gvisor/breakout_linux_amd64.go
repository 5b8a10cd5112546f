package gvisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/watch"
)

// ruleBreakout is the rule of a violation that the host's kernel has seen: the sandbox's own kernel did what it has no
// business with, so somebody has broken out of it. It is not in driver/rules, which are about programs inside.
const ruleBreakout = "host.breakout"

// emptyTimeout bounds how long the end of a sandbox after an alarm may take.
const emptyTimeout = 10 * time.Second

// watchFromOutside begins to watch k, if anybody does. It must have no children yet.
func (k *kernel) watchFromOutside(begin func(pid int, group string) (Scope, error)) error {
	if begin == nil {
		return nil
	}
	group := ""
	if k.groups != nil && k.groups.Version == 2 {
		group = k.group.Path()
	}
	scope, err := begin(k.proc.Pid, group)
	if errors.As(err, &k.unwatched) {
		return nil // a run that requires it will be refused
	}
	if err != nil {
		return fmt.Errorf("watch sandbox kernel from the host: %w", err)
	}
	k.scope = scope
	return nil
}

// arm begins the alarm: the policy is in force, and nothing of the run has been seen yet.
func (k *kernel) arm() error {
	if k.scope == nil {
		return nil
	}
	if err := k.scope.Arm(); err != nil {
		return fmt.Errorf("arm the alarm around the sandbox kernel: %w", err)
	}
	go func(events <-chan watch.Event, lost <-chan struct{}) {
		for {
			select {
			case _, open := <-events:
				if !open {
					return
				}
			case <-lost:
				lost = nil
			}
			k.kill()
		}
	}(k.scope.Events(), k.scope.Lost())
	return nil
}

// brokeOut asks, when the process is gone, whether there was an alarm. If so, everything that came from the process is
// ended, wherever it went, before the answer. An error means that nobody knows.
func (k *kernel) brokeOut() (*driver.Violation, error) {
	if k.scope == nil {
		return nil, nil
	}
	n, first, err := k.scope.Alarms()
	if err != nil {
		return nil, fmt.Errorf("ask for alarms around the sandbox kernel: %w", err)
	}
	if n == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), emptyTimeout)
	defer cancel()
	if err := k.scope.Kill(ctx); err != nil {
		return nil, fmt.Errorf("end what has broken out: %w", err)
	}
	call := first.Syscall
	if call == "" {
		call = string(first.Kind)
	}
	return &driver.Violation{Rule: ruleBreakout, Syscall: call, Argument: first.Argument}, nil
}

// unwatch ends the watching. The process is gone.
func (k *kernel) unwatch() error {
	if k.scope == nil {
		return nil
	}
	scope := k.scope
	k.scope = nil
	if err := scope.Close(); err != nil {
		return fmt.Errorf("end the watching of a sandbox kernel: %w", err)
	}
	return nil
}
