package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/firecracker/wire"
	"github.com/silk-sandbox/silk/internal/guestwire"
	"github.com/silk-sandbox/silk/internal/pty"
)

// program is the run's program, from its start to its report.
type program struct {
	*agent
	supervisor *confine.Supervisor
	refused    confine.Refusals
	root       confine.Root
	rules      *os.File // Landlock's
	namespace  *os.File // of its network; nil: it has no way out

	pid    int
	exited chan syscall.WaitStatus
	gone   chan struct{} // closed when every process has ended
	oom    atomic.Bool
	tmp    atomic.Bool
	disk   atomic.Bool
	pumps  sync.WaitGroup
}

// run starts the program and returns when it has ended, with everything that came from it, and all that it has written is under way.
func (p *program) run() (wire.Report, error) {
	var err error
	if p.root, err = confine.OpenRoot(newRoot); err != nil {
		return wire.Report{}, err
	}
	defer p.root.Close()
	spec := p.plan.Spec()
	rules, err := confine.Ruleset(p.root, confine.Places(spec))
	if err != nil {
		return wire.Report{}, err
	}
	p.rules = os.NewFile(uintptr(rules), "rules")
	defer p.rules.Close()
	command, none := p.root.LookUp(spec)
	if none != nil {
		p.closeStreams()
		return *notFound(none), nil
	}
	p.exited, p.gone = make(chan syscall.WaitStatus, 1), make(chan struct{})
	p.workspace.Begun = time.Now()
	missing, err := p.start(command)
	if err != nil {
		return wire.Report{}, err
	}
	if missing == nil {
		p.mu.Lock()
		if !p.hasEnded() {
			p.main = p.pid
		}
		p.mu.Unlock()
		if err := p.conn.Send(guestwire.Started, nil); err != nil {
			return wire.Report{}, err
		}
		go p.guard()
	}
	status := <-p.exited
	_ = killGroup()
	<-p.gone
	p.hush()
	p.pumps.Wait()
	err = p.supervisor.Close()
	return p.report(status, missing), err
}

// hasEnded says whether the program has.
func (p *program) hasEnded() bool {
	select {
	case status := <-p.exited:
		p.exited <- status
		return true
	default:
		return false
	}
}

// closeStreams ends what a program would have written.
func (p *program) closeStreams() {
	for _, s := range []guestwire.Stream{guestwire.Stdout, guestwire.Stderr} {
		_ = p.conn.Writer(s).Close()
	}
}

// stageEnv: the runtime sends no signals to a thread of the stage's that waits for an answer of ours, which would take its question back. The program's
// environment is the plan's.
var stageEnv = []string{"GODEBUG=asyncpreemptoff=1"}

// start makes the stage and lets it become the program. missing says that it cannot.
func (p *program) start(command string) (missing *wire.Report, err error) {
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	goR, goW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer statusR.Close()
	defer goW.Close()
	ours, theirs, err := p.channels()
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(group)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	process, err := os.StartProcess("/proc/self/exe", []string{stageName}, &os.ProcAttr{
		Dir: "/", Env: stageEnv, Files: append(slices.Clone(theirs), orderR, statusW, goR, p.rules),
		Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET,
			UseCgroupFD: true, CgroupFD: int(dir.Fd()),
		},
	})
	for _, f := range append(theirs, orderR, statusW, goR) {
		_ = f.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("start the program: %w", err)
	}
	p.pid = process.Pid
	go p.reap()
	p.carry(ours)
	if err := p.link(); err != nil {
		return nil, err
	}
	if err := errors.Join(json.NewEncoder(orderW).Encode(order{p.plan, command}), orderW.Close()); err != nil {
		return nil, err
	}
	return p.await(statusR, goW)
}

// await hears the stage out.
func (p *program) await(status, letGo *os.File) (missing *wire.Report, err error) {
	for {
		var b [16]byte
		if _, err := io.ReadFull(status, b[:]); err != nil {
			if errors.Is(err, io.EOF) && p.supervisor != nil { // it is the program
				return nil, nil
			}
			return nil, errors.New("start the program: the stage has ended without a word")
		}
		what, number := int64(binary.NativeEndian.Uint64(b[:])), int64(binary.NativeEndian.Uint64(b[8:]))
		switch what {
		case stageListens:
			listener, err := p.fetch(int(number))
			if err != nil {
				return nil, fmt.Errorf("fetch the filter's listener: %w", err)
			}
			p.supervisor = confine.Supervise(confine.Supervision{
				Listener: listener, Root: p.root, Policy: confine.PolicyOf(p.plan.Spec()), First: p.pid,
				End: func() { _ = killGroup() }, Seen: p.events.seen, Refused: &p.refused,
			})
			p.endWith(func() { _ = killGroup() })
			if _, err := letGo.Write([]byte{1}); err != nil {
				return nil, err
			}
		case stageFailed:
			return notFound(confine.NotExecuted(p.plan.Args[0], syscall.Errno(number))), nil
		default:
			return nil, fmt.Errorf("start the program: %w (the console says more)", syscall.Errno(number))
		}
	}
}

// fetch takes a descriptor out of the stage.
func (p *program) fetch(fd int) (int, error) {
	process, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(process)
	return unix.PidfdGetfd(process, fd, 0)
}

// channels are the two sides of what the program reads and writes: stdin, stdout, stderr, or a terminal three times.
func (p *program) channels() (ours, theirs []*os.File, err error) {
	if p.plan.Terminal != nil {
		main, replica, err := pty.Open()
		if err != nil {
			return nil, nil, err
		}
		if err := setSize(main, *p.plan.Terminal); err != nil {
			return nil, nil, err
		}
		if err := replica.Chown(confine.User, confine.User); err != nil {
			return nil, nil, err
		}
		p.mu.Lock()
		p.terminal = main
		p.mu.Unlock()
		return []*os.File{main}, []*os.File{replica, replica, replica}, nil
	}
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		if i == 0 {
			r, w = w, r
		}
		if err := w.Chown(confine.User, confine.User); err != nil { // so that /dev/stdout can be opened
			return nil, nil, err
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	return ours, theirs, nil
}

// carry moves bytes between the program and the host.
func (p *program) carry(ours []*os.File) {
	in := ours[0]
	go func() {
		_, _ = io.Copy(in, p.conn.Reader(guestwire.Stdin))
		if p.plan.Terminal == nil {
			_ = in.Close()
		}
	}()
	if p.plan.Terminal != nil {
		_ = p.conn.Writer(guestwire.Stderr).Close()
		p.pumps.Go(func() { pump(p.conn.Writer(guestwire.Stdout), in) })
		return
	}
	p.pumps.Go(func() { pump(p.conn.Writer(guestwire.Stdout), ours[1]) })
	p.pumps.Go(func() { pump(p.conn.Writer(guestwire.Stderr), ours[2]) })
}

// reap takes the status of everybody who ends, as the first process of a machine has to.
func (p *program) reap() {
	defer close(p.gone)
	for {
		var status syscall.WaitStatus
		if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil && !errors.Is(err, unix.EINTR) { // until somebody is to be reaped
			return // ECHILD: none is left
		}
		p.mu.Lock() // its number may be another's when it is reaped
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == nil && pid == p.pid {
			p.main = 0
			p.exited <- status
		}
		p.mu.Unlock()
	}
}

// guardInterval is the time between looks at what no event tells of.
const guardInterval = 50 * time.Millisecond

// guard ends the program when memory has run out, and notices when a file system is full.
func (p *program) guard() {
	ticker := time.NewTicker(guardInterval)
	defer ticker.Stop()
	for {
		p.notice()
		if p.oom.Load() {
			_ = killGroup()
			return
		}
		select {
		case <-p.gone:
			return
		case <-ticker.C:
		}
	}
}

func (p *program) notice() {
	if oomKills() > 0 || memoryOver(p.plan.MemoryBytes, p.filesBefore) {
		p.oom.Store(true)
	}
	if full("/tmp") || p.plan.ShmBytes > 0 && full("/dev/shm") {
		p.tmp.Store(true)
	}
	if full("/workspace") {
		p.disk.Store(true)
	}
}

// report says how it ended, by what the program cannot write to.
func (p *program) report(status syscall.WaitStatus, missing *wire.Report) wire.Report {
	p.notice()
	r := wire.Report{}
	if missing != nil {
		r = *missing
	} else if status.Signaled() {
		r.Signal = int(status.Signal())
	} else {
		r.Code = status.ExitStatus()
	}
	account(&r)
	r.Violation, r.Refused = p.supervisor.Violation(), p.refused.List()
	r.OOM = r.Violation == nil && p.oom.Load()
	if p.tmp.Load() {
		r.Flags.TmpFull = 1
	}
	if p.disk.Load() {
		r.Flags.DiskFull = 1
	}
	p.events.sum(&r)
	return r
}

// notFound is the report of a command that is none.
func notFound(e *driver.Exit) *wire.Report {
	return &wire.Report{NotFound: e.NotFound, Code: e.Code, Message: e.Message}
}

func setSize(terminal *os.File, s wire.Size) error { return pty.Resize(terminal, s.Columns, s.Rows) }
