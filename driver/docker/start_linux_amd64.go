package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/docker/launch"
	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/watch/bpf"
)

const (
	// startTimeout bounds the wait for the launcher, without the time that Fill takes. An engine takes half a second to start a
	// container; a busy machine took twenty.
	startTimeout = 60 * time.Second
	// teardownTimeout bounds the removal of a container.
	teardownTimeout = 30 * time.Second
)

func (d *Driver) start(ctx context.Context, spec driver.Spec) (_ driver.Sandbox, err error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if err := d.usable(spec); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s := &sandbox{driver: d, spec: spec, name: name(spec.ID), gone: make(chan struct{})}
	defer func() {
		if err != nil {
			if cause := context.Cause(ctx); cause != nil { // the caller's wish, and what has failed is how it ended
				err = cause
			}
			close(s.gone)
			err = errors.Join(err, s.discard())
		}
	}()
	if err := s.make(ctx); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if err := s.let(ctx); err != nil {
		return nil, err
	}
	s.run()
	return s, nil
}

// processors are as many as the program may see, those of this process if that is all of them, else some at random, so that sandboxes spread.
func processors(spec driver.Spec) (string, error) {
	n := int(math.Ceil(spec.CPUs))
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return "", fmt.Errorf("read processors: %w", err)
	}
	if n >= allowed.Count() {
		return "", nil
	}
	var all []string
	for cpu := range 1024 { // CPU_SETSIZE, sched_setaffinity(2)
		if allowed.IsSet(cpu) {
			all = append(all, strconv.Itoa(cpu))
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return strings.Join(all[:n], ","), nil
}

func (s *sandbox) trace(step string) {
	if s.spec.Trace != nil {
		s.spec.Trace(step, time.Now())
	}
}

// make makes the container, with a launcher in it that waits.
func (s *sandbox) make(ctx context.Context) error {
	d := s.driver
	id, err := d.imageOf(ctx, s.spec.Image)
	if err != nil {
		return err
	}
	s.trace("image is known to the engine")
	g, err := d.openGate(s.spec)
	if err != nil {
		return err
	}
	s.undo.Push(func(context.Context) error {
		if s.left { // by its directory a sweep knows that there is a container
			return g.shut()
		}
		return g.close()
	})
	program, err := d.launcher()
	if err != nil {
		return err
	}
	if s.reaper, err = launch.StartReaper(program, d.engine.socket, removal(s.name)); err != nil {
		return err
	}
	s.undo.Push(func(context.Context) error { return s.reaper.Dismiss() })

	var descriptors unix.Rlimit // the engine's is not less, and more than the own one nobody may give here
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &descriptors); err != nil {
		return fmt.Errorf("read resource limits: %w", err)
	}
	processors, err := processors(s.spec)
	if err != nil {
		return err
	}
	c, err := containerOf(s.spec, host{
		image: id, owner: d.owner, gate: g.dir, processors: runtime.NumCPU(), cpuset: processors, files: int64(min(descriptors.Max, files)), over: g.files,
	})
	if err != nil {
		return err
	}
	s.undo.Push(s.removeContainer) // also if it was only half made
	// A call that is given up may have its effect all the same, later: so the calls themselves are not cancelled.
	_, err = d.engine.create(context.WithoutCancel(ctx), s.name, c)
	if errors.Is(err, errNotFound) { // somebody has removed the image since it was looked for
		if c.Image, err = d.imageOf(ctx, s.spec.Image); err == nil {
			_, err = d.engine.create(context.WithoutCancel(ctx), s.name, c)
		}
	}
	if err != nil {
		if errors.Is(err, errConflict) {
			return fmt.Errorf("make container: there is one of the name %s already, which is not removed: %w", s.name, err)
		}
		return fmt.Errorf("make container: %w", err)
	}
	s.made = true
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s.trace("container is made")
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the launcher did not begin within %v", startTimeout))
	defer cancel()
	starting, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	started := make(chan error, 1)
	go func() {
		err := d.engine.start(context.WithoutCancel(ctx), s.name)
		if err != nil {
			fail(fmt.Errorf("start container: %w", err))
		}
		started <- err
	}()
	s.ruler, s.starter, err = g.meet(starting)
	if err != nil {
		fail(err)
		<-started
		return err
	}
	s.undo.PushFunc(func() { s.ruler.close() })
	s.undo.PushFunc(func() { s.starter.close() })
	s.undo.PushFunc(func() { <-started; started <- nil }) // its call has been answered
	if s.first, err = os.FindProcess(s.ruler.pid); err != nil {
		return fmt.Errorf("find the launcher: %w", err)
	}
	if err := s.reaper.Watch(s.ruler.pid); err != nil {
		return err
	}
	s.trace("launcher waits")
	return nil
}

// prepare opens what is in the container, and fills its workspace.
func (s *sandbox) prepare(ctx context.Context) (err error) {
	if s.groups, err = cgroup.Of(s.ruler.pid); err != nil {
		return fmt.Errorf("find the container's control groups: %w", err)
	}
	if !s.groups.Alone() {
		return errors.New("find the container's control groups: it shares them with silk")
	}
	if err := s.attach(); err != nil {
		return err
	}
	top := "/proc/" + strconv.Itoa(s.starter.pid) + "/root" // seen from here; nobody in the container can get another one
	if s.root, err = confine.OpenRoot(top); err != nil {
		return err
	}
	s.undo.PushFunc(func() { s.root.Close() })
	for _, dir := range []string{"/workspace", "/tmp", "/dev/shm"} {
		fd, err := s.root.At(dir, unix.O_PATH|unix.O_DIRECTORY)
		if errors.Is(err, unix.ENOENT) && s.spec.ReadOnly {
			continue
		}
		if err != nil {
			return fmt.Errorf("open %s: %w", dir, err)
		}
		s.places = append(s.places, writable{dir, fd})
		s.undo.PushFunc(func() { _ = unix.Close(fd) })
	}
	if s.workspace, err = confine.OpenWorkspace(top+"/workspace", s.spec.ReadOnly); err != nil { // it outlives the container; nothing of it is ever mounted here
		return err
	}
	s.undo.Push(func(context.Context) error { return s.workspace.Close() })
	if err := fill(s.workspace, s.spec.Fill); err != nil {
		return err
	}
	s.trace("workspace is filled")
	return context.Cause(ctx)
}

// let lets the program go, and returns when it runs, or when it is known that it cannot.
func (s *sandbox) let(ctx context.Context) (err error) {
	command, missing := s.root.LookUp(s.spec)
	if missing != nil {
		s.missing = missing
		return nil
	}
	plan, err := planOf(s.spec, command)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open null device: %w", err)
	}
	defer null.Close()
	streams, err := streamsOf(s.spec, null)
	if err != nil {
		return err
	}
	rules, err := confine.Ruleset(s.root, confine.Places(s.spec))
	if err != nil {
		return err
	}
	defer unix.Close(rules)
	s.trace("walls are made")
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the launcher did not go on within %v", startTimeout))
	defer cancel()
	s.workspace.Begun = time.Now()
	if s.scope, err = s.driver.config.Watch(ctx, s.starter.pid, release{s.starter, plan.Encode(), streams, rules}); err != nil {
		return fmt.Errorf("watch container: %w", err)
	}
	s.undo.Push(s.unwatch)
	s.trace("program is watched")
	return s.heard(ctx)
}

// heard waits for the starter's last words: the listener, and then none, because the program has its place.
func (s *sandbox) heard(ctx context.Context) error {
	for {
		what, step, number, listener, err := s.starter.receive(ctx)
		switch {
		case errors.Is(err, io.EOF) && s.supervisor != nil:
			s.trace("program runs")
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("the launcher ended before the program began")
		case err != nil:
			return fmt.Errorf("hear from the launcher: %w", err)
		case listener >= 0 && s.supervisor != nil:
			return errors.Join(errors.New("the launcher hands over a second listener"), unix.Close(listener))
		case listener >= 0:
			s.supervisor = confine.Supervise(confine.Supervision{
				Listener: listener, Root: s.root, Policy: confine.PolicyOf(s.spec), Forbidden: bpf.Forbidden, End: s.end, Refused: &s.refused,
			})
			s.undo.Push(func(context.Context) error { return s.supervisor.Close() })
		case what == launch.Failed && step == launch.StepExec:
			s.missing = confine.NotExecuted(s.spec.Args[0], syscall.Errno(number))
			return nil
		case what == launch.Failed:
			return fmt.Errorf("start the program: %s: %w", launch.Steps[min(step, launch.StepExec)], syscall.Errno(number))
		default:
			return fmt.Errorf("the launcher says %d before the program runs", what)
		}
	}
}

// discard gives back what the sandbox holds, the last one first. Processes that are left are ended with their container.
func (s *sandbox) discard() error {
	ctx, cancel := context.WithTimeout(context.Background(), teardownTimeout)
	defer cancel()
	err := s.undo.Run(ctx)
	if s.first != nil {
		err = errors.Join(err, s.first.Release())
	}
	return err
}

// removeContainer removes it and looks whether it is really empty.
func (s *sandbox) removeContainer(ctx context.Context) error {
	s.ruler.close() // lets it end
	if !s.made {    // the call failed, and may have had its effect all the same
		st, err := s.driver.engine.look(ctx, s.name)
		if errors.Is(err, errNotFound) || err == nil && (st.Config.Labels[labelOwner] != s.driver.owner || st.Config.Labels[labelRun] != s.spec.ID) {
			return s.emptied(ctx) // none, or another's
		}
	}
	err := s.driver.engine.remove(ctx, s.name)
	if err != nil { // it hangs, or is gone: the kernel ends what is left, and a sweep removes the rest
		s.left = s.made
		err = fmt.Errorf("remove container: %w", err)
	}
	return errors.Join(err, s.emptied(ctx))
}
