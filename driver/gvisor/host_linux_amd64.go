package gvisor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver/gvisor/stage"
	"github.com/silk-sandbox/silk/internal/cgroup"
)

// host is what all sandboxes of a driver share.
type host struct {
	exe    *os.File // opened with O_PATH: what was checked is what is executed
	stage  stage.Stage
	first  *os.File // the stage, executed before exe
	init   *os.File // process 1 of the sandbox
	null   *os.File
	memory uint64 // bytes of the host
	groups func() (*cgroup.Root, error)
	watch  func(pid int, group string) (Scope, error)
	*prepared
}

func supported() error { return nil }

func openHost(path string, config Config) (h host, err error) {
	h.watch = config.Watch
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return h, fmt.Errorf("open sandbox kernel %s: %w", path, err)
	}
	h.exe = os.NewFile(uintptr(fd), path)
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err == nil && fs.Flags&unix.ST_NOEXEC != 0 {
		return h, fmt.Errorf("sandbox kernel %s: its file system is mounted noexec; choose another state directory with --home or SILK_HOME", path)
	}
	if h.stage, err = newStage(); err != nil {
		return h, err
	}
	if h.first, err = executable("silk-stage", h.stage.ELF); err != nil {
		return h, err
	}
	if h.init, err = executable("init", stage.Init()); err != nil {
		return h, err
	}
	if h.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return h, err
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return h, fmt.Errorf("read the host's memory: %w", err)
	}
	h.memory = uint64(info.Totalram) * uint64(info.Unit)
	h.groups = sync.OnceValues(config.Groups)
	h.prepared = &prepared{}
	return h, nil
}

func (h host) close() error {
	var errs []error
	for _, f := range []*os.File{h.exe, h.first, h.init, h.null} {
		errs = append(errs, closeFile(f))
	}
	return errors.Join(errs...)
}

// Close ends prepared kernels and releases what the driver holds. Sandboxes that run are not touched.
func (d *Driver) Close() error { return errors.Join(d.host.discardAll(), d.host.close()) }

func executable(name string, elf []byte) (*os.File, error) {
	fd, err := stage.Memfd(name, elf)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// newStage makes the stage with what gVisor's packages read from files: two facts of the host, and a list of their own
// mappings, which they look into if the first address that they choose at random for their stub is taken. With an empty
// list they choose again, up to 31 times.
func newStage() (s stage.Stage, err error) {
	const minAddr = "proc/sys/vm/mmap_min_addr"
	files := []stage.File{{Path: minAddr}, {Path: "proc/cpuinfo"}, {Path: "proc/self/maps"}}
	if files[0].Content, err = readSome("/" + minAddr); err != nil {
		return s, err
	}
	info, err := readSome("/proc/cpuinfo")
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(info) {
		if strings.HasPrefix(line, "cpu MHz") { // for the guest's own /proc/cpuinfo
			files[1].Content = line
			break
		}
	}
	text, err := readSome("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return s, err
	}
	last, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return s, fmt.Errorf("read the host's last capability: %w", err)
	}
	return stage.New(stage.Config{
		Dirs: []string{"proc", "proc/self", "proc/sys", "proc/sys/vm"}, Files: files, LastCap: last, Groups: os.Getuid() == 0,
	}), nil
}

// readSome reads the first page of a file that the kernel makes as it is read: all of /proc/cpuinfo takes milliseconds
// where there are many processors.
func readSome(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var b bytes.Buffer
	_, err = io.CopyN(&b, f, 4096)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b.String(), err
}

// visibleCPUs is how many processors a program with a share of cpus sees.
func visibleCPUs(cpus float64) int {
	n := int(cpus)
	if float64(n) < cpus {
		n++
	}
	return max(1, min(n, runtime.NumCPU()))
}
