package bpf

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Permitted is the first answer of [Probe] alone, and that of the PID namespace: whether it pays to call [Open], which may
// still find that the kernel lacks something. It takes some microseconds.
func Permitted() Check {
	if c := checkNamespace(); c.Answer != Yes {
		return c
	}
	c := Check{Name: "bpf"}
	c.answer(probeBPF(), "programs and maps may be made")
	return c
}

// Probe asks this host, by doing, whether a watcher can be had. It leaves nothing behind, never waits, and takes some
// hundredths of a second of processor time, most of it for reading the kernel's types.
func Probe() Report {
	first := Check{Name: "bpf"}
	first.answer(probeBPF(), "programs and maps may be made")
	report := Report{first}
	for _, p := range []struct {
		name, found string
		probe       func() error
	}{
		{"btf", "the kernel describes its types", probeBTF},
		{"tracepoints", "programs can be attached to sys_enter and signal_generate", probeTracepoints},
		{"task_storage", "a task can carry a tag", probeTaskStorage},
		{"processes", "the tasks of a sandbox can be listed", probeList},
	} {
		c := Check{Name: p.name, Answer: first.Answer, Reason: first.Reason}
		if first.Answer == Yes {
			c.answer(p.probe(), p.found)
		}
		report = append(report, c)
	}
	return append(report, checkNamespace(), checkCgroup2())
}

// answer sets the answer that an error means.
func (c *Check) answer(err error, found string) {
	switch {
	case err == nil:
		c.Answer, c.Reason = Yes, found
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, fs.ErrPermission):
		c.Answer, c.Reason = No, needsRoot()
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.ENOSYS), errors.Is(err, fs.ErrNotExist), errors.Is(err, btf.ErrNotFound):
		c.Answer, c.Reason = No, "the kernel has no such thing: "+err.Error()
	default:
		c.Answer, c.Reason = Unknown, "the probe went wrong: "+err.Error()
	}
}

// needsRoot says why the kernel refused. Root of a container is refused as well.
func needsRoot() string {
	if os.Geteuid() != 0 {
		return "needs root (CAP_BPF, CAP_PERFMON)"
	}
	return "refused although this is root: CAP_BPF and CAP_PERFMON were taken away, as in a container, or the kernel is locked down"
}

var nothing = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}

const license = "Dual BSD/GPL" // as in silk.bpf.c

func probeBPF() error {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: uint32(os.Getpagesize())})
	if err != nil {
		return fmt.Errorf("make a ring: %w", err)
	}
	return m.Close()
}

func probeBTF() error {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return err
	}
	return nil
}

func probeTracepoints() error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: "sys_enter", Instructions: nothing, License: license})
	if err != nil {
		return fmt.Errorf("load a program for sys_enter: %w", err)
	}
	defer p.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		return fmt.Errorf("attach to sys_enter: %w", err)
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("detach from sys_enter: %w", err)
	}
	raw, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: nothing, License: license})
	if err != nil {
		return fmt.Errorf("load a program for signal_generate: %w", err)
	}
	defer raw.Close()
	if l, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: "signal_generate", Program: raw}); err != nil {
		return fmt.Errorf("attach to signal_generate: %w", err)
	}
	return l.Close()
}

func probeTaskStorage() error {
	number := &btf.Int{Size: 4, Encoding: btf.Signed}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.TaskStorage, Flags: unix.BPF_F_NO_PREALLOC, KeySize: 4, ValueSize: 4, Key: number, Value: number})
	if err != nil {
		return fmt.Errorf("make a task storage: %w", err)
	}
	return m.Close()
}

func probeList() error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "task", Instructions: nothing, License: license})
	if err != nil {
		return fmt.Errorf("load an iterator over tasks: %w", err)
	}
	return p.Close()
}

// initPIDNamespace is PROC_PID_INIT_INO, include/linux/proc_ns.h.
const initPIDNamespace = "pid:[4026531836]"

// checkNamespace looks whether pids here are the host's: the kernel's programs know no others, and a wrong number must
// never be killed.
func checkNamespace() Check {
	c := Check{Name: "pid_namespace"}
	name, err := os.Readlink("/proc/self/ns/pid")
	switch {
	case err != nil:
		c.Answer, c.Reason = Unknown, "the probe went wrong: "+err.Error()
	case name != initPIDNamespace:
		c.Answer, c.Reason = No, "silk runs in a PID namespace, as in a container: it would not know which processes the kernel means"
	default:
		c.Answer, c.Reason = Yes, "processes have the host's numbers"
	}
	return c
}

// checkCgroup2 looks for a mount of control groups, version 2: a second way into a scope besides the tag.
func checkCgroup2() Check {
	c := Check{Name: "cgroup2", Answer: No, Optional: true, Reason: "no cgroup2 file system is mounted: sandboxes that share the host's kernel are watched by their tag alone"}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		c.Answer, c.Reason = Unknown, "the probe went wrong: "+err.Error()
		return c
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ") // proc_pid_mountinfo(5)
		if fields := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			c.Answer, c.Reason = Yes, "mounted at "+fields[4]
			return c
		}
	}
	if err := lines.Err(); err != nil {
		c.Answer, c.Reason = Unknown, "the probe went wrong: "+err.Error()
	}
	return c
}
