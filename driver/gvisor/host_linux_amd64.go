package gvisor

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/cgroup"
)

// host is what all sandboxes of a driver share.
type host struct {
	exe    *os.File // opened with O_PATH: what was checked is what is executed
	null   *os.File
	memory uint64 // bytes of the host
	groups func() (*cgroup.Root, error)
	*prepared
}

func supported() error { return nil }

func openHost(path string) (h host, err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return h, fmt.Errorf("open sandbox kernel %s: %w", path, err)
	}
	h.exe = os.NewFile(uintptr(fd), path)
	if h.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return h, errors.Join(err, h.exe.Close())
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return h, fmt.Errorf("read the host's memory: %w", err)
	}
	h.memory = uint64(info.Totalram) * uint64(info.Unit)
	h.groups = sync.OnceValues(cgroup.Find)
	h.prepared = &prepared{}
	return h, nil
}

// Close ends prepared kernels and releases what the driver holds. Sandboxes that run are not touched.
func (d *Driver) Close() error {
	errs := []error{d.host.exe.Close(), d.host.null.Close(), d.host.discardAll()}
	return errors.Join(errs...)
}

// visibleCPUs is how many processors a program with a share of cpus sees.
func visibleCPUs(cpus float64) int {
	n := int(cpus)
	if float64(n) < cpus {
		n++
	}
	return max(1, min(n, runtime.NumCPU()))
}
