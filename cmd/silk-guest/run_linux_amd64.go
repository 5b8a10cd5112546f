package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/firecracker/wire"
	"github.com/silk-sandbox/silk/internal/guestwire"
)

// agent is the machine's one run.
type agent struct {
	conn  *guestwire.Conn
	began time.Time // of the kernel's clock

	plan        wire.Plan
	workspace   *confine.Workspace
	filesBefore int64 // see memoryOver
	program     *program
	events      *events

	mu       sync.Mutex // what follows is guarded by it
	stopped  bool       // the host wants no program
	stop     func()
	main     int           // the program's process, as long as it is one
	terminal *os.File      // main side
	bye      chan struct{} // closed when the host has everything, or is gone
}

// start is what this process is here for. It returns only if that is nothing.
func start() int {
	if len(os.Args) > 0 && os.Args[0] == stageName {
		return stage()
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "silk-guest: this is the first process of a virtual machine, and nothing else")
		return 2
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "silk-guest:", err) // on the console, whose tail the host shows
	}
	// On machines without firmware a restart is what ends them: the VMM is told not to boot again.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {}
}

// run is everything, from boot to the host's last word.
func run() error {
	debug.SetGCPercent(garbage)
	if err := boot(); err != nil {
		return err
	}
	f, err := call()
	if err != nil {
		return err
	}
	a := &agent{conn: guestwire.New(f, guestwire.Guest), bye: make(chan struct{})}
	defer a.conn.Close()
	go a.listen()
	if err := a.hello(); err != nil {
		return err
	}
	if err := a.do(); err != nil {
		_ = a.conn.Send(guestwire.Failed, []byte(clip(err.Error())))
		<-a.bye
		return err
	}
	<-a.bye
	return nil
}

// garbage is how much of it may lie about, in percent of what is in use, and of the 4 MiB below which the runtime looks for none: whatever the agent has the machine has
// not, and it has little to look through.
const garbage = 25

func clip(s string) string { return s[:min(len(s), guestwire.MaxPayload)] }

// listen hears the host until it is gone.
func (a *agent) listen() {
	over := sync.OnceFunc(func() { close(a.bye) })
	_ = a.conn.Run(func(kind guestwire.Kind, payload []byte) error {
		switch kind {
		case guestwire.Stop:
			a.end()
		case guestwire.Resize:
			return a.resize(payload)
		case guestwire.Signal:
			return a.signal(payload)
		case guestwire.Bye:
			over()
		}
		return nil
	})
	a.end() // a program that nobody hears of
	over()
}

// end ends the program, now or as soon as there is one.
func (a *agent) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.stop != nil {
		a.stop()
	}
}

// isStopped says whether the host wants no program.
func (a *agent) isStopped() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped
}

// endWith sets what ends the program.
func (a *agent) endWith(stop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop = stop
	if a.stopped {
		stop()
	}
}

// signal sends the program a signal, if it still runs.
func (a *agent) signal(payload []byte) error {
	if len(payload) != 1 {
		return errors.New("a signal of another form")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.main == 0 {
		return nil
	}
	return unix.Kill(a.main, unix.Signal(payload[0]))
}

func (a *agent) resize(payload []byte) error {
	if len(payload) != 4 {
		return errors.New("a size of another form")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.terminal == nil {
		return nil
	}
	_ = setSize(a.terminal, wire.Size{Columns: binary.BigEndian.Uint16(payload), Rows: binary.BigEndian.Uint16(payload[2:])}) // of a program that has just ended it has none
	return nil
}

func (a *agent) hello() error {
	var name unix.Utsname
	var up unix.Timespec
	if err := errors.Join(unix.Uname(&name), unix.ClockGettime(unix.CLOCK_BOOTTIME, &up)); err != nil {
		return err
	}
	b, err := json.Marshal(wire.Hello{Version: guestwire.Version, Kernel: unix.ByteSliceToString(name.Release[:]), UptimeMs: up.Nano() / 1e6})
	if err != nil {
		return err
	}
	return a.conn.Send(guestwire.Hello, b)
}

// do does what the plan says.
func (a *agent) do() (err error) {
	if err := wire.Read(a.conn.Reader(guestwire.Plan), &a.plan); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	if err := errors.Join(setClock(a.plan.Now), makeRoot(a.plan), makeGroup(a.plan)); err != nil {
		return err
	}
	a.filesBefore = ownFiles()
	if a.workspace, err = confine.OpenWorkspace(newRoot+"/workspace", a.plan.ReadOnly); err != nil {
		return err
	}
	if err := a.workspace.Fill(a.conn.Reader(guestwire.Fill)); err != nil {
		return err
	}
	if err := mountOthers(a.plan); err != nil {
		return err
	}
	a.events = newEvents(a.conn)
	a.program = &program{agent: a}
	report, err := a.program.run()
	if err != nil {
		return err
	}
	report.DrainError = a.drain()
	b, err := json.Marshal(report)
	if err != nil {
		return err
	}
	w := a.conn.Writer(guestwire.Report)
	_, err = w.Write(b)
	return errors.Join(err, w.Close())
}

// drain sends the workspace. What it returns is why it is not whole.
func (a *agent) drain() string {
	w := a.conn.Writer(guestwire.Drain)
	defer w.Close()
	if a.plan.Drain == nil {
		return ""
	}
	b := a.plan.Drain
	if err := a.workspace.Drain(w, confine.Bounds{FileBytes: b.FileBytes, TotalBytes: b.TotalBytes, Entries: b.Entries}); err != nil {
		return err.Error()
	}
	return ""
}

// pump copies what the program writes, and ends the stream with it.
func pump(w io.WriteCloser, r *os.File) {
	defer w.Close()
	defer r.Close()
	buf := make([]byte, 60<<10) // a frame's worth
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil { // EIO at a terminal's end
			return
		}
	}
}
