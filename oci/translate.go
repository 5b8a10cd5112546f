package oci

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/silk-sandbox/silk/policy"
)

// RuleRuntime is the rule of a [policy.Denial] about what no container of silk's has.
const RuleRuntime = "runtime"

// Translate says what spec asks for. All that is wrong with it is in the error.
func Translate(spec *specs.Spec, cfg Config) (Wish, error) {
	t := &translation{spec: spec}
	t.Request = policy.Request{Client: policy.ClientRuntime, Driver: "gvisor", Profile: cmp.Or(cfg.Profile, DefaultProfile), HasStdin: cfg.Stdin}
	if spec.Linux == nil {
		spec.Linux = &specs.Linux{}
	}
	t.root(cfg.Bundle)
	t.process()
	t.rlimits()
	t.mounts()
	t.namespaces()
	t.resources()
	t.hooks()
	t.rest()
	t.annotations()
	return t.end()
}

// translation is one call of Translate.
type translation struct {
	Wish
	spec    *specs.Spec
	faults  []string
	denials []*policy.Denial
}

func (t *translation) fault(format string, args ...any) {
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

func (t *translation) deny(rule, fix, format string, args ...any) {
	t.denials = append(t.denials, &policy.Denial{Rule: rule, Detail: fmt.Sprintf(format, args...), Fix: fix})
}

func (t *translation) note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

func (t *translation) end() (Wish, error) {
	if len(t.faults) > 0 {
		return t.Wish, &policy.RequestError{Faults: t.faults}
	}
	if len(t.denials) > 0 {
		first := t.denials[0]
		first.Also = t.denials[1:]
		return t.Wish, first
	}
	return t.Wish, nil
}

func (t *translation) root(bundle string) {
	switch root := t.spec.Root; {
	case root == nil || root.Path == "":
		t.fault("the spec has no root")
	case filepath.IsAbs(root.Path):
		t.Root = filepath.Clean(root.Path)
	default:
		t.Root = filepath.Join(bundle, root.Path)
	}
	if t.spec.Root != nil && !t.spec.Root.Readonly {
		t.note("the root file system is read-only; a program may write to /workspace, /tmp and /dev/shm")
	}
}

// initProgram is what engines put before the command of a container that asks for an init (docker run --init).
const initProgram = "/sbin/docker-init"

func (t *translation) process() {
	p := t.spec.Process
	if p == nil {
		t.fault("the spec has no process")
		t.spec.Process = &specs.Process{}
		return
	}
	args := p.Args
	if len(args) > 2 && args[0] == initProgram && args[1] == "--" {
		args = args[2:]
		t.note("the engine's init is left out: every sandbox has one")
	}
	r := &t.Request
	r.Args, r.Env, r.Cwd, r.Terminal, r.Hostname = args, p.Env, path.Clean(cmp.Or(p.Cwd, "/")), p.Terminal, t.spec.Hostname
	r.HasStdin = r.HasStdin || p.Terminal
	if p.ConsoleSize != nil {
		t.Size = [2]uint16{uint16(min(p.ConsoleSize.Width, 1<<16-1)), uint16(min(p.ConsoleSize.Height, 1<<16-1))}
	}
	t.User = User{p.User.UID, p.User.GID, slices.Clone(p.User.AdditionalGids)}
	if p.User.UID != sandboxID || p.User.GID != sandboxID {
		t.note("user %d:%d is %d:%[3]d in the sandbox, and reads of the image what %[1]d:%[2]d may", p.User.UID, p.User.GID, sandboxID)
	}
	if c := p.Capabilities; c != nil && len(c.Effective)+len(c.Ambient)+len(c.Permitted) > 0 {
		t.note("no capability is given, nor can one be gained")
	}
}

// sandboxID is the uid and gid of every program.
const sandboxID = 1000

func (t *translation) rlimits() {
	for _, l := range t.spec.Process.Rlimits {
		switch l.Type {
		case "RLIMIT_NPROC":
			if l.Hard > 0 && l.Hard < 1<<31 {
				t.Limits.Processes = least(t.Limits.Processes, int(l.Hard))
			}
		case "RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_MEMLOCK", "RLIMIT_RTPRIO", "RLIMIT_NICE", "RLIMIT_MSGQUEUE", "RLIMIT_SIGPENDING", "RLIMIT_LOCKS", "RLIMIT_RTTIME":
			t.note("%s is the sandbox's own", l.Type)
		default: // of what a program may use: not held would be a promise broken
			if l.Hard != unlimited {
				t.deny(RuleRuntime, "leave it out, or limit memory and processes", "rlimit %s is not held", l.Type)
			}
		}
	}
}

const unlimited = 1<<64 - 1 // RLIM_INFINITY, getrlimit(2)

// least is the smaller of two limits, of which zero is none.
func least[T int | int64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (t *translation) namespaces() {
	own := map[specs.LinuxNamespaceType]bool{}
	for _, ns := range t.spec.Linux.Namespaces {
		own[ns.Type] = true
		switch {
		case ns.Path == "" || ns.Type == specs.CgroupNamespace || ns.Type == specs.MountNamespace:
		case ns.Type == specs.PIDNamespace:
			t.deny(RuleRuntime, "give the container its own", "the processes of another container are asked for (pid namespace %s)", ns.Path)
		default:
			t.note("the %s namespace that is to be joined stays unused", ns.Type)
		}
	}
	if !own[specs.PIDNamespace] {
		t.deny(RuleRuntime, "leave --pid=host out", "the host's processes are asked for (no pid namespace)")
	}
	if !own[specs.NetworkNamespace] {
		t.deny(policy.RuleNetwork, "use --network none", "the host's network is asked for (no network namespace)")
	}
	if !own[specs.IPCNamespace] {
		t.note("the host's IPC objects are not there, though no namespace keeps them away")
	}
	if len(t.spec.Linux.UIDMappings)+len(t.spec.Linux.GIDMappings) > 0 {
		t.User = t.User.mapped(t.spec.Linux.UIDMappings, t.spec.Linux.GIDMappings)
		t.note("ids are mapped by the sandbox alone; the spec's mappings say who reads what of the image")
	}
}

// mapped is u as the host sees it: its files in the image have these ids.
func (u User) mapped(uids, gids []specs.LinuxIDMapping) User {
	to := func(id uint32, list []specs.LinuxIDMapping) uint32 {
		for _, m := range list {
			if id >= m.ContainerID && id-m.ContainerID < m.Size {
				return m.HostID + id - m.ContainerID
			}
		}
		return id
	}
	mapped := User{UID: to(u.UID, uids), GID: to(u.GID, gids)}
	for _, g := range u.Groups {
		mapped.Groups = append(mapped.Groups, to(g, gids))
	}
	return mapped
}

// libnetworkSetKey is the hook by which older Docker Engines put a network into a container: the first argument.
const libnetworkSetKey = "libnetwork-setkey"

func (t *translation) hooks() {
	h := t.spec.Hooks
	if h == nil {
		return
	}
	all := slices.Concat(h.Prestart, h.CreateRuntime, h.CreateContainer, h.StartContainer, h.Poststart, h.Poststop) //nolint:staticcheck // Prestart is what engines use
	for _, hook := range all {
		if len(hook.Args) > 0 && hook.Args[0] == libnetworkSetKey {
			t.note("the network that the engine made stays unused")
			continue
		}
		t.deny(RuleRuntime, "leave it out", "hook %s is not run: it would find nothing of the container on the host", hook.Path)
	}
}

// rest is what concerns no program of a sandbox, or what it cannot have.
func (t *translation) rest() {
	l, p := t.spec.Linux, t.spec.Process
	switch n := len(l.Devices); n {
	case 0:
	case 1:
		t.deny(RuleRuntime, "leave --device out", "device %s is asked for", l.Devices[0].Path)
	default:
		t.deny(RuleRuntime, "leave --device and --privileged out", "device %s and %d more are asked for", l.Devices[0].Path, n-1)
	}
	if l.Seccomp != nil || p.ApparmorProfile != "" || p.SelinuxLabel != "" {
		t.note("seccomp, AppArmor and SELinux of the spec are for the host's kernel, which a sandbox does not speak to; silk's own rules hold")
	}
	if len(l.Sysctl) > 0 {
		t.note("sysctls of the spec are not set")
	}
	if p.Scheduler != nil || p.IOPriority != nil {
		t.note("scheduling and I/O priorities of the spec are not set")
	}
	if strings.ContainsFunc(l.CgroupsPath, unicode.IsControl) {
		t.fault("cgroupsPath %q holds a control character", l.CgroupsPath)
	}
	t.CGroup = l.CgroupsPath
}
