package sentry

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/atomicbitops"
	"gvisor.dev/gvisor/pkg/hostarch"
	sentryrand "gvisor.dev/gvisor/pkg/rand"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/ktime"
	syscalls "gvisor.dev/gvisor/pkg/sentry/syscalls/linux"
	sentrytime "gvisor.dev/gvisor/pkg/sentry/time"

	"github.com/silk-sandbox/silk/driver"
)

// A deterministic run sees times and random numbers that follow from what it does, and from nothing else. Its clocks stand still while it
// computes. A clock moves on by a step whenever the first thread of a process looks at it, and all to the moment for which somebody has
// waited, when he has: a program that sleeps a second sleeps a second, and then sees that exactly one has gone by. The time of day has steps
// of its own, since runtimes with threads look at the other clock as chance has it. Other threads look without moving anything; but those
// that do nothing else would wait forever, so that they move the clocks as well, a thousand steps at each thousandth look.
//
// What a program can find out about the time all the same: the processor's own counter (RDTSC), the numbers in /proc/PID/stat, and
// the order in which several threads get on.

// uptime is the age of the kernel when a deterministic run starts: zero is a time that programs take for none.
const uptime = int64(time.Second)

// looks of threads that are not the first of their process move clocks on together.
const looks = 1000

// heldClock is the clock of the whole kernel. Safe for concurrent use.
type heldClock struct {
	boot, step int64           // nanoseconds
	waited     atomic.Int64    // since boot, but for looks
	looks      [2]atomic.Int64 // of first threads: at the time of day, and at all other clocks
	others     atomic.Int64    // looks of other threads
}

// index is that of looks at a clock.
func index(id sentrytime.ClockID) int {
	if id == sentrytime.Realtime {
		return 0
	}
	return 1
}

// since is the time since boot, as a clock shows it.
func (c *heldClock) since(id sentrytime.ClockID) int64 {
	return c.waited.Load() + c.step*c.looks[index(id)].Load()
}

// Update implements sentrytime.Clocks. Without parameters the vDSO makes a system call of each look.
func (*heldClock) Update(bool) sentrytime.UpdateResult { return sentrytime.UpdateResult{} }

// GetTime implements sentrytime.Clocks.
func (c *heldClock) GetTime(id sentrytime.ClockID) (int64, error) {
	if id == sentrytime.Realtime {
		return c.boot + c.since(id), nil
	}
	return c.since(id), nil
}

// MonotonicRawEnabled implements sentrytime.Clocks.
func (*heldClock) MonotonicRawEnabled() bool { return false }

// looked moves a clock on: t asks for its time.
func (c *heldClock) looked(t *kernel.Task, id sentrytime.ClockID) {
	switch {
	case t == t.ThreadGroup().Leader():
		c.looks[index(id)].Add(1)
	case c.others.Add(1)%looks == 0:
		c.waited.Add(looks * c.step)
	}
}

// reach moves all clocks on until one shows a moment since boot, if that is to come.
func (c *heldClock) reach(id sentrytime.ClockID, at int64) {
	at -= c.step * c.looks[index(id)].Load()
	for now := c.waited.Load(); now < at && !c.waited.CompareAndSwap(now, at); now = c.waited.Load() {
	}
}

// hold exchanges clocks and random numbers. No task has run yet.
func (b *box) hold(h driver.Held) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this gVisor's kernel.Timekeeper is not the one silk was written for: %v", r)
		}
	}()
	c := &heldClock{boot: h.ClockMs*int64(time.Millisecond) - uptime, step: h.StepNs}
	c.waited.Store(uptime)
	k := b.kernel()
	keeper := *field[*kernel.Timekeeper](k, "timekeeper")
	params := *field[*kernel.VDSOParamPage](keeper, "params")
	keeper.Pause() // until then its own goroutines look
	*field[sentrytime.Clocks](keeper, "clocks") = c
	*field[int64](keeper, "monotonicOffset") = 0
	field[atomicbitops.Int64](keeper, "monotonicLowerBound").Store(0)
	*field[ktime.Time](keeper, "bootTime") = ktime.FromNanoseconds(c.boot)
	keeper.Resume(params)

	realtime, monotonic := k.RealtimeClock(), k.MonotonicClock()
	due := func(clock ktime.SampledClock, at ktime.Time) {
		switch clock {
		case realtime:
			c.reach(sentrytime.Realtime, at.Nanoseconds()-c.boot)
		case monotonic:
			c.reach(sentrytime.Monotonic, at.Nanoseconds())
		}
	}
	timerDue.Store(&due)
	sentryrand.Reader = newSeeded(h.Seed) // nobody reads it before the first process is loaded
	c.install(syscalls.AMD64)
	return nil
}

// install lets the clock know who looks at it, and hides what a program has used: that is never the same.
func (c *heldClock) install(table *kernel.SyscallTable) {
	wrap := func(nr uintptr, with func(next kernel.SyscallFn) kernel.SyscallFn) {
		entry := table.Table[nr]
		entry.Fn = with(entry.Fn)
		table.Table[nr] = entry
	}
	day := func(next kernel.SyscallFn) kernel.SyscallFn {
		return func(t *kernel.Task, nr uintptr, a arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
			c.looked(t, sentrytime.Realtime)
			return next(t, nr, a)
		}
	}
	wrap(unix.SYS_TIME, day)
	wrap(unix.SYS_GETTIMEOFDAY, day)
	wrap(unix.SYS_CLOCK_GETTIME, func(next kernel.SyscallFn) kernel.SyscallFn {
		return func(t *kernel.Task, nr uintptr, a arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
			switch id := a[0].Int(); {
			case id == linux.CLOCK_REALTIME, id == linux.CLOCK_REALTIME_COARSE:
				c.looked(t, sentrytime.Realtime)
				return next(t, nr, a)
			case id < 0, id == linux.CLOCK_PROCESS_CPUTIME_ID, id == linux.CLOCK_THREAD_CPUTIME_ID:
				a[0].Value = linux.CLOCK_MONOTONIC // a processor's time is never the same
			}
			c.looked(t, sentrytime.Monotonic)
			return next(t, nr, a)
		}
	})
	wrap(unix.SYS_GETRUSAGE, hiding(1, sizeofRusage))
	wrap(unix.SYS_TIMES, hiding(0, sizeofTms))
	wrap(unix.SYS_WAIT4, hiding(3, sizeofRusage))
	wrap(unix.SYS_WAITID, hiding(4, sizeofRusage))
	table.Init()
}

// Sizes of struct rusage and struct tms: getrusage(2), times(2).
const (
	sizeofRusage = 144
	sizeofTms    = 32
)

// hiding lets a call happen and clears what it has written to the argument-th of its arguments, if that is given.
func hiding(argument, size int) func(kernel.SyscallFn) kernel.SyscallFn {
	return func(next kernel.SyscallFn) kernel.SyscallFn {
		return func(t *kernel.Task, nr uintptr, a arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
			n, control, err := next(t, nr, a)
			if to := a[argument].Pointer(); err == nil && to != hostarch.Addr(0) {
				if _, err := t.CopyOutBytes(to, make([]byte, size)); err != nil {
					return 0, nil, err
				}
			}
			return n, control, err
		}
	}
}

// seeded are random numbers that follow from a seed, in the place of the kernel's own: getrandom(2), /dev/urandom, what a process finds
// in AT_RANDOM, and where its memory lies. Safe for concurrent use.
type seeded struct {
	mu     sync.Mutex
	stream *rand.ChaCha8
}

func newSeeded(seed int64) *seeded {
	return &seeded{stream: rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "silk deterministic %d", seed)))}
}

// Read implements io.Reader. It never fails.
func (s *seeded) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Read(p)
}
