package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/tun"
)

// canLink says whether containers can have a way out on this host, as far as it can be said before there is one.
func canLink() error {
	if _, err := os.Stat(tun.Device); err != nil {
		return noLink(err)
	}
	return nil
}

// noLink says why there is none.
func noLink(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return &driver.Unheld{
			Promise: "network", Detail: "a container can have no way out: this kernel makes no tun devices: " + err.Error(),
			Fix: "load its module (modprobe tun), leave --net out, or use the gvisor driver",
		}
	case errors.Is(err, fs.ErrPermission):
		return &driver.Unheld{
			Promise: "network", Detail: "a container can have no way out: this process may not put a tun device into its network: " + err.Error(),
			Fix: "let silk have CAP_NET_ADMIN, CAP_SYS_ADMIN and " + tun.Device + ", leave --net out, or use the gvisor driver",
		}
	}
	return fmt.Errorf("give the container its way out: %w", err)
}

// attach puts the container's only network device, if it is to have one, into its network namespace, where its program may change nothing. The
// engine knows of no network.
func (s *sandbox) attach() error {
	if s.spec.Network != driver.NetworkLink {
		return nil
	}
	netns, err := os.Open("/proc/" + strconv.Itoa(s.ruler.pid) + "/ns/net")
	if err != nil {
		return fmt.Errorf("open the container's network namespace: %w", err)
	}
	defer netns.Close()
	if err := s.first.Signal(syscall.Signal(0)); err != nil { // or it might be that of somebody else who has the number now
		return fmt.Errorf("open the container's network namespace: %w", err)
	}
	if s.wire, err = tun.Open(netns, tun.Config{Name: "eth0", MTU: s.spec.Link.MTU, Addrs: s.spec.Link.Addrs}, s.spec.Link.File); err != nil {
		return noLink(err)
	}
	wire := s.wire
	s.undo.PushFunc(func() { _ = wire.Close() }) // what it can still say was said before
	s.trace("network is there")
	return nil
}

// handover is how long the kernel may take to hand over what a program has said before it ended, as the gateway takes with the hosts.
var handover = time.Second

// hush takes the network away from a container whose program has ended: at once if it was ended, else when it has handed over what was said.
func (s *sandbox) hush(ended bool) error {
	if s.wire == nil {
		return nil
	}
	for began := time.Now(); !ended && !s.killed.Load() && time.Since(began) < handover; {
		if quiet, err := tun.Quiet("/proc/" + strconv.Itoa(s.ruler.pid) + "/net"); quiet || err != nil {
			break // a container that is gone has nothing to say
		}
		<-time.After(time.Millisecond) // the kernel tells nobody
	}
	if err := s.wire.Close(); err != nil {
		return fmt.Errorf("take the container's network away: %w", err)
	}
	return nil
}
