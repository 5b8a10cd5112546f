package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/internal/cgroup"
)

// Engines learn that a container ran out of memory from the kernel, which says so of control groups: what the sandbox's own kernel counts
// they never hear. So when that has ended a run, a process is put into the container's group that has no other purpose than to use up
// what is left of it, and to be the one that the kernel ends.

const (
	spareBytes  = 64 << 20         // beyond what is used: for that process until it asks to be ended first
	eatenBytes  = 4 * spareBytes   // what it takes at most
	eatingTakes = 10 * time.Second // at most
)

// tellKernel has the container's group run out of memory. Nothing depends on it but what engines show.
func (m *monitor) tellKernel() {
	if m.state.CGroup == "" {
		return
	}
	group, err := cgroup.FindNamed(filepath.Clean("/" + m.state.CGroup))
	if err != nil || group.Tighten(spareBytes) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), eatingTakes)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Env = []string{monitorName, "eat"}, []string{}
	_ = cmd.Run() // it is born in the group, and ended there
}

func (a *app) runtimeEatCommand() *cobra.Command {
	return &cobra.Command{
		Use: "eat", Hidden: true, Short: "Use up the memory of a container that has ended; its monitor starts it", Args: needArgs(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			// 1000 is what the kernel ends before all others, proc_pid_oom_score_adj(5).
			score, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			if _, err := score.WriteString("1000"); err != nil {
				return err
			}
			eaten := make([]byte, eatenBytes)
			for i := 0; i < len(eaten); i += os.Getpagesize() {
				eaten[i] = 1
			}
			return findingf("memory is left")
		},
	}
}
