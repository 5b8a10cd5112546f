package firecracker

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/silk-sandbox/silk/driver/firecracker/api"
	"github.com/silk-sandbox/silk/driver/firecracker/vsock"
)

// Names in a jail. The VMM sees them at its root.
const (
	jailKernel  = "kernel"
	jailInitial = "initial"
	jailVsock   = "v.sock"
	jailAPI     = "run/firecracker.socket" // Firecracker's default; the jailer makes run
)

// firecrackerMachine is a machine in the words of Firecracker's API. Drives are in the jail by their ids.
func firecrackerMachine(m machine, drives []string, console bool) api.Machine {
	machine := api.Machine{
		Config: api.Config{VCPUs: evenProcessors(m.processors), MemoryMiB: int(m.memoryBytes >> 20)},
		Boot:   api.BootSource{Kernel: "/" + jailKernel, Initial: "/" + jailInitial, Args: firecrackerCommandLine(console)},
		Vsock:  api.Vsock{CID: vsock.CID, Path: "/" + jailVsock},
		// A kernel takes some hundred bytes when it begins, a program that wants more gets them from the kernel's generator.
		Entropy: api.Entropy{Limiter: &api.RateLimiter{Bandwidth: &api.Bucket{Size: 64 << 10, RefillMs: 1000}}},
	}
	for _, id := range drives {
		machine.Drives = append(machine.Drives, api.Drive{ID: id, Path: "/" + id, ReadOnly: true, Limiter: driveLimiter()})
	}
	return machine
}

// driveLimiter keeps one machine from taking a disk, and a processor of the VMM's, for itself: what it reads is mostly in the host's page
// cache, and comes at several GB/s. A start of Python reads 60 MB in 2,000 operations.
func driveLimiter() *api.RateLimiter {
	return &api.RateLimiter{Bandwidth: &api.Bucket{Size: 512 << 20, RefillMs: 1000}, Ops: &api.Bucket{Size: 20_000, RefillMs: 1000}}
}

// evenProcessors is a number of processors that Firecracker takes: 1, or an even one, 32 at most. The program's share is held in the machine.
func evenProcessors(n int) int {
	if n > 1 {
		n += n % 2
	}
	return min(n, 32)
}

// firecrackerCommandLine is the kernel's. There is no serial port, unless somebody wants to see what happens there: each byte on one is an exit
// to the VMM.
func firecrackerCommandLine(console bool) string {
	words := []string{
		"quiet", "loglevel=3", "rdinit=/init",
		"panic=-1", "reboot=k", // a panic is an end, and so is a restart: by the keyboard's controller, the one way that Firecracker knows
		"i8042.noaux", "i8042.nomux", "i8042.dumbkbd", // of which there is not more to find
		"pci=off", "swiotlb=noforce",
		"cgroup_no_v1=all", "lsm=landlock", "random.trust_cpu=on",
		"transparent_hugepage=madvise", // a limit is of what is used, and a page of 2 MiB is much of that
	}
	if console {
		words = append(words, "console=ttyS0")
	} else {
		words = append(words, "8250.nr_uarts=0")
	}
	return strings.Join(words, " ")
}

// jailerArgs are the jailer's arguments. It is neither a daemon nor the parent of the VMM: its process becomes the VMM, whose end is then seen.
// Namespaces that go with the process, and its control group, are made by whoever starts it, so it is asked for none.
func jailerArgs(executable, base, id string, uid uint32, m machine, cgroupVersion int) []string {
	user := strconv.FormatUint(uint64(uid), 10)
	args := []string{
		"--id", id, "--exec-file", executable, "--uid", user, "--gid", user, "--chroot-base-dir", base,
		"--resource-limit", "no-file=128",
		"--resource-limit", fmt.Sprintf("fsize=%d", m.memoryBytes), // it writes no file; its machine's memory may be one
	}
	if cgroupVersion != 0 {
		args = append(args, "--cgroup-version", strconv.Itoa(cgroupVersion))
	}
	return append(args, "--", "--api-sock", "/"+jailAPI)
}

// driveSerial is the serial number that Firecracker gives to the drive of a file: the numbers of its device, of the device that it is, and of its
// inode, 20 bytes at most.
func driveSerial(dev, rdev, ino uint64) string {
	s := fmt.Sprintf("%d%d%d", dev, rdev, ino)
	return s[:min(len(s), 20)]
}

// parseVersion reads what "firecracker --version" and "jailer --version" say first: a name, and v with the version.
func parseVersion(text string) (major, minor, patch int, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) == 2 {
		number, _, _ := strings.Cut(strings.TrimPrefix(fields[1], "v"), "-") // a build's own part
		if n, err := fmt.Sscanf(number, "%d.%d.%d", &major, &minor, &patch); err == nil && n == 3 {
			return major, minor, patch, nil
		}
	}
	return 0, 0, 0, fmt.Errorf("it says %q for its version", line)
}
