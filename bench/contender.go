//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// The limits that each contender with limits gets: those of the lab profiles.
const (
	memoryBytes  = 512 << 20
	cpus         = 1
	periodMicros = 100_000
	pidsLimit    = 64
	sentryPIDs   = 1024 // threads of a Sentry on the host, which has more than its guest
	tmpBytes     = 64 << 20
	guestID      = 1000 // uid and gid
)

// guestEnv is what a program needs to find its files; silk's own profiles set more.
var guestEnv = []string{
	"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/workspace", "TMPDIR=/tmp", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1",
	"PYTHONDONTWRITEBYTECODE=1",
}

// unlimited is a contender that only starts, for comparison with the other runsc.
const unlimited = "runsc, no limits"

// inDocker is silk with its docker driver, to be held against docker.
const inDocker = "silk in docker"

// contender is one way to run a program of an image.
type contender struct {
	name    string
	what    string // how it isolates, for the table of contenders
	missing error  // why it is not part of this comparison, or nil

	// command returns a process that runs args of the image and ends with it, and a function that ends what the
	// process leaves when it is killed; that may be nil.
	command func(ctx context.Context, img rootfs, args []string) (*exec.Cmd, func() error, error)
}

// contenders returns all of them, those that this machine lacks included, in the order of the tables.
func contenders(ctx context.Context, cfg config, m *meter, scratch string) []contender {
	root := rootNeeded(os.Geteuid())
	all := []contender{
		{
			name: "plain", what: "a process under chroot: no isolation", missing: root,
			command: plain,
		},
		{
			name: "bwrap", what: "namespaces, read-only root, no limits", missing: lookup("bwrap"),
			command: bwrap,
		},
		{
			name: "runc", what: "OCI container: namespaces, the same limits, no capabilities, the host's kernel",
			missing: errors.Join(root, lookup("runc")),
			command: (&oci{
				binary: "runc", scratch: scratch, group: m.inside, pids: pidsLimit,
			}).command,
		},
		{
			name: "runsc", what: "stock gVisor built from the module that silk pins, with the same limits",
			missing: errors.Join(root, lookup(cfg.runsc)),
			command: (&oci{
				binary: cfg.runsc, scratch: scratch, group: m.inside, pids: sentryPIDs,
				global: []string{"--network=none", "--overlay2=none"},
			}).command,
		},
		{
			name: unlimited, what: "the same without a control group, in cold starts only",
			missing: errors.Join(root, lookup(cfg.runsc)),
			command: (&oci{
				binary: cfg.runsc, scratch: scratch,
				global: []string{"--network=none", "--overlay2=none", "--ignore-cgroups"},
			}).command,
		},
		{
			name: "docker", what: "Docker Engine with runc, the same limits", missing: dockerAnswers(ctx),
			command: (&docker{imported: map[string]bool{}}).command,
		},
		{
			name: "silk", what: "silk run: the whole command, with policy, limits, record and audit",
			missing: lookup(cfg.silk), command: silk(cfg),
		},
		{
			name: inDocker, what: "silk run --driver docker: the same in a container of that engine",
			missing: errors.Join(root, dockerAnswers(ctx), lookup(cfg.silk)), command: silk(cfg, "--driver", "docker"),
		},
	}
	return all
}

func rootNeeded(uid int) error {
	if uid != 0 {
		return fmt.Errorf("needs root; this is uid %d", uid)
	}
	return nil
}

func lookup(binary string) error {
	_, err := exec.LookPath(binary)
	return err
}

// cmd is a process that starts in its own group, so that it can be killed whole, and dies with this one.
func cmd(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(slices.Clone(guestEnv), "PATH="+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.WaitDelay = killDelay
	return c
}

func plain(ctx context.Context, img rootfs, args []string) (*exec.Cmd, func() error, error) {
	path, err := img.find(args[0])
	if err != nil {
		return nil, nil, err
	}
	c := cmd(ctx, path, args[1:]...)
	c.Args[0], c.Dir, c.Env = args[0], "/", guestEnv
	c.SysProcAttr.Chroot = img.dir
	c.SysProcAttr.Credential = &syscall.Credential{Uid: guestID, Gid: guestID}
	return c, nil, nil
}

func bwrap(ctx context.Context, img rootfs, args []string) (*exec.Cmd, func() error, error) {
	flags := []string{
		"--unshare-all", "--unshare-user", "--uid", strconv.Itoa(guestID), "--gid", strconv.Itoa(guestID),
		"--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--ro-bind", img.dir, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace",
		"--chdir", "/workspace", "--clearenv",
	}
	for _, kv := range guestEnv {
		key, value, _ := strings.Cut(kv, "=")
		flags = append(flags, "--setenv", key, value)
	}
	return cmd(ctx, "bwrap", append(append(flags, "--"), args...)...), nil, nil
}

func silk(cfg config, flags ...string) func(context.Context, rootfs, []string) (*exec.Cmd, func() error, error) {
	return func(ctx context.Context, img rootfs, args []string) (*exec.Cmd, func() error, error) {
		c := cmd(ctx, cfg.silk, slices.Concat([]string{"run", "-p", img.tag}, flags, []string{"--"}, args)...)
		c.Env = append(os.Environ(), "SILK_HOME="+cfg.home)
		return c, nil, nil
	}
}

// oci runs a program with a command line that takes OCI bundles. A bundle is made for each sample, outside of what is
// measured: a container belongs to one run.
type oci struct {
	binary  string
	global  []string // flags before the verb
	scratch string
	group   func(name string) string // names the cgroup of a container
	pids    int64                    // 0: no limits at all
	netns   string                   // path of a network namespace to enter; empty: one of its own, with nothing in it
	count   int
}

func (o *oci) command(ctx context.Context, img rootfs, args []string) (*exec.Cmd, func() error, error) {
	o.count++
	id := fmt.Sprintf("bench-%s-%d-%d", filepath.Base(o.binary), os.Getpid(), o.count)
	bundle := filepath.Join(o.scratch, "bundles", id)
	if err := os.MkdirAll(bundle, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make bundle: %w", err)
	}
	text, err := json.Marshal(o.spec(id, img, args))
	if err != nil {
		return nil, nil, fmt.Errorf("encode OCI spec: %w", err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600); err != nil { //nolint:forbidigo // read by one process that starts afterwards
		return nil, nil, fmt.Errorf("write OCI spec: %w", err)
	}
	state := filepath.Join(o.scratch, "state-"+filepath.Base(o.binary))
	global := append([]string{"--root", state}, o.global...)
	stop := func() error {
		kill := exec.CommandContext(context.WithoutCancel(ctx), o.binary, append(slices.Clone(global), "kill", id, "KILL")...)
		if out, err := kill.CombinedOutput(); err != nil {
			return fmt.Errorf("kill container %s: %w: %s", id, err, out)
		}
		return nil
	}
	return cmd(ctx, o.binary, append(slices.Clone(global), "run", "--bundle", bundle, id)...), stop, nil
}

// spec is a container as tight as this technology makes it without a seccomp filter: silk's programs have none either,
// their system calls end in the Sentry.
func (o *oci) spec(id string, img rootfs, args []string) specs.Spec {
	tmpfs := func(at string, size int64, more ...string) specs.Mount {
		return specs.Mount{
			Destination: at, Type: "tmpfs", Source: "tmpfs",
			Options: append([]string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", size)}, more...),
		}
	}
	spec := specs.Spec{
		Version:  "1.0.2",
		Hostname: "bench",
		Root:     &specs.Root{Path: img.dir, Readonly: true},
		Process: &specs.Process{
			Args: args, Env: guestEnv, Cwd: "/workspace", NoNewPrivileges: true,
			User: specs.User{UID: guestID, GID: guestID},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{
				Destination: "/dev", Type: "tmpfs", Source: "tmpfs",
				Options: []string{"nosuid", "noexec", "mode=755", "size=65536k"},
			},
			tmpfs("/dev/shm", tmpBytes, "noexec"),
			tmpfs("/tmp", tmpBytes, "noexec"),
			tmpfs("/workspace", 4*tmpBytes),
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.NetworkNamespace, Path: o.netns},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
			},
			MaskedPaths:   []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	if o.pids > 0 {
		memory, quota, period := int64(memoryBytes), int64(cpus*periodMicros), uint64(periodMicros)
		spec.Linux.CgroupsPath = o.group(id)
		spec.Linux.Resources = &specs.LinuxResources{
			Memory: &specs.LinuxMemory{Limit: &memory}, Pids: &specs.LinuxPids{Limit: o.pids},
			CPU: &specs.LinuxCPU{Quota: &quota, Period: &period},
		}
	}
	return spec
}
