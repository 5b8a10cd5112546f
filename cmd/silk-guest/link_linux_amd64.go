package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/guestwire"
	"github.com/silk-sandbox/silk/internal/tun"
)

// link gives the program's network namespace an interface, if it is to have one, and carries its packets to the host and back. When the host has no more of
// them the interface goes, and programs are told that there is no network. Else it ends with the machine.
func (p *program) link() error {
	if p.plan.Link == nil {
		return nil
	}
	namespace, err := os.Open("/proc/" + strconv.Itoa(p.pid) + "/ns/net")
	if err != nil {
		return fmt.Errorf("open the program's network namespace: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return errors.Join(fmt.Errorf("make the program's link: %w", err), namespace.Close())
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "link"), os.NewFile(uintptr(pair[1]), "link")
	_, err = tun.Open(namespace, tun.Config{Name: "eth0", MTU: p.plan.Link.MTU, Addrs: p.plan.Link.Addrs}, theirs)
	if err = errors.Join(err, theirs.Close()); err != nil {
		return errors.Join(err, ours.Close(), namespace.Close())
	}
	p.namespace = namespace // it outlives the program: see hush
	go p.letOut(ours)
	go p.bringIn(ours)
	return nil
}

// letOut sends what the program sends.
func (p *program) letOut(link *os.File) {
	out := p.conn.Writer(guestwire.Outbound)
	for b := new(guestwire.PacketBuffer); b.SendPacket(out, link) == nil; {
	}
}

// bringIn hands over what comes for the program.
func (p *program) bringIn(link *os.File) {
	defer link.Close() // the interface goes
	in := p.conn.Reader(guestwire.Inbound)
	for b := new(guestwire.PacketBuffer); ; {
		packet, err := b.ReceivePacket(in, guestwire.MaxPacket)
		if err == nil {
			_, err = link.Write(packet)
		}
		if err != nil {
			return
		}
	}
}

// handover bounds how long the kernel may take to hand over what a program has said before it ended.
const handover = 5 * time.Second

// hush waits until what the program has said was taken, if the program has ended by itself.
func (p *program) hush() {
	if p.namespace == nil {
		return
	}
	for began := time.Now(); time.Since(began) < handover && p.supervisor.Violation() == nil && !p.oom.Load() && !p.isStopped(); {
		if quiet, err := tun.QuietIn(p.namespace); quiet || err != nil {
			break
		}
		<-time.After(10 * time.Millisecond) // the kernel tells nobody
	}
	_ = p.namespace.Close()
}
