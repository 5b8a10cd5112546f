package sentry

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/fd"
	"gvisor.dev/gvisor/pkg/metric"
	"gvisor.dev/gvisor/pkg/sentry/fsimpl/host"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/platform"
	"gvisor.dev/gvisor/pkg/sentry/seccheck"
	pb "gvisor.dev/gvisor/pkg/sentry/seccheck/points/points_go_proto"
	"gvisor.dev/gvisor/pkg/sentry/usage"
	"gvisor.dev/gvisor/pkg/timing"
	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/specutils"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
)

// box is the sandbox: a Loader that was built for a placeholder and is patched with the one run it serves.
type box struct {
	seccheck.SinkDefaults

	conf   *config.Config
	loader *boot.Loader
	timer  *timing.Timer
	fields loaderFields
	init   *specs.Spec // of process 1; the Loader keeps the pointer
	image  int         // descriptor number of the root image, a placeholder until load

	req     wire.Request
	stdio   [3]int
	ws      workspace
	guard   *guard
	memory  memoryWatch
	program *kernel.ThreadGroup
	tty     *host.TTYFileDescription

	notFound     string
	notFoundCode int
	over         chan struct{} // closed when no task runs any more
	killed       atomic.Bool
	started      func() // called when policy is in force and the program is about to run
	fillErr      error  // set by ContainerStart, which cannot return it
}

// sandboxID names the container in the Loader's tables; there is one.
const sandboxID = "silk"

// newBox builds kernel, platform and memory before anything is known of the run. The descriptors it hands to the
// Loader are dead pipes; load replaces what is behind their numbers.
func newBox(conf *config.Config, ncpu, platformCPUs int, hostMem uint64) (*box, error) {
	b := &box{conf: conf, guard: &guard{}, over: make(chan struct{})}
	b.init = &specs.Spec{
		Version: "1.0.0", Hostname: "silk", Root: &specs.Root{Path: "/", Readonly: true},
		Process: &specs.Process{
			Args: []string{"init"}, Env: []string{"HOME=/"}, Cwd: "/", User: specs.User{UID: initID, GID: initID},
			Capabilities: &specs.LinuxCapabilities{}, NoNewPrivileges: true,
		},
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.NetworkNamespace},
		}},
	}
	ctl, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make control socket: %w", err)
	}
	if err := unix.Bind(ctl, &unix.SockaddrUnix{}); err != nil { // an abstract name in our own, empty network namespace
		return nil, fmt.Errorf("bind control socket: %w", err)
	}
	var null [4]int
	for i := range null {
		if null[i], err = deadPipe(); err != nil {
			return nil, err
		}
	}
	b.image = null[3]
	seccheckInitOnce.Do(func() {})
	b.timer = timing.New(sandboxID, time.Now())
	b.loader, err = boot.New(boot.Args{
		ID: sandboxID, Spec: b.init, Conf: conf, ControllerFD: ctl, Device: fd.New(-1), PinRingFD: -1,
		GoferFDs: []int{b.image}, DevGoferFD: -1, StdioFDs: null[:3], ExecFD: initFD,
		GoferMountConfs: []specutils.GoferMountConf{{Lower: specutils.Erofs, Upper: specutils.NoOverlay}},
		NumCPU:          max(ncpu, platformCPUs), CPUQuota: -1, TotalHostMem: hostMem, PodInitConfigFD: -1, RootfsUpperTarFD: -1,
		StartupTimer: b.timer,
	})
	if err != nil {
		return nil, fmt.Errorf("make gVisor loader: %w", err)
	}
	if b.fields, err = fieldsOf(b.loader); err != nil {
		return nil, err
	}
	*b.fields.cores = uint(ncpu)
	metric.Initialize()
	return b, nil
}

// deadPipe returns the read end of a pipe without a writer: always at end of file.
func deadPipe() (int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, err
	}
	return p[0], unix.Close(p[1])
}

func (b *box) kernel() *kernel.Kernel { return *b.fields.kernel }

// warm prepares what each run needs and none determines: two empty address spaces, for init and the program, go back
// to the platform's pool of stub processes.
func (b *box) warm() error {
	var both errgroup.Group
	var spaces [2]platform.AddressSpace
	for i := range spaces {
		both.Go(func() (err error) {
			if spaces[i], err = b.kernel().NewAddressSpace(); err != nil {
				return fmt.Errorf("make address space: %w", err)
			}
			return nil
		})
	}
	err := errors.Join(b.addLoopback(), both.Wait())
	for _, as := range spaces { // not before both are made, or the second would be the first again
		if as != nil {
			as.Release()
		}
	}
	return err
}

// load patches the waiting kernel with the run. fds are as [wire.Request] says; load owns them.
func (b *box) load(req wire.Request, fds []int) error {
	b.req = req
	want := 7 + len(req.Mounts)
	if req.Drain {
		want++
	}
	if req.Link != nil {
		want++
	}
	if len(fds) != want {
		return fmt.Errorf("request came with %d descriptors, want %d", len(fds), want)
	}
	stdio, rest := fds[1:4], fds[7:]
	b.ws = workspace{box: b, in: fds[4], out: -1}
	if req.Drain {
		b.ws.out, rest = rest[0], rest[1:]
	}
	if req.Link != nil {
		if err := b.addLink(*req.Link, rest[0]); err != nil {
			return err
		}
		rest = rest[1:]
	}
	images := append([]int{fds[0]}, rest...)
	if err := checkDescriptors(images, stdio); err != nil {
		return err
	}
	if err := unix.Dup3(fds[0], b.image, unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("put image in place: %w", err)
	}
	_ = unix.Close(fds[0])
	copy(b.stdio[:], stdio)
	if req.Terminal {
		if err := ownTerminal(stdio[0]); err != nil {
			return err
		}
	}

	b.init.Hostname = req.Hostname
	b.init.Mounts = mountsOf(req)
	for _, image := range rest {
		*b.fields.goferFDs = append(*b.fields.goferFDs, fd.New(image))
		*b.fields.mounts = append(*b.fields.mounts, specutils.GoferMountConf{Lower: specutils.Erofs, Upper: specutils.NoOverlay})
	}
	b.kernel().RootUTSNamespace().SetHostName(b.kernel().SupervisorContext(), req.Hostname)
	usage.MinimumTotalMemoryBytes, usage.MaximumTotalMemoryBytes = uint64(req.MemoryBytes), uint64(req.MemoryBytes)
	if err := b.guard.events.open(fds[5], fds[6]); err != nil {
		return err
	}
	if req.Held != nil {
		if err := b.hold(*req.Held); err != nil {
			return err
		}
	}
	b.guard.configure(b)
	b.guard.watchExecutables()
	seccheck.Global.AppendSink(b, []seccheck.PointReq{{Pt: seccheck.PointContainerStart}, {Pt: seccheck.PointTaskExit}})
	return nil
}

// run starts the program and waits for its end. ready is called when the process can take control messages.
func (b *box) run(ready func()) (wire.Message, error) {
	if err := loaderRun(b.loader); err != nil {
		return wire.Message{}, errors.Join(b.fillErr, fmt.Errorf("start sandbox: %w", err))
	}
	if b.fillErr != nil {
		return wire.Message{}, b.fillErr
	}
	if b.notFound != "" {
		return b.end(0), nil
	}
	if b.tty != nil {
		b.forwardTerminalSignals()
	}
	ready()
	b.memory.watch(b)
	b.program.WaitExited()
	status := b.program.ExitStatus()
	b.kernel().Kill(linux.WaitStatusTerminationSignal(linux.SIGKILL)) // init, and everything that the program left behind
	b.loader.WaitExit()
	close(b.over)
	b.memory.last(b)
	return b.end(status), nil
}

func (b *box) end(status linux.WaitStatus) wire.Message {
	m := wire.Message{
		Kind: wire.Exit, Status: uint32(status), NotFound: b.notFound, Code: b.notFoundCode, OOM: b.memory.exceeded.Load(), Killed: b.killed.Load(),
		Flags: b.guard.flags(), Refused: b.guard.refused.list(), Processes: b.guard.processes.Load(), PeakBytes: b.memory.peak.Load(),
	}
	if err := b.ws.drain(); err != nil {
		m.DrainErr = err.Error()
	}
	return m
}

// control obeys one message of the engine.
func (b *box) control(c wire.Control) {
	if c.Kill {
		b.killed.Store(true)
		b.kernel().Kill(linux.WaitStatusTerminationSignal(linux.SIGKILL))
	}
	if sig := linux.Signal(c.Signal); sig.IsValid() {
		_ = b.kernel().SendExternalSignalThreadGroup(b.program, &linux.SignalInfo{Signo: c.Signal, Code: linux.SI_USER}) // fails if it has ended
	}
}

// Name implements seccheck.Sink.
func (*box) Name() string { return "silk" }

// ContainerStart implements seccheck.Sink. The Loader calls it when init and all mounts exist and before any task runs:
// the moment to fill the workspace and to create the program. What goes wrong here must keep the kernel from starting
// the program: there is none then, and run reports it.
func (b *box) ContainerStart(context.Context, seccheck.FieldSet, *pb.Start) error {
	if err := b.ignoreSignals(); err != nil {
		b.fillErr = err
		return err
	}
	if err := b.ws.open(); err != nil {
		b.fillErr = err
		return err
	}
	if err := b.supplyFiles(); err != nil {
		b.fillErr = err
		return err
	}
	if err := b.ws.fill(); err != nil {
		b.fillErr = fmt.Errorf("fill workspace: %w", err)
		return b.fillErr
	}
	if b.req.ReadOnly {
		if err := b.ws.freeze(); err != nil {
			b.fillErr = err
			return err
		}
	}
	if err := b.createProgram(); err != nil {
		b.fillErr = err
		return err
	}
	if b.notFound == "" {
		b.started()
	}
	return nil
}

// ignoreSignals makes process 1 ignore every signal that can be ignored. That SIGCHLD is ignored makes the kernel reap
// orphans (sigaction(2), SA_NOCLDWAIT). If process 1 did it itself, its 62 system calls would stand beside the program's first.
func (b *box) ignoreSignals() error {
	for sig := linux.Signal(1); sig.IsValid(); sig++ {
		_, err := b.kernel().GlobalInit().SetSigAction(sig, &linux.SigAction{Handler: linux.SIG_IGN, Flags: linux.SA_NOCLDWAIT})
		if err != nil && sig != linux.SIGKILL && sig != linux.SIGSTOP {
			return fmt.Errorf("ignore signal %d in process 1: %w", sig, err)
		}
	}
	return nil
}
