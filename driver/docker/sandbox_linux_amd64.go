package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/docker/launch"
	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/cleanup"
	"github.com/silk-sandbox/silk/internal/tun"
)

// sandbox is one run in one container.
type sandbox struct {
	driver *Driver
	spec   driver.Spec
	name   string // of the container
	made   bool   // it is there, and ours
	left   bool   // it could not be removed
	undo   cleanup.Stack

	reaper         *launch.Reaper
	ruler, starter party // the launcher's two processes: the container's first, and what becomes the program
	first          *os.Process
	groups         *cgroup.Others
	root           confine.Root
	places         []writable
	workspace      *confine.Workspace
	wire           *tun.Wire // nil: no way out
	scope          Scope     // nil if the command cannot be executed
	unwatched      sync.Once
	supervisor     *confine.Supervisor
	events         *events
	refused        confine.Refusals

	missing *driver.Exit  // the command cannot be executed: nothing has run
	drained chan error    // nil if no drain is wanted
	gone    chan struct{} // closed when the program has ended, or nobody knows
	thaws   sync.Once
	killed  atomic.Bool
	now     atomic.Bool // the workspace is lost
	moved   atomic.Int64
	oom     atomic.Bool
	blind   atomic.Bool // nobody watches any more

	mu    sync.Mutex
	over  bool           // nobody is ended any more
	kills sync.WaitGroup // begun before
}

// writable is a file system of the run's own.
type writable struct {
	dir string
	fd  int // O_PATH
}

// run begins what is done beside a program.
func (s *sandbox) run() {
	if s.scope != nil {
		s.events = watchEvents(s)
		go s.guard()
	}
}

// pollInterval is the time between looks at what no event tells of: memory.
const pollInterval = 20 * time.Millisecond

// guard ends the sandbox when memory has run out, of which the kernel may end but one process, and when nobody watches any more.
func (s *sandbox) guard() {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.gone:
			return
		case <-s.scope.Lost():
			s.blind.Store(true)
			s.end()
			return
		case <-ticker.C:
			if s.outOfMemory() {
				s.end()
				return
			}
		}
	}
}

// outOfMemory says whether memory has run out. The group's own limit is memory and workspace together, since the pages of both are counted
// in it; what is beyond the workspace's is looked at here.
func (s *sandbox) outOfMemory() bool {
	if n, err := s.groups.OOMKills(); err == nil && n > 0 {
		s.oom.Store(true)
	}
	if used, err := s.groups.OwnMemoryBytes(); err == nil && !s.spec.ReadOnly && used-s.workspaceBytes() > max(s.spec.MemoryBytes, minMemoryBytes) {
		s.oom.Store(true)
	}
	return s.oom.Load()
}

// workspaceBytes is what is in the workspace.
func (s *sandbox) workspaceBytes() int64 {
	for _, p := range s.places {
		var st unix.Statfs_t
		if p.dir == "/workspace" && unix.Fstatfs(p.fd, &st) == nil {
			return int64(st.Blocks-st.Bfree) * st.Bsize
		}
	}
	return 0
}

// end ends every process of the program. What cannot be ended that way goes with the container.
func (s *sandbox) end() {
	ctx, cancel := context.WithTimeout(context.Background(), killGrace)
	defer cancel()
	if s.scope == nil || s.scope.Kill(ctx) != nil {
		s.endContainer()
	}
	s.thaw()
}

// thaw lets processes go that do not end: where control groups are of version 1, those of a container that somebody has paused hear of
// no signal before. Nobody waits for it.
func (s *sandbox) thaw() {
	s.thaws.Do(func() {
		go func() {
			select {
			case <-s.gone:
			case <-time.After(killGrace):
				ctx, cancel := context.WithTimeout(context.Background(), teardownTimeout)
				defer cancel()
				if err := s.driver.engine.unpause(ctx, s.name); err != nil {
					s.driver.config.Logger.Warn("a container does not end, and is not paused", "container", s.name, "error", err)
				}
			}
		}()
	})
}

// endContainer ends the container's first process, and with it, by the kernel, all others. One that has ended is not mistaken for whoever has its number.
func (s *sandbox) endContainer() { _ = s.first.Kill() }

// killGrace is how long a sandbox may take to end, and how long a drain may stand still.
const killGrace = 2 * time.Second

// Kill implements [driver.Sandbox].
func (s *sandbox) Kill(how driver.KillMode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.killed.Store(true)
	if how == driver.KillNow {
		s.now.Store(true)
	}
	s.kills.Go(s.end)
}

// unkillable waits for kills that have begun. Later ones do nothing.
func (s *sandbox) unkillable() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.kills.Wait()
}

// Wait implements [driver.Sandbox].
func (s *sandbox) Wait() (exit driver.Exit, err error) {
	status, err := s.ending()
	close(s.gone)
	if s.missing != nil {
		exit = *s.missing
	}
	s.usage(&exit)
	if s.scope != nil {
		err = errors.Join(err, s.empty())
		err = errors.Join(err, s.judge(&exit, status))
	}
	err = errors.Join(err, s.hush(exit.Violation != nil || exit.Killed || exit.OOM || err != nil))
	exit.DrainErr, err = s.drain(exit, err)
	s.unkillable()
	return exit, errors.Join(err, s.discard())
}

// ending waits for what process 1 tells when the program has ended, and everybody else with it.
func (s *sandbox) ending() (syscall.WaitStatus, error) {
	if s.missing != nil {
		return 0, nil
	}
	what, _, number, err := s.ruler.hear(context.Background())
	if err == nil && what != launch.Ended {
		err = fmt.Errorf("the launcher says %d at the end", what)
	}
	if err == nil {
		return syscall.WaitStatus(number), nil
	}
	if s.killed.Load() || s.oom.Load() || s.blind.Load() {
		return syscall.WaitStatus(unix.SIGKILL), nil // the container went with it
	}
	if errors.Is(err, io.EOF) {
		err = s.whyEnded()
	}
	return syscall.WaitStatus(unix.SIGKILL), err
}

// whyEnded asks the engine about a container that ended without a word.
func (s *sandbox) whyEnded() error {
	ctx, cancel := context.WithTimeout(context.Background(), killGrace)
	defer cancel()
	c, err := s.driver.engine.look(ctx, s.name)
	st := c.State
	switch {
	case errors.Is(err, errNotFound):
		return errors.New("somebody has removed the container")
	case err != nil:
		return fmt.Errorf("the container has ended without a word, and its engine does not say why: %w", err)
	case st.OOMKilled:
		s.oom.Store(true)
		return nil
	}
	return endedBySomebody(st)
}

// endedBySomebody is what the engine says of a container that silk has not ended.
func endedBySomebody(st state) error {
	if st.Status == "running" {
		return errors.New("somebody has ended the container's processes: its engine did not, or has not noticed yet")
	}
	return errors.New(strings.TrimSpace(fmt.Sprintf("somebody has ended the container: the engine says that it is %s, with status %d %s", st.Status, st.ExitCode, st.Error)))
}

// usage reads the container's counters, which its first process keeps.
func (s *sandbox) usage(exit *driver.Exit) {
	exit.Usage.CPU, _ = s.groups.CPUTime() // a container that has gone has none
	exit.Usage.PeakMemoryBytes, _ = s.groups.PeakMemoryBytes()
	exit.Flags.PidsLimitHit, _ = s.groups.ForksRefused()
	s.outOfMemory()
}

// empty ends what might be left of the program, which is nothing.
func (s *sandbox) empty() error {
	pids, err := s.scope.Processes()
	if err == nil && len(pids) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), killGrace)
		defer cancel()
		err = s.scope.Kill(ctx)
	}
	if err != nil {
		s.endContainer()
		return fmt.Errorf("end what is left of the program: %w", err)
	}
	return nil
}

// judge says how the program ended, by counters and records that it cannot write to.
func (s *sandbox) judge(exit *driver.Exit, status syscall.WaitStatus) error {
	n, first, err := s.scope.Alarms()
	if err != nil {
		return fmt.Errorf("ask for forbidden calls: %w", err)
	}
	dropped, err := s.scope.Dropped()
	err = errors.Join(err, s.unwatch(context.Background()))
	exit.Watched = s.events.watched()
	exit.Watched.Dropped += dropped
	exit.Watched.Host = true
	exit.Flags.TmpFull, exit.Flags.DiskFull = s.events.full()
	exit.Usage.Processes = 1 + exit.Watched.Counts[cloned]
	if s.blind.Load() {
		return errors.Join(err, errors.New("the host's kernel has stopped to watch the container, which was ended"))
	}
	switch violation := s.violation(n, first); {
	case violation != nil:
		exit.Violation = violation
		exit.Watched.Last = lastWords(exit.Watched.Last, first, violation)
	case s.oom.Load():
		exit.OOM = true
	case s.killed.Load():
		exit.Killed = true
	}
	if exit.Violation == nil {
		exit.Watched.Last = nil
	}
	exit.Refused = s.refused.List()
	if exit.NotFound {
		return err
	}
	if status.Signaled() {
		exit.Signal = int(status.Signal())
	} else {
		exit.Code = status.ExitStatus()
	}
	return err
}

// violation is the first forbidden act, if there was one: the supervisor knows more of it than the kernel's record.
func (s *sandbox) violation(n uint64, first event) *driver.Violation {
	if s.supervisor != nil {
		if v := s.supervisor.Violation(); v != nil {
			return v
		}
	}
	if n > 0 {
		return forbiddenBy(first)
	}
	return nil
}

// unwatch ends the watching, and waits for the last events. It is done once.
func (s *sandbox) unwatch(context.Context) (err error) {
	s.unwatched.Do(func() {
		if err = s.scope.Close(); err != nil {
			err = fmt.Errorf("end the watching of a container: %w", err)
		}
		if s.events != nil {
			s.events.wait()
			return
		}
		for range s.scope.Events() { // of a start that failed
		}
	})
	return err
}

// emptied waits until no process is in the container's groups, and ends what is: an engine that says that a container is removed may have
// lost it.
func (s *sandbox) emptied(ctx context.Context) error {
	if s.groups == nil {
		return nil
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		empty, err := s.groups.Empty()
		if empty || err != nil {
			return err
		}
		s.endContainer()
		select {
		case <-ctx.Done():
			return fmt.Errorf("container %s still has processes: %w", s.name, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// Resize implements [driver.Resizer]. The size is the terminal's, which the engine sets on its side, and the kernel, which is the
// program's too, tells the foreground process group.
func (s *sandbox) Resize(uint16, uint16) error { return nil }
