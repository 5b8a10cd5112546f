package sentry

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// fileVerdict is what becomes of an open.
type fileVerdict int

const (
	allowFile fileVerdict = iota
	denyFile              // EACCES, counted
	hideFile              // ENOENT: a runtime probes it at its start and goes on without
	killFile              // a violation
)

// errno is what a program sees of a refusal.
func (v fileVerdict) errno() error {
	switch v {
	case allowFile:
		return nil
	case hideFile:
		return linuxerr.ENOENT
	}
	return linuxerr.EACCES
}

// forbidden are names that no program has an ordinary reason to open; a name covers everything below it. Files that
// the images do not even have stand here too: the attempt is what counts.
var forbidden = []string{
	"/etc/passwd", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/root", "/boot",
	"/proc/kcore", "/proc/kallsyms", "/proc/kmsg", "/proc/keys", "/proc/key-users", "/proc/sched_debug",
	"/proc/timer_list", "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/kpagecount", "/proc/kpageflags",
}

// sysRules are the parts of /sys that runtimes read when they start. Everything else below /sys is forbidden.
var sysRules = []struct {
	name    string // it and everything below it
	verdict fileVerdict
	reason  string
}{
	{"/sys/devices/system/cpu/possible", allowFile, "glibc and OpenBLAS count processors"},
	{"/sys/devices/system/cpu/online", allowFile, "glibc: sysconf(_SC_NPROCESSORS_ONLN)"},
	{"/sys/devices/system/cpu/present", allowFile, "hwloc and Go count processors"},
	{"/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", allowFile, "Go's runtime sizes its arenas"},
	{"/sys/kernel/mm/transparent_hugepage/enabled", hideFile, "jemalloc and Java ask for it"},
	{"/sys/kernel/mm/hugepages", hideFile, "Java lists page sizes"},
	{"/sys/devices/system/cpu", hideFile, "node and Go probe frequencies and caches"},
	{"/sys/devices/system/node", hideFile, "NUMA probes of OpenBLAS and Java"},
	{"/sys/fs/cgroup", hideFile, "node, Go and Java look for limits"},
	{"/sys/bus/pci", hideFile, "Chromium looks for a GPU"},
}

// hostDevices are patterns (path.Match) of the first name below /dev for devices that belong to a host and never to a
// sandbox.
var hostDevices = []string{
	"mem", "kmem", "port", "kmsg", "oldmem", "kvm", "vhost*", "fuse", "cuse", "cpu", "mcelog", "crash",
	"sd[a-z]*", "hd[a-z]", "hd[a-z][0-9]*", "vd[a-z]*", "xvd[a-z]*", "nvme[0-9]*", "mmcblk[0-9]*", "nbd[0-9]*", "ram[0-9]*", "zram[0-9]*",
	"loop[0-9]*", "loop-control", "dm-[0-9]*", "mapper", "disk", "md[0-9]*", "sr[0-9]*", "sg[0-9]*", "raw*", "cdrom", "dvd", "btrfs-control",
	"nvidia*", "dri", "snd", "input", "uinput", "uhid", "hidraw*", "bus", "usb*", "video*", "fb[0-9]*", "i2c-*", "gpio*", "spidev*", "tpm*",
	"watchdog*", "rtc*", "hpet", "nvram", "vcs*", "vcsa*", "ttyS*", "tty[0-9]*", "userfaultfd", "autofs", "rfkill", "ppp", "vfio", "iommu",
	"sgx*", "sev*", "tdx*", "initctl", "binder*", "ashmem",
}

func hostDevice(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return name == "net/tun" || slices.ContainsFunc(hostDevices, func(pattern string) bool {
		ok, err := path.Match(pattern, first)
		return ok || err != nil // a bad pattern denies
	})
}

// judge decides on the resolved name of a file. The empty name, which nobody could resolve, is allowed: the kernel's
// own answer stands, and it was an error.
func (g *guard) judge(t *kernel.Task, name string) fileVerdict {
	if name == "" {
		return allowFile
	}
	for _, f := range forbidden {
		if covers(f, name) {
			return killFile
		}
	}
	switch {
	case strings.HasPrefix(name, "/sys/"):
		return judgeSys(name)
	case strings.HasPrefix(name, "/dev/"):
		if hostDevice(name[len("/dev/"):]) {
			return killFile
		}
	case strings.HasPrefix(name, "/proc/"):
		return judgeProc(t, name)
	}
	return allowFile
}

func judgeSys(name string) fileVerdict {
	for _, r := range sysRules {
		if covers(r.name, name) {
			return r.verdict
		}
		if covers(name, r.name) { // a directory on the way to one
			return allowFile
		}
	}
	return killFile
}

// judgeProc forbids the environment and the memory of other processes. A process may read its own, and write the memory
// of one that it traces.
func judgeProc(t *kernel.Task, name string) fileVerdict {
	base := path.Base(name)
	if base != "environ" && base != "mem" {
		return allowFile
	}
	pid, _, _ := strings.Cut(name[len("/proc/"):], "/")
	n, err := strconv.Atoi(pid)
	if err != nil {
		return killFile
	}
	switch target := t.PIDNamespace().TaskWithID(kernel.ThreadID(n)); {
	case target == nil:
		return killFile
	case target.ThreadGroup() == t.ThreadGroup():
		return allowFile
	case base == "mem" && target.Tracer() != nil && target.Tracer().ThreadGroup() == t.ThreadGroup():
		return allowFile
	}
	return killFile
}

// covers says whether name is dir or lies below it.
func covers(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, dir) && name[len(dir)] == '/'
}

// cleanJoin appends the names that do not exist to the directory that does. ".." in them cannot lead anywhere: it
// belongs to a directory that is not there.
func cleanJoin(dir, rest string) string {
	return path.Clean(dir + "/" + rest)
}
