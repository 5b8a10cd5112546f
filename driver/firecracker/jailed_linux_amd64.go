package firecracker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/docker/launch"
	"github.com/silk-sandbox/silk/driver/firecracker/api"
	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/guestwire"
)

// jailed is Firecracker in its jailer.
type jailed struct {
	executable string // path of firecracker; "": there is none
	jailer     string // path of its jailer; "": there is none
	base       string // directory of jails
	console    bool   // machines have a serial port, whose end stands in errors
	double     bool   // of a test: what takes Firecracker's place emulates machines with QEMU, and needs no KVM

	limit time.Duration // of boot
	check func() error  // what usable says, found out once
}

func newJailed(c Config) *jailed {
	f := &jailed{executable: c.Firecracker, jailer: c.Jailer, base: filepath.Join(c.Home, "microvm", "jails"), console: c.Console, limit: bootLimit(true)}
	f.check = sync.OnceValue(f.look)
	return f
}

// firecrackerOverheadBytes is what Firecracker takes besides the machine's memory. Its makers promise 5 MiB; page tables and the socket's
// buffers come on top.
const firecrackerOverheadBytes = 64 << 20

// oldest is the version that passes devices on by ACPI, as Debian's kernel wants them.
const oldestMajor, oldestMinor = 1, 8

// howToGet ends what says that something is missing.
const howToGet = "; a release of Firecracker has both, for x86_64, to be installed as /usr/local/bin/firecracker and /usr/local/bin/jailer (docs/howto/firecracker.md)"

func jailedHost(c Config) host { return newHost(newJailed(c)) }

func (f *jailed) usable() error            { return f.check() }
func (f *jailed) kvm() bool                { return !f.double }
func (f *jailed) bootLimit() time.Duration { return f.limit }
func (f *jailed) notes() []string          { return nil }

func (f *jailed) leftovers() ([]string, error) { return leftJails(f.base) }

func (f *jailed) sweep(ctx context.Context) error {
	return sweepJails(ctx, f.base)
}

// look looks for everything that Firecracker needs, from what is cheapest to find out to what is dearest.
func (f *jailed) look() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: Firecracker's jailer needs root, to make jails and to give each machine a user of its own; run silk as root", ErrUnusable)
	}
	for _, p := range []struct{ path, name string }{{f.executable, "firecracker"}, {f.jailer, "jailer"}} {
		if p.path == "" {
			return fmt.Errorf("%w: %s is not installed%s", ErrUnusable, p.name, howToGet)
		}
	}
	if err := sameVersion(f.executable, f.jailer); err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if err := jailable(filepath.Dir(filepath.Dir(f.base))); err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if f.double {
		return nil
	}
	if err := hostKVM(); err != nil {
		return fmt.Errorf("%w: %w; Firecracker needs KVM: on a physical host switch virtualization on in its firmware and load kvm_intel or kvm_amd, on a virtual one switch nested virtualization on; --driver qemu emulates where there is none", ErrUnusable, err)
	}
	return nil
}

// sameVersion says why a VMM and a jailer are not fit for each other, or for silk.
func sameVersion(executable, jailer string) error {
	var versions [2][3]int
	for i, path := range []string{executable, jailer} {
		text, err := versionText(path)
		if err == nil {
			versions[i][0], versions[i][1], versions[i][2], err = parseVersion(text)
		}
		if err != nil {
			return fmt.Errorf("ask %s for its version: %w", path, err)
		}
	}
	v := versions[0]
	if v != versions[1] {
		return fmt.Errorf("%s is of version %d.%d.%d and %s of %d.%d.%d; install both from one release", executable, v[0], v[1], v[2], jailer, versions[1][0], versions[1][1], versions[1][2])
	}
	if v[0] < oldestMajor || v[0] == oldestMajor && v[1] < oldestMinor {
		return fmt.Errorf("%s is of version %d.%d.%d; silk needs %d.%d or newer", executable, v[0], v[1], v[2], oldestMajor, oldestMinor)
	}
	return nil
}

func versionText(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env, cmd.WaitDelay = []string{}, time.Second
	out, err := cmd.Output()
	return string(out[:min(len(out), 1000)]), err
}

// jailable says why the jails of a state directory would not do: the jailer makes devices in them, and executes a copy of the VMM.
func jailable(home string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(home, &s); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil // it is made when it is used
		}
		return fmt.Errorf("look at the file system of %s: %w", home, err)
	}
	for flag, option := range map[int64]string{unix.ST_NODEV: "nodev", unix.ST_NOEXEC: "noexec"} {
		if s.Flags&flag != 0 {
			return fmt.Errorf("the file system of %s is mounted with %s, and jails need devices and a program there; put the state directory elsewhere (SILK_HOME)", home, option)
		}
	}
	return nil
}

// badSyscall is the status that Firecracker ends with when its own filter forbids a call (its docs/seccomp.md).
const badSyscall = 148

func (f *jailed) violation(state *os.ProcessState) *driver.Violation {
	if state.ExitCode() != badSyscall {
		return nil
	}
	return &driver.Violation{Rule: ruleBreakout, Syscall: "unknown", Argument: "Firecracker made a call that its own filter forbids (status 148)"}
}

// start makes a jail, starts Firecracker in it, and tells it what the machine is made of.
func (f *jailed) start(ctx context.Context, s *sandbox, m machine, b boot) (err error) {
	j, drives, err := f.furnish(s, b)
	if err != nil {
		return err
	}
	group, version, err := f.groupOf(s, m)
	if err != nil {
		return err
	}
	reaper, err := startReaper()
	if err != nil {
		return err
	}
	s.undo.Push(func(context.Context) error { return reaper.Dismiss() })
	c := command{path: f.jailer, args: jailerArgs(f.executable, f.base, j.id, j.uid, m, version), group: group}
	c.attr.Cloneflags = unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	// Until the jailer changes its user it dies with us. From then on the reaper sees to that, which must know it by then.
	c.held = func(pid int) error { return errors.Join(reaper.Watch(pid), j.note(pid)) }
	if s.vmm, err = startVMM(c); err != nil {
		return err
	}
	s.undo.PushFunc(func() { s.vmm.kill(); <-s.vmm.gone })
	s.trace("jailer runs")
	return f.tell(ctx, s, j, firecrackerMachine(m, drives, f.console))
}

// furnish makes a jail and puts into it what the machine needs, and what serves its vsock device.
func (f *jailed) furnish(s *sandbox, b boot) (j *jail, drives []string, err error) {
	if j, err = makeJail(f.base, filepath.Base(f.executable), s.spec.ID); err != nil {
		return nil, nil, err
	}
	s.undo.Push(j.remove)
	for name, file := range map[string]*os.File{jailKernel: b.kernel, jailInitial: b.initial} {
		if _, err := j.put(name, file); err != nil {
			return nil, nil, err
		}
	}
	images := []*os.File{s.spec.Image}
	drives = []string{"root"}
	for i, mount := range s.spec.Mounts {
		images, drives = append(images, mount.Image), append(drives, fmt.Sprintf("mount%d", i))
	}
	for i, image := range images {
		serial, err := j.put(drives[i], image)
		if err != nil {
			return nil, nil, err
		}
		s.drives = append(s.drives, serial)
	}
	l, err := j.listen(guestwire.Port)
	if err != nil {
		return nil, nil, err
	}
	s.serve(hybridLine(l))
	return j, drives, nil
}

// groupOf makes the VMM's control group. version is that of control groups here, 0 if there are none.
func (f *jailed) groupOf(s *sandbox, m machine) (group *cgroup.Group, version int, err error) {
	h := s.driver.host
	overhead := int64(firecrackerOverheadBytes)
	if f.double {
		overhead = qemuOverheadBytes
	}
	if group, err = h.makeGroup(m, overhead); group == nil || err != nil {
		return nil, 0, err
	}
	s.undo.Push(group.Remove)
	root, err := h.groups()
	return group, root.Version, err
}

// startReaper starts the process that ends the VMM if silk dies.
func startReaper() (*launch.Reaper, error) {
	program, err := launch.File()
	if err != nil {
		return nil, err
	}
	defer program.Close()
	return launch.StartReaper(program, "", "")
}

// tell makes the machine and starts it.
func (f *jailed) tell(ctx context.Context, s *sandbox, j *jail, machine api.Machine) error {
	limited, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("not within %v", s.limit))
	defer cancel()
	go func() {
		select {
		case <-s.vmm.gone:
			cancel()
		case <-limited.Done():
		}
	}()
	client := api.New(j.dial)
	_, err := client.Await(limited)
	if err == nil {
		s.trace("firecracker answers")
		err = client.Start(limited, machine)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	select {
	case <-s.vmm.gone:
		return s.why()
	default:
		return fmt.Errorf("%w; %s", err, s.vmm.console.say())
	}
}

// hybridLine is a device whose queues Firecracker serves: it connects the agent's call with a socket in its jail.
func hybridLine(l *net.UnixListener) line {
	c := &call{listener: l, came: make(chan struct{})}
	return line{c, c.serve}
}

// call is the agent's one call. Who reads or writes waits for it.
type call struct {
	listener *net.UnixListener
	came     chan struct{} // closed when conn or err is set
	conn     net.Conn
	err      error
}

// serve takes one call. The socket is gone then, so that nobody else's can come.
func (c *call) serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.listener.Close() })
	defer stop()
	c.conn, c.err = c.listener.Accept()
	close(c.came)
	if err := c.listener.Close(); c.err == nil && err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the machine's vsock: %w", err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.err
}

func (c *call) wait() error { <-c.came; return c.err }

// Read implements io.Reader.
func (c *call) Read(p []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	return c.conn.Read(p)
}

// Write implements io.Writer.
func (c *call) Write(p []byte) (int, error) {
	if err := c.wait(); err != nil {
		return 0, err
	}
	return c.conn.Write(p)
}

// Close implements io.Closer.
func (c *call) Close() error {
	if err := c.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	if c.wait() != nil {
		return nil
	}
	return c.conn.Close()
}
