package sentry

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/cmd/sandboxsetup"
)

// confine does to this process what runsc's boot does before it makes a Loader, in the same order: mounts private, an
// empty tmpfs as root (nosuid, nodev, noexec, read-only) with a minimal /proc, the old root detached, and every
// capability dropped on all threads, the bounding set included. The driver has put us into new user, mount, PID, IPC,
// UTS and network namespaces before the exec.
//
// /proc must stay until the platform exists; removeProc takes it away and must be called before a program runs.
func confine() (removeProc func() error, err error) {
	const root, proc = "/tmp", "/tmp/proc"
	helper, err := memfdOf("umount", umountELF())
	if err != nil {
		return nil, err
	}
	defer unix.Close(helper)

	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("silk-root", root, "tmpfs", flags, ""); err != nil {
		return nil, fmt.Errorf("mount empty root: %w", err)
	}
	if err := os.Mkdir(proc, 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount("silk-proc", proc, "tmpfs", flags, ""); err != nil {
		return nil, fmt.Errorf("mount /proc skeleton: %w", err)
	}
	for _, dir := range []string{"/sandbox-proc", "/sys", "/sys/kernel", "/sys/vm"} {
		if err := os.Mkdir(proc+dir, 0o755); err != nil {
			return nil, err
		}
	}
	if err := unix.Mount("proc", proc+"/sandbox-proc", "proc", flags|unix.MS_RDONLY, ""); err != nil {
		return nil, fmt.Errorf("mount /proc: %w", err)
	}
	for _, file := range []string{"/sys/vm/mmap_min_addr", "/sys/kernel/cap_last_cap"} { // read by the platform and by the capability library
		if err := sandboxsetup.CopyFile(proc+file, "/proc"+file); err != nil {
			return nil, err
		}
	}
	for _, link := range []string{"self", "cpuinfo"} {
		if err := os.Symlink("sandbox-proc/"+link, proc+"/"+link); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(proc, 0o111); err != nil {
		return nil, err
	}
	if err := unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("make root read-only: %w", err)
	}
	if err := sandboxsetup.PivotRoot(root); err != nil {
		return nil, fmt.Errorf("leave the host's root: %w", err)
	}

	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p, err := os.StartProcess("/proc/self/fd/"+strconv.Itoa(helper), []string{"umount"}, &os.ProcAttr{Env: []string{}, Files: []*os.File{nil, nil, nil, r}})
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("start umount helper: %w", err)
	}
	if err := sandboxsetup.ApplyCapsAllThreads(&specs.LinuxCapabilities{}, nil); err != nil {
		return nil, fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil { // a change of credentials clears it, prctl(2)
		return nil, fmt.Errorf("set parent-death signal: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("set no_new_privs: %w", err)
	}
	return func() error {
		defer w.Close()
		if _, err := w.Write([]byte{0}); err != nil {
			return fmt.Errorf("wake umount helper: %w", err)
		}
		state, err := p.Wait()
		if err != nil {
			return fmt.Errorf("wait for umount helper: %w", err)
		}
		if !state.Success() {
			return fmt.Errorf("umount helper: %v", state)
		}
		if err := unix.Access("/proc/self", unix.F_OK); !errors.Is(err, unix.ENOENT) {
			return errors.New("/proc is still there after it was unmounted")
		}
		return nil
	}, nil
}

// checkDescriptors refuses what would give the guest more than was agreed: a directory (it would be a way out of the
// empty root), a writable image, or a regular file as a channel (the Sentry would write from offset 0).
func checkDescriptors(image, stdio []int) error {
	for i, fd := range append(append([]int{}, image...), stdio...) {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fmt.Errorf("descriptor %d: %w", i, err)
		}
		kind := st.Mode & unix.S_IFMT
		if i < len(image) {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			if err != nil || kind != unix.S_IFREG || flags&unix.O_ACCMODE != unix.O_RDONLY {
				return fmt.Errorf("image descriptor %d is not a regular file opened read-only", i)
			}
			continue
		}
		if kind != unix.S_IFIFO && kind != unix.S_IFSOCK && kind != unix.S_IFCHR {
			return fmt.Errorf("channel descriptor %d is no pipe, socket or terminal", i-len(image))
		}
	}
	return nil
}
