package firecracker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/firecracker/vsock"
	"github.com/silk-sandbox/silk/internal/guestwire"
	"github.com/silk-sandbox/silk/internal/kvm"
)

// qemuOverheadBytes is what QEMU takes besides the machine's memory: with its translated code 220 MiB at most.
const qemuOverheadBytes = 384 << 20

func qemuHost(c Config) host { return newHost(qemu{c.QEMU}) }

func (q qemu) usable() error {
	_, err := q.path()
	return err
}

// kvm: the VMM is somebody else if silk is root, and needs a group for it.
func (qemu) kvm() bool { return (os.Geteuid() != 0 || kvmGroup() != nil) && hostKVM() == nil }

// hostKVM says why there is no KVM on this host.
var hostKVM = sync.OnceValue(func() error { return kvm.Probe(kvmLimit) })

// kvmLimit bounds the machine that is run to find out. It takes 10 ms; a busy host may not get to it for some time.
const kvmLimit = 3 * time.Second

func (q qemu) bootLimit() time.Duration { return bootLimit(q.kvm()) }

// What it leaves are control groups.
func (qemu) leftovers() ([]string, error) { return nil, nil }
func (qemu) sweep(context.Context) error  { return nil }

func (qemu) notes() []string {
	if os.Geteuid() == 0 {
		return nil
	}
	return []string{"the VMM runs as this user and in its network, behind its own system call filter: silk is not root"}
}

// violation: QEMU's filter ends it with a signal (seccomp(2)).
func (qemu) violation(state *os.ProcessState) *driver.Violation {
	if status, ok := state.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGSYS {
		return nil
	}
	return &driver.Violation{Rule: ruleBreakout, Syscall: "unknown", Argument: "QEMU made a call that its own filter forbids"}
}

// start gives QEMU open files and no names: it dies with the thread that starts it, and leaves nothing on a disk.
func (q qemu) start(_ context.Context, s *sandbox, m machine, b boot) error {
	path, err := q.path()
	if err != nil {
		return err
	}
	ours, theirs, err := pair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	files := []*os.File{b.kernel, b.initial, theirs, s.spec.Image}
	m.kernel, m.initial, m.vsock, m.drives = firstFD, firstFD+1, firstFD+2, []drive{{"root", firstFD + 3}}
	for i, mount := range s.spec.Mounts {
		m.drives = append(m.drives, drive{fmt.Sprintf("mount%d", i), firstFD + len(files)})
		files = append(files, mount.Image)
	}
	for _, d := range m.drives {
		s.drives = append(s.drives, d.serial)
	}
	s.serve(vhostLine(ours))
	group, err := s.driver.host.makeGroup(m, qemuOverheadBytes)
	if err != nil {
		return err
	}
	if group != nil {
		s.undo.Push(group.Remove)
	}
	c := command{path: path, args: q.args(m), files: files, group: group}
	if os.Geteuid() == 0 {
		id := nobodysID()
		c.attr.Credential = &syscall.Credential{Uid: id, Gid: id, Groups: kvmGroup()}
		c.attr.Cloneflags = unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	}
	if s.vmm, err = startVMM(c); err != nil {
		return err
	}
	s.undo.PushFunc(func() { s.vmm.kill(); <-s.vmm.gone })
	return nil
}

// pair is a socket's two ends: ours, and the VMM's.
func pair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the machine's vsock: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "vsock"), os.NewFile(uintptr(fds[1]), "vsock")
	conn, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make the machine's vsock: %w", err), theirs.Close())
	}
	return conn.(*net.UnixConn), theirs, nil
}

// vhostLine is a device whose queues are served here, in silk (package vsock).
func vhostLine(device *net.UnixConn) line {
	host, agent := net.Pipe()
	var called atomic.Bool
	return line{host, func(ctx context.Context) error {
		defer agent.Close()
		return vsock.Serve(ctx, device, func(port uint32) (net.Conn, error) {
			if port != guestwire.Port || !called.CompareAndSwap(false, true) {
				return nil, unix.ECONNREFUSED
			}
			return agent, nil
		})
	}}
}
