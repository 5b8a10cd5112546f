package sentry

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// checkConfined refuses to go on in a process that has more than package stage leaves: it was started by hand, or the
// stage has a bug.
func checkConfined() error {
	header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read own capabilities: %w", err)
	}
	if data != [2]unix.CapUserData{} {
		return errors.New("silk-sentry was started with capabilities")
	}
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on != 1 {
		return errors.Join(errors.New("silk-sentry was started without no_new_privs"), err)
	}
	if err := unix.Access("/proc/version", unix.F_OK); !errors.Is(err, unix.ENOENT) {
		return errors.New("silk-sentry was started where there is a /proc")
	}
	return nil
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
