//go:build linux

package main

import (
	"bufio"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// machine says what the figures were measured on: enough to judge them, nothing that names the machine.
type machine struct {
	cores    int
	model    string
	memory   int64 // bytes
	virtual  bool  // a hypervisor announces itself
	kvm      bool
	kernel   string
	cgroup   string
	load     string // load average when the measurement began
	versions []string
}

func describe(ctx context.Context, cfg config) (machine, error) {
	m := machine{cores: runtime.NumCPU(), cgroup: "v1"}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return m, fmt.Errorf("read kernel version: %w", err)
	}
	// Distributions put names of build hosts behind the numbers; the numbers are what matters.
	m.kernel, _, _ = strings.Cut(unix.ByteSliceToString(uts.Release[:]), "-")
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return m, fmt.Errorf("read memory size: %w", err)
	}
	m.memory = int64(info.Totalram) * int64(info.Unit)
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return m, fmt.Errorf("read load: %w", err)
	}
	if words := strings.Fields(string(load)); len(words) > 0 {
		m.load = words[0]
	}
	if m.model, m.virtual, err = readCPU(); err != nil {
		return m, err
	}
	if kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil { // the node alone says nothing
		m.kvm = kvm.Close() == nil
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		m.cgroup = "v2"
	}
	m.versions = []string{"Go " + strings.TrimPrefix(runtime.Version(), "go")}
	for _, c := range [][]string{{"runc", "--version"}, {"bwrap", "--version"}, {cfg.silk, "version"}} {
		if out, err := exec.CommandContext(ctx, c[0], c[1:]...).Output(); err == nil {
			m.versions = append(m.versions, firstLine(strings.TrimSpace(string(out))))
		}
	}
	if v := linked(cfg.runsc, "gvisor.dev/gvisor"); v != "" {
		m.versions = append(m.versions, "runsc of gvisor.dev/gvisor "+v)
	}
	return m, nil
}

// linked is the version of a module inside a Go binary: runsc built from the module does not know its own.
func linked(binary, module string) string {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return ""
}

// readCPU reads the model's name, and whether the CPU says that it is virtual, from /proc/cpuinfo (proc(5)).
func readCPU() (model string, virtual bool, err error) {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "", false, fmt.Errorf("read CPU model: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch strings.TrimSpace(key) {
		case "model name":
			model = strings.TrimSpace(value)
		case "flags":
			virtual = slices.Contains(strings.Fields(value), "hypervisor")
		case "": // the first CPU's block is enough
			return model, virtual, nil
		}
	}
	return model, virtual, lines.Err()
}

func (m machine) String() string {
	kind := "bare metal"
	if m.virtual {
		kind = "a virtual machine"
	}
	kvm := "without /dev/kvm"
	if m.kvm {
		kvm = "with /dev/kvm"
	}
	return fmt.Sprintf("%d cores (%s), %.0f GiB, %s %s, Linux %s, cgroup %s, load %s when it began. %s.",
		m.cores, m.model, float64(m.memory)/(1<<30), kind, kvm, m.kernel, m.cgroup, m.load, strings.Join(m.versions, "; "))
}
