package drivertest

import (
	"os"

	"golang.org/x/sys/unix"
)

// linkPair are the two ends of a link.
func linkPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "gateway"), os.NewFile(uintptr(pair[1]), "link"), nil
}
