package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/guestwire"
)

// patience bounds waits for devices, which appear a moment after their drivers. It is long, because an emulated machine is slow.
const patience = 60 * time.Second

// boot makes of a kernel that has just begun one with devices.
func boot() error {
	for _, m := range []mount{
		{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID | unix.MS_NOEXEC, ""},
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=620,ptmxmode=666,gid=1000"},
		{"proc", "/proc", "proc", hard, ""},
		{"sysfs", "/sys", "sysfs", hard, ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", hard, ""},
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	// A program may ask for more memory than there is, as elsewhere, and gets none when it uses it: that ends as what it is.
	if err := control("/proc/sys/vm/overcommit_memory", "1"); err != nil {
		return err
	}
	return loadModules("/modules")
}

// hard are the flags of a mount from which nothing is executed and in which no bit or device means anything.
const hard = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil && (m.kind != "devtmpfs" || !errors.Is(err, unix.EBUSY)) { // the kernel may have mounted that itself
		return fmt.Errorf("mount %s on %s: %w", m.source, m.target, err)
	}
	return nil
}

// loadModules loads the modules in a directory in the order of their names.
func loadModules(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) { // a kernel that needs none
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		_ = f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load module %s: %w", e.Name(), err)
		}
	}
	return nil
}

// until tries again and again, for as long as patience lasts.
func until(what string, try func() error) error {
	deadline := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w", what, err)
		}
		<-time.After(wait)
	}
}

// call calls the host.
func call() (f *os.File, err error) {
	err = until("call the host", func() error {
		fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := unix.Connect(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_HOST, Port: guestwire.Port}); err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		f = os.NewFile(uintptr(fd), "host")
		return nil
	})
	return f, err
}

// drive is the device of the drive with that serial number.
func drive(serial string) (device string, err error) {
	err = until("find drive "+serial, func() error {
		names, err := filepath.Glob("/sys/block/vd*/serial")
		if err != nil {
			return err
		}
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(b)) == serial {
				device = "/dev/" + filepath.Base(filepath.Dir(name))
				_, err = os.Stat(device)
				return err
			}
		}
		return fs.ErrNotExist
	})
	return device, err
}

// setClock sets the clock to the host's, unless it is right already.
func setClock(now time.Time) error {
	if d := time.Since(now); d > -time.Second && d < time.Second {
		return nil
	}
	t := unix.NsecToTimeval(now.UnixNano())
	if err := unix.Settimeofday(&t); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}
