package sentry

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/cpuid"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/ring0"
	"gvisor.dev/gvisor/pkg/sentry/syscalls/linux"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
	"github.com/silk-sandbox/silk/internal/packet"
)

// Descriptors that the driver donates. exeFD is what was executed; fdTableFD is a placeholder that gives the descriptor
// table its final size before threads exist: growing it later waits for a grace period of RCU. Neither is kept.
const (
	engineFD  = 3
	initFD    = 4 // the executable of process 1
	exeFD     = 254
	fdTableFD = 255
)

// exitLost is the exit status when the engine is gone or was never there; nobody reads it.
const exitLost = 70

var commandName = [16]byte{'s', 'i', 'l', 'k', '-', 's', 'e', 'n', 't', 'r', 'y'}

// session is one sentry process and its one run.
type session struct {
	steps  []wire.Step
	placed chan error   // receives when this process is in its control group
	ready  chan arrival // the request, decoded while the kernel is being built
}

type arrival struct {
	req wire.Request
	fds []int
	err error
}

// Main is the process. Its arguments are: the number of processors that the program sees, the number that the platform
// counts on, and the host's total memory in bytes. It never returns.
func Main() {
	s := &session{placed: make(chan error, 1), ready: make(chan arrival, 1)}
	s.mark("main")
	s.fail(s.run())
}

// run returns only what kept it from reporting how the program ended.
func (s *session) run() error {
	if len(os.Args) != 4 {
		return errors.New("silk-sentry is started by silk, not by hand")
	}
	ncpu, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return fmt.Errorf("CPU count: %w", err)
	}
	platformCPUs, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return fmt.Errorf("platform's CPU count: %w", err)
	}
	hostMem, err := strconv.ParseUint(os.Args[3], 10, 64)
	if err != nil {
		return fmt.Errorf("host memory: %w", err)
	}
	if err := checkConfined(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&commandName[0])), 0, 0, 0); err != nil { // the file that was executed has a number for a name
		return fmt.Errorf("name the process: %w", err)
	}
	unix.CloseOnExec(engineFD)
	unix.CloseOnExec(initFD)
	_ = unix.Close(exeFD)
	_ = unix.Close(fdTableFD)
	log.SetLevel(log.Warning)                                               // formatting what nobody reads costs 0.5 ms
	log.SetTarget(log.GoogleEmitter{Writer: &log.Writer{Next: io.Discard}}) // the Sentry's log would be a channel out
	debug.SetTraceback("system")
	debug.SetGCPercent(400) // a start allocates 20 MB once; collecting it twice costs 3 ms

	if err := packet.Send(engineFD, wire.Message{Kind: wire.Hello, Version: wire.Version}); err != nil {
		os.Exit(exitLost)
	}
	go s.receive()

	cpuid.Initialize()
	ring0.InitDefault()
	loadSeccompPrograms()
	s.mark("CPU identified")
	if err := <-s.placed; err != nil {
		return fmt.Errorf("hear from the engine: %w", err)
	}
	s.mark("placed")
	b, err := newBox(newConfig(), ncpu, platformCPUs, hostMem)
	if err != nil {
		return err
	}
	s.mark("kernel")
	names, err := b.guard.install(linux.AMD64)
	if err != nil {
		return err
	}
	if err := b.warm(); err != nil {
		return err
	}
	s.mark("waiting")

	a := s.await()
	if a.err != nil {
		return fmt.Errorf("receive request: %w", a.err)
	}
	s.mark("request")
	if err := b.load(a.req, a.fds); err != nil {
		return err
	}
	s.mark("loaded")
	s.say(wire.Message{Kind: wire.Armed, Rules: names, Points: wire.Points()})
	b.started = func() {
		s.mark("started")
		s.say(wire.Message{Kind: wire.Started, Steps: append(s.steps, stepsOf(b.timer)...)})
	}
	b.guard.report = func(m wire.Message) { s.say(m) }
	m, err := b.run(func() { go s.control(b) })
	if err != nil {
		return err
	}
	b.guard.last(m)
	panic("guard.last has returned")
}

// await returns the request. A kernel that has to wait for it first gives back the garbage of its start.
func (s *session) await() arrival {
	select {
	case a := <-s.ready:
		return a
	default:
	}
	runtime.GC()
	return <-s.ready
}

// receive reads the engine's two messages. An engine that closes its end does not need us (any more).
func (s *session) receive() {
	_, err := packet.Receive(engineFD, new(wire.Placed))
	if errors.Is(err, io.EOF) {
		os.Exit(exitLost)
	}
	if s.placed <- err; err != nil {
		return
	}
	var a arrival
	a.fds, a.err = packet.Receive(engineFD, &a.req)
	if errors.Is(a.err, io.EOF) {
		os.Exit(exitLost)
	}
	s.ready <- a
}

// control obeys the engine until it closes its end: then the run is over, whatever the program is doing. It reads with
// read(2) because the seccomp filter has no recvmsg with our flags.
func (s *session) control(b *box) {
	for {
		var c wire.Control
		switch err := packet.Read(engineFD, &c); {
		case errors.Is(err, io.EOF):
			os.Exit(exitLost)
		case err != nil:
			s.fail(fmt.Errorf("read control message: %w", err))
		}
		b.control(c)
	}
}

func (s *session) mark(step string) {
	s.steps = append(s.steps, wire.Step{Name: step, At: time.Now().UnixNano()})
}

// say sends m. Without an engine there is nobody to run for.
func (s *session) say(m wire.Message) {
	if err := packet.Write(engineFD, m); err != nil {
		os.Exit(exitLost)
	}
}

// fail reports err and ends the process.
func (s *session) fail(err error) {
	_ = packet.Write(engineFD, wire.Message{Kind: wire.Error, Error: err.Error(), Steps: s.steps})
	os.Exit(exitLost)
}
