package firecracker

import (
	"fmt"
	"strconv"
	"strings"
)

// qemu is QEMU with the machine type microvm.
type qemu struct{ executable string }

func (q qemu) path() (string, error) {
	if q.executable == "" {
		return "", fmt.Errorf("%w: qemu-system-x86_64 is not installed; install Debian's package qemu-system-x86", ErrUnusable)
	}
	return q.executable, nil
}

// args: each is there for a reason.
func (qemu) args(m machine) []string {
	accelerator, cpu := "tcg,thread=multi,tb-size=128", "max" // MiB of translated code; a kernel and a runtime need some 60
	if m.kvm {
		accelerator, cpu = "kvm", "host"
	}
	args := []string{
		"-M", "microvm,acpi=on,rtc=on,pit=off,pic=off,isa-serial=on,memory-backend=ram", // no PCI, no USB, no disk controller; devices are found by ACPI
		"-accel", accelerator, "-cpu", cpu, "-smp", strconv.Itoa(m.processors), "-m", fmt.Sprintf("%dK", m.memoryBytes>>10),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", // a restart ends it
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny", // QEMU's own seccomp filter
		"-object", fmt.Sprintf("memory-backend-memfd,id=ram,size=%dK,share=on,seal=on", m.memoryBytes>>10), // package vsock maps it
		"-serial", "stdio",
		"-chardev", fmt.Sprintf("socket,id=vsock,fd=%d", m.vsock), "-device", "vhost-user-vsock-device,chardev=vsock",
		"-device", "virtio-rng-device",
		"-kernel", fdPath(m.kernel), "-initrd", fdPath(m.initial), "-append", commandLine(m),
	}
	for i, d := range m.drives {
		args = append(args,
			"-add-fd", fmt.Sprintf("fd=%d,set=%d", d.fd, i+1),
			"-drive", fmt.Sprintf("id=%s,file=/dev/fdset/%d,format=raw,if=none,read-only=on,file.locking=off", d.serial, i+1),
			"-device", fmt.Sprintf("virtio-blk-device,drive=%s,serial=%s", d.serial, d.serial))
	}
	return args
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// commandLine is the kernel's, Documentation/admin-guide/kernel-parameters.txt.
func commandLine(m machine) string {
	words := []string{
		"console=ttyS0", "quiet", "loglevel=3", "rdinit=/init",
		"panic=-1", "reboot=t", // a panic is an end, and so is a restart
		"cgroup_no_v1=all", "lsm=landlock", "random.trust_cpu=on",
		"transparent_hugepage=madvise", // a limit is of what is used, and a page of 2 MiB is much of that
	}
	if !m.kvm && m.clockKHz > 0 {
		words = append(words, fmt.Sprintf("tsc_early_khz=%d", m.clockKHz)) // an emulated machine has no clock to measure it by, and waits for ever
	}
	return strings.Join(words, " ")
}
