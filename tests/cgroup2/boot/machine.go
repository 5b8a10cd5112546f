package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// machine is a virtual one without disk and network: a kernel, an initial file system in memory, a serial console.
type machine struct {
	kernel  string
	initial string
	stderr  io.Writer // what QEMU complains of

	accelerator string // QEMU's -accel
}

const (
	memory     = "1536M" // the initial file system takes 160 MB, and sandboxes up to 500
	processors = "2"     // so that a share of one can be told from all
)

// commandLine switches control groups of version 1 off: only then can version 2 have every controller. See
// Documentation/admin-guide/kernel-parameters.txt.
const commandLine = "console=ttyS0 quiet loglevel=3 panic=-1 cgroup_no_v1=all rdinit=/init"

// run boots the machine and hands its console to read, until it is switched off.
func (m machine) run(ctx context.Context, read func(console io.Reader) error) error {
	const name = "qemu-system-x86_64"
	path, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("%w (install Debian's package qemu-system-x86)", err)
	}
	cmd := command(ctx, "", path,
		"-machine", "q35", "-cpu", "max", "-accel", m.accelerator, "-smp", processors, "-m", memory,
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", m.kernel, "-initrd", m.initial, "-append", commandLine,
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
	cmd.Stderr = m.stderr
	cmd.WaitDelay = time.Minute
	console, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	readErr := read(console)
	if readErr != nil {
		_ = cmd.Process.Kill()
	}
	switch err := cmd.Wait(); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case readErr != nil:
		return readErr
	case err != nil:
		return fmt.Errorf("run %s: %w", name, err)
	}
	return nil
}
