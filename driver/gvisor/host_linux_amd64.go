package gvisor

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/cgroup"
)

// host is what all sandboxes of a driver share.
type host struct {
	exe    string // path to exec; resolved in the child between fork and exec
	exeFD  int
	null   *os.File
	memory uint64 // bytes of the host
	groups func() (*cgroup.Root, error)
	*prepared
}

func supported() error { return nil }

// firstFreeFD is above every number that the child's descriptor set-up touches, so that the executable is still open
// when the child execs it.
const firstFreeFD = 300

func openHost(path string) (h host, err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return h, fmt.Errorf("open sandbox kernel %s: %w", path, err)
	}
	defer unix.Close(fd)
	if h.exeFD, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstFreeFD); err != nil {
		return h, fmt.Errorf("open sandbox kernel %s: %w", path, err)
	}
	h.exe = "/proc/self/fd/" + strconv.Itoa(h.exeFD)
	if h.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		_ = unix.Close(h.exeFD)
		return h, err
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
	errs := []error{unix.Close(d.host.exeFD), d.host.null.Close(), d.host.discardAll()}
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
