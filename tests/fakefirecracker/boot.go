package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/silk-sandbox/silk/driver/firecracker/vsock"
)

// start boots the machine, if it is whole. When it ends, this process does.
func (m *machine) start() error {
	switch {
	case m.config.VCPUs == 0 || m.boot.Kernel == "":
		return fmt.Errorf("cannot start microvm without kernel configuration, or without a size")
	case len(m.drives) == 0 || m.vsock == "" || !m.entropy:
		return fmt.Errorf("a machine of silk's has drives, a vsock device and entropy")
	}
	m.running = true
	if strings.HasPrefix(m.id, "silent-") {
		return nil
	}
	ours, theirs, err := pair()
	if err != nil {
		return err
	}
	args, err := m.qemu()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), "/usr/bin/qemu-system-x86_64", args...)
	cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: QEMU dies with this thread
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait()
		close(m.ended)
	}()
	if err := <-started; err != nil {
		return err
	}
	_ = theirs.Close()
	go func() {
		err := vsock.Serve(context.Background(), ours, func(port uint32) (net.Conn, error) {
			return net.Dial("unix", jailed(m.vsock)+"_"+strconv.FormatUint(uint64(port), 10))
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "vsock:", err)
		}
	}()
	return nil
}

// pair is a socket's two ends.
func pair() (*net.UnixConn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "vsock")
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, nil, err
	}
	return conn.(*net.UnixConn), os.NewFile(uintptr(fds[1]), "vsock"), nil
}

// qemu are QEMU's arguments for a machine that is as much like Firecracker's as it can be.
func (m *machine) qemu() ([]string, error) {
	memory := fmt.Sprintf("%dM", m.config.MemoryMiB)
	args := []string{
		"-M", "microvm,acpi=on,rtc=on,pit=off,pic=off,isa-serial=on,memory-backend=ram", "-accel", "tcg,thread=multi,tb-size=128", "-cpu", "max",
		"-smp", strconv.Itoa(m.config.VCPUs), "-m", memory, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-object", "memory-backend-memfd,id=ram,share=on,seal=on,size=" + memory,
		"-serial", "stdio",
		"-chardev", "socket,id=vsock,fd=3", "-device", "vhost-user-vsock-device,chardev=vsock", "-device", "virtio-rng-device",
		"-kernel", jailed(m.boot.Kernel), "-initrd", jailed(m.boot.Initial),
	}
	for _, d := range m.drives {
		serial, err := serialOf(jailed(d.Path))
		if err != nil {
			return nil, err
		}
		args = append(args,
			"-drive", fmt.Sprintf("id=%s,file=%s,format=raw,if=none,read-only=on,file.locking=off", d.ID, jailed(d.Path)),
			"-device", fmt.Sprintf("virtio-blk-device,drive=%s,serial=%s", d.ID, serial))
	}
	// This machine has no controller of a keyboard, and no clock to measure the processor's by.
	line := strings.Replace(m.boot.Args, "reboot=k", "reboot=t", 1) + " tsc_early_khz=" + clock()
	if strings.HasPrefix(m.id, "panics-") {
		line = strings.Replace(line, "rdinit=/init", "rdinit=/none init=/none", 1)
	}
	return append(args, "-append", line), nil
}

// serialOf is what Firecracker calls a drive: the numbers of its file.
func serialOf(path string) (string, error) {
	var s syscall.Stat_t
	if err := syscall.Stat(path, &s); err != nil {
		return "", err
	}
	all := strconv.FormatUint(s.Dev, 10) + strconv.FormatUint(s.Rdev, 10) + strconv.FormatUint(s.Ino, 10)
	return all[:min(len(all), 20)], nil
}

// clock is how fast the host's processors count, in kHz.
func clock() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "1000000"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == "cpu MHz" {
			return strings.Replace(strings.TrimSpace(value), ".", "", 1) // three digits behind the point
		}
	}
	return "1000000"
}
