package sentry

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/seccheck"
	pb "gvisor.dev/gvisor/pkg/sentry/seccheck/points/points_go_proto"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
	"github.com/silk-sandbox/silk/watch"
)

// events writes what happens into memory that is shared with the engine. It costs no system call but one each time the
// memory has become half full. Nothing waits for the engine to read.
type events struct {
	mu   sync.Mutex
	ring *wire.Ring
	wake int // write end of a pipe, non-blocking
}

// open maps the memory behind fd, which it takes over, as it does wake.
func (e *events) open(fd, wake int) error {
	mem, err := unix.Mmap(fd, 0, wire.RingBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map event ring: %w", err)
	}
	if e.ring, err = wire.NewRing(mem); err != nil {
		return err
	}
	if err := unix.SetNonblock(wake, true); err != nil {
		return fmt.Errorf("set up event pipe: %w", err)
	}
	e.wake = wake
	return unix.Close(fd)
}

// add writes one event. call is "" for what is none.
func (e *events) add(t *kernel.Task, kind wire.EventKind, call wire.Call, argument string, errno uint16) {
	ev := wire.Event{At: time.Now().UnixNano(), Kind: kind, Call: call, Argument: []byte(argument), Errno: errno}
	ev.Process, ev.Thread = int32(t.ThreadGroup().ID()), int32(t.ThreadID())
	e.mu.Lock()
	wake := e.ring.Put(ev)
	e.mu.Unlock()
	if wake {
		_, _ = unix.Write(e.wake, []byte{0}) // full: the engine has been woken already
	}
}

// The kinds of events by their places in a record.
var (
	eventSocket  = wire.KindOf(watch.Socket)
	eventConnect = wire.KindOf(watch.Connect)
	eventOpen    = wire.KindOf(watch.OpenAt)
	eventExec    = wire.KindOf(watch.Execve)
	eventSetUID  = wire.KindOf(watch.SetUID)
	eventCapSet  = wire.KindOf(watch.CapSet)
	eventMount   = wire.KindOf(watch.Mount)
	eventClone   = wire.KindOf(watch.Clone)
	eventExit    = wire.KindOf(watch.Exit)
	eventDenied  = wire.KindOf(watch.Denied)
)

// kinds are the kinds of the events of calls.
var kinds = map[string]wire.EventKind{
	"socket": eventSocket, "connect": eventConnect, "sendto": eventConnect, "sendmsg": eventConnect, "sendmmsg": eventConnect,
	"open": eventOpen, "openat": eventOpen, "creat": eventOpen, "execve": eventExec, "execveat": eventExec,
	"setuid": eventSetUID, "setgid": eventSetUID, "setfsuid": eventSetUID, "setfsgid": eventSetUID, "setreuid": eventSetUID,
	"setregid": eventSetUID, "setresuid": eventSetUID, "setresgid": eventSetUID, "setgroups": eventSetUID, "capset": eventCapSet,
	"mount": eventMount, "umount2": eventMount, "pivot_root": eventMount, "fsopen": eventMount, "fsconfig": eventMount, "fsmount": eventMount,
	"fspick": eventMount, "open_tree": eventMount, "move_mount": eventMount, "mount_setattr": eventMount,
	"clone": eventClone, "fork": eventClone, "vfork": eventClone,
}

// seen reports a call that went on, or that the kernel itself refused with err.
func (g *guard) seen(c *call, argument string, err error) {
	var errno uint16
	if err != nil {
		errno = uint16(kernel.ExtractErrno(err, int(c.nr)))
	}
	g.events.add(c.task, c.kind, c.place, argument, errno)
}

// TaskExit implements seccheck.Sink: the one point that also sees those who are killed.
func (b *box) TaskExit(ctx context.Context, _ seccheck.FieldSet, info *pb.TaskExit) error {
	t := kernel.TaskFromContext(ctx)
	if t == nil {
		return nil
	}
	status := unix.WaitStatus(info.GetExitStatus())
	argument := fmt.Sprint(status.ExitStatus())
	if status.Signaled() {
		argument = unix.SignalName(status.Signal()) // "" if it has none
	}
	b.guard.events.add(t, eventExit, 0, argument, 0)
	return nil
}

// addressText is a socket address as events have it.
func addressText(b []byte) string {
	if ip, ok := ipOf(b); ok {
		return ip.String()
	}
	if len(b) > 2 && b[0] == unix.AF_UNIX && b[1] == 0 {
		name := b[2:]
		if name[0] == 0 {
			return "unix:@" + string(name[1:])
		}
		for i, c := range name {
			if c == 0 {
				name = name[:i]
				break
			}
		}
		return "unix:" + string(name)
	}
	if len(b) >= 2 {
		return fmt.Sprintf("family %d", uint16(b[0])|uint16(b[1])<<8)
	}
	return ""
}

// ipOf is the address and port in a socket address, if it has them.
func ipOf(b []byte) (netip.AddrPort, bool) {
	if len(b) < 2 {
		return netip.AddrPort{}, false
	}
	port := func() uint16 { return uint16(b[2])<<8 | uint16(b[3]) }
	switch family := uint16(b[0]) | uint16(b[1])<<8; {
	case family == unix.AF_INET && len(b) >= 8:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port()), true
	case family == unix.AF_INET6 && len(b) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port()), true
	}
	return netip.AddrPort{}, false
}
