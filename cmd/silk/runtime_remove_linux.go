package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/detach"
	"github.com/silk-sandbox/silk/oci/container"
)

func (a *app) runtimeKillCommand(f *runtimeFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "kill ID [SIGNAL]", Short: "Send a signal to the program of a container", Example: "  silk runtime kill box TERM", Args: needArgs(1, 2, "an id and a signal"),
		RunE: f.verb(func(args []string) error {
			c, err := existing(f.root, args[0])
			if err != nil {
				return err
			}
			signal := int(syscall.SIGTERM)
			if len(args) > 1 {
				if signal, err = signalNumber(args[1]); err != nil {
					return err
				}
			}
			return a.signalContainer(c, signal)
		}),
	}
	c.Flags().BoolP("all", "a", false, "the same: a sandbox ends as a whole")
	return c
}

// obeys is how long a monitor has for a SIGKILL before it gets one of its own.
const obeys = 3 * time.Second

// signalContainer passes a signal on. A monitor that does not answer is ended, and its sandbox with it.
func (a *app) signalContainer(c *container.Container, signal int) error {
	ctx, cancel := context.WithTimeout(a.ctx, obeys)
	defer cancel()
	err := c.Ask(ctx, container.Order{Signal: signal})
	if err == nil || errors.Is(err, container.ErrNotRunning) || signal != int(syscall.SIGKILL) {
		return err
	}
	s, err := c.State()
	if err != nil || s.PID == 0 {
		return err
	}
	return detach.Kill(s.PID, c.Alive)
}

func (a *app) runtimeDeleteCommand(f *runtimeFlags) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "delete ID", Short: "Remove a container that has ended", Example: "  silk runtime delete --force box", Args: needArgs(1, 1, "an id"),
		RunE: f.verb(func(args []string) error {
			c, err := existing(f.root, args[0])
			if force && errors.Is(err, container.ErrNotExist) {
				if c, err = container.At(f.root, args[0]); err == nil {
					return c.Remove() // what a create left that was killed
				}
			}
			if err != nil {
				return err
			}
			return a.removeContainer(c, force)
		}),
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "end it first if it has not, and do not mind if it is not there")
	return c
}

// ends is how long a container that is being killed may take.
const ends = 10 * time.Second

// removeContainer removes what is left of a container, its control group included. With force it is ended first.
func (a *app) removeContainer(c *container.Container, force bool) error {
	s, err := c.State()
	if err != nil {
		return err
	}
	if c.Alive() {
		if !force {
			return fmt.Errorf("cannot delete container %s that is not stopped: %s", c.ID, s.Status)
		}
		if err := a.signalContainer(c, int(syscall.SIGKILL)); err != nil && !errors.Is(err, container.ErrNotRunning) {
			return err
		}
	}
	if err := a.awaitEnd(c, s.PID); err != nil {
		return err
	}
	return dismantle(c, s)
}

// awaitEnd waits until the monitor has ended, and sees to it that it does.
func (a *app) awaitEnd(c *container.Container, pid int) error {
	if pid == 0 || !c.Alive() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(a.ctx, ends, errors.New("it does not end"))
	defer cancel()
	if err := detach.Gone(ctx, pid); err == nil {
		return nil
	}
	if err := detach.Kill(pid, c.Alive); err != nil {
		return err
	}
	return detach.Gone(a.ctx, pid)
}

// dismantle removes what an ended container left.
func dismantle(c *container.Container, s container.State) error {
	var errs []error
	if s.CGroup != "" && !strings.Contains(s.CGroup, ":") {
		group, err := cgroup.FindNamed(filepath.Clean("/" + s.CGroup))
		if err == nil {
			err = group.Remove(context.Background())
		}
		errs = append(errs, err)
	}
	if s.Listed != "" {
		if err := os.Remove(s.Listed); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, c.Remove())...)
}
