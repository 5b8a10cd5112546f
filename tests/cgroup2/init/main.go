//go:build linux

// Command init is the first process of the machine that boot starts: it mounts what a Linux system has, control groups
// of version 2 alone, runs the test binaries in it as different users, and switches the machine off. What happens it
// says on the console, where boot reads it; see [say].
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		say("error %v", err)
	} else {
		say("done")
	}
	syscall.Sync()
	err := syscall.Reboot(syscall.LINUX_REBOOT_CMD_RESTART) // QEMU ends at it
	say("error reboot: %v", err)
}

// say writes a line for boot to read: "cgroup2: " and "part NAME", "end NAME STATUS", "left PATH", "error TEXT" or, last
// of all, "done". It begins with a line break, since a test may have written half a line.
func say(format string, args ...any) {
	fmt.Printf("\ncgroup2: "+format+"\n", args...)
}

func run() error {
	if err := makeSystem(); err != nil {
		return err
	}
	for _, p := range parts {
		say("part %s", p.name)
		status, err := p.run()
		if err != nil {
			return fmt.Errorf("run part %s: %w", p.name, err)
		}
		say("end %s %d", p.name, status)
		left, err := leftovers()
		if err != nil {
			return err
		}
		for _, dir := range left {
			say("left %s", dir)
		}
	}
	return nil
}

// part is one test binary, run by one user in one place of the tree of control groups.
type part struct {
	name string
	args []string
	uid  uint32
	held string // what tests/cgroup2 must find: SILK_TEST_HELD
	// group is the user's own group, made before; delegated says whether the parent of it belongs to the user.
	group     string
	delegated bool
}

const user = 1234 // an ordinary user's id, for whom nothing in this system is prepared

var parts = []part{
	{name: "cgroup", args: []string{dir + "/bin/cgroup.test"}},
	{name: "cgroup-delegated", args: []string{dir + "/bin/cgroup.test"}, uid: user, group: "user@1234.service/cgroup.scope", delegated: true},
	{name: "root", args: []string{dir + "/bin/limits.test"}, held: "group"},
	{name: "user", args: []string{dir + "/bin/limits.test"}, uid: user, group: "session-1.scope", held: "none"},
	{name: "delegated", args: []string{dir + "/bin/limits.test", "-test.run=Plain|Holds|Share|Killed"}, uid: user, group: "user@1234.service/silk.scope", delegated: true, held: "group"},
}

// run returns the exit status of the test binary.
func (p part) run() (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	group, err := p.makeGroup()
	if err != nil {
		return 0, err
	}
	defer group.Close()
	home := filepath.Join("/tmp", p.name)
	if err := errors.Join(os.Mkdir(home, 0o700), os.Chown(home, int(p.uid), int(p.uid))); err != nil {
		return 0, err
	}
	proc, err := os.StartProcess(p.args[0], append(p.args, "-test.v", "-test.timeout=15m"), &os.ProcAttr{
		Dir:   home,
		Files: []*os.File{null, os.Stdout, os.Stdout},
		Env: []string{
			"PATH=/bin", "HOME=" + home, "TMPDIR=/tmp", "SILK_BIN=" + dir + "/bin/silk", "SILK_SENTRY=" + dir + "/bin/silk-sentry",
			"SILK_TEST_HOME=" + dir, "SILK_TEST_HELD=" + p.held, "SILK_TEST_REQUIRE=all,cgroupv2",
		},
		Sys: &syscall.SysProcAttr{
			Setsid: true, UseCgroupFD: true, CgroupFD: int(group.Fd()),
			Credential: &syscall.Credential{Uid: p.uid, Gid: p.uid},
		},
	})
	if err != nil {
		return 0, err
	}
	// The first process of a system reaps what others leave: a sandbox whose silk was killed, too.
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case pid == proc.Pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == proc.Pid:
			return status.ExitStatus(), nil
		}
	}
}

const groups = "/sys/fs/cgroup"

// makeGroup makes the group in which the part starts, as systemd does for a user's session, and opens it.
func (p part) makeGroup() (*os.File, error) {
	path := filepath.Join(groups, p.group)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	if p.delegated {
		const all = "+memory +cpu +pids"
		if err := os.WriteFile(groups+"/cgroup.subtree_control", []byte(all), 0); err != nil { //nolint:forbidigo // a control file
			return nil, fmt.Errorf("hand out the controllers %s: %w", all, err)
		}
		for _, d := range []string{filepath.Dir(path), path} { // cgroups(7), "Cgroups delegation"
			for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
				if err := os.Chown(filepath.Join(d, name), int(p.uid), int(p.uid)); err != nil {
					return nil, err
				}
			}
		}
	}
	return os.Open(path)
}

// leftovers lists the groups of silks. None may be there between two parts.
func leftovers() (dirs []string, err error) {
	err = filepath.WalkDir(groups, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), "silk-") {
			dirs = append(dirs, path)
		}
		return err
	})
	return dirs, err
}
