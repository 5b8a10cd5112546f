package tun

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Device is where the kernel makes such interfaces.
const Device = "/dev/net/tun"

// Config is what a network namespace gets.
type Config struct {
	Name  string       // of the interface
	MTU   int          // size of the largest packet, in bytes; 65,535 at most
	Addrs []netip.Addr // its own, each alone in its network; all others are reached by way of the interface
}

// Open makes an interface in a network namespace (a file as /proc/PID/ns/net) and passes packets between it and a SOCK_SEQPACKET socket until
// either is gone. The namespace must not be that of this process, whose ways it would change. Both files stay the caller's; of the socket a
// copy is kept, which does not block any more, and so does none that shares its description. Close what is returned.
//
// Where the kernel has no IPv6, neither has the namespace. An error says that nothing is left; it wraps os.ErrPermission if this process
// lacks a capability, and os.ErrNotExist if there is no [Device].
func Open(netns *os.File, c Config, sock *os.File) (*Wire, error) {
	var device *os.File
	err := within(netns, func() (err error) {
		device, err = newDevice(c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make network interface %s: %w", c.Name, err)
	}
	fd, err := unix.FcntlInt(sock.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach network interface %s: %w", c.Name, err), device.Close())
	}
	return newWire(device, os.NewFile(uintptr(fd), "link")), nil
}

// newDevice makes it in the namespace of this thread.
func newDevice(c Config) (_ *os.File, err error) {
	fd, err := unix.Open(Device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", Device, err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	request, err := unix.NewIfreq(c.Name)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_TUN_EXCL)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, fmt.Errorf("make tun device: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM); err != nil { // nobody sums what stays in memory
		return nil, fmt.Errorf("leave out checksums: %w", err)
	}
	addrs, err := usable(c.Addrs)
	if err != nil {
		return nil, err
	}
	if err := configure(c.Name, c.MTU, addrs); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), Device), nil // it has an interface by now, or could not be waited for
}

// usable are the addresses that the namespace of this thread can have. Engines switch IPv6 off in theirs, unless a network of the engine's has it.
func usable(addrs []netip.Addr) (list []netip.Addr, err error) {
	const off = "/proc/sys/net/ipv6/conf/all/disable_ipv6" // of this thread's namespace, as all of /proc/sys/net
	said, err := os.ReadFile(off)
	if err == nil && strings.TrimSpace(string(said)) != "0" {
		err = os.WriteFile(off, []byte("0"), 0) //nolint:forbidigo // a setting of the kernel
	}
	for _, a := range addrs {
		if a.Is4() || err == nil {
			list = append(list, a)
		}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("switch IPv6 on: %w", err)
	}
	return list, nil
}
