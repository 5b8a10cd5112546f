package confine

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// bytes reads the caller's memory.
func (c Caller) bytes(at uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	got, err := unix.ProcessVMReadv(c.Thread, []unix.Iovec{{Base: &b[0], Len: uint64(n)}}, []unix.RemoteIovec{{Base: uintptr(at), Len: n}}, 0)
	if err == nil && got < n {
		err = unix.EFAULT
	}
	return b[:max(got, 0)], err
}

// text reads a string, page by page: it may end where memory does.
func (c Caller) text(at uint64) (string, error) {
	const page = 4096
	var all []byte
	for len(all) < unix.PathMax {
		b, err := c.bytes(at+uint64(len(all)), int(page-(at+uint64(len(all)))%page))
		if err != nil {
			return "", err
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return string(append(all, b[:end]...)), nil
		}
		all = append(all, b...)
	}
	return "", unix.ENAMETOOLONG
}

// address reads a struct sockaddr and returns where it leads, if that is not the sandbox itself.
func (c Caller) address(at, length uint64) (to netip.AddrPort, err error) {
	if at == 0 || length < 2 {
		return to, nil
	}
	b, err := c.bytes(at, int(min(length, unix.SizeofSockaddrAny)))
	if err != nil {
		return to, err
	}
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_INET && len(b) >= 8:
		to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case family == unix.AF_INET6 && len(b) >= 24:
		to = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), binary.BigEndian.Uint16(b[2:]))
	default:
		return to, nil
	}
	if to.Addr().IsLoopback() || to.Addr().IsUnspecified() { // an unspecified one is the own host's, ip(7)
		return netip.AddrPort{}, nil
	}
	return to, nil
}

// sent reads n of struct mmsghdr, or one of struct msghdr, which begin alike: with the address and its length. It returns the first that leads outside.
func (c Caller) sent(at, n uint64) (netip.AddrPort, error) {
	const size = 64               // sizeof(struct mmsghdr)
	for i := range min(n, 1024) { // UIO_MAXIOV, sendmmsg(2)
		b, err := c.bytes(at+i*size, 12)
		if err != nil {
			return netip.AddrPort{}, err
		}
		to, err := c.address(binary.NativeEndian.Uint64(b), uint64(binary.NativeEndian.Uint32(b[8:])))
		if to.IsValid() || err != nil {
			return to, err
		}
	}
	return netip.AddrPort{}, nil
}

// raises reads the two struct user_cap_data of capset(2): who has no capability raises one with any bit.
func (c Caller) raises(at uint64) (bool, error) {
	b, err := c.bytes(at, 24)
	return err == nil && !bytes.Equal(b, make([]byte, len(b))), err
}
