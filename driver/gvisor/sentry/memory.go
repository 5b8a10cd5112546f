package sentry

import (
	"runtime/metrics"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/abi/linux"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
)

// memoryWatch ends the sandbox when its memory goes beyond the limit. It is exact where a cgroup is not: it counts the
// guest's pages (anonymous, /tmp, /dev/shm) and what the guest makes the Sentry's own heap grow by, goroutines included
// (there is one for each thread and each timer), but neither /workspace, which has a quota of its own, nor the Sentry.
type memoryWatch struct {
	exceeded atomic.Bool
	peak     atomic.Int64
}

const (
	// The time between samples is what the guest would need to fill the rest of its memory, within these bounds. One (an fstat and a
	// statfs inside the Sentry) costs microseconds, but waking up for it 40: every 5 ms that was 1 % of a program that only computes.
	minInterval = 5 * time.Millisecond
	maxInterval = 25 * time.Millisecond

	// fillRate is what one processor touches at most in a second, in bytes: a loop that writes to one byte of each page was measured at
	// 0.8 GiB.
	fillRate = 2 << 30

	// killPatience is how long a killed sandbox may take to end: an ordinary one takes less than 10 ms, more where
	// many run at once.
	killPatience = 200 * time.Millisecond

	// heapAllowance is what the Sentry's Go heap and stacks need for itself: measured at 20 MiB after a start and 80 MiB
	// with 64 processes of Python.
	heapAllowance = 128 << 20

	// forkAllowance is for each process beside the first: where a forked process writes to one page, the Sentry copies
	// up to 2 MiB around it (hugepageAligned in gVisor's pkg/sentry/mm), which is not the program's doing.
	forkAllowance = 2 << 20
)

// watch starts the watching goroutine, which lives as long as the process.
func (m *memoryWatch) watch(b *box) {
	heap := newHeapSample()
	limit := b.req.MemoryBytes
	go func() {
		cores := b.kernel().ApplicationCores()
		again := time.NewTimer(0)
		defer again.Stop()
		for over := 0; ; {
			<-again.C
			total := m.sample(b, heap)
			if total <= limit || total <= limit+forkAllowance*b.forked() {
				over = 0
				again.Reset(sampleAfter(limit-total, cores))
			} else if over++; over > 1 || total > limit+limit/4 { // freed pages are given back a moment later: look twice
				m.exceeded.Store(true)
				b.kernel().Kill(linux.WaitStatusTerminationSignal(linux.SIGKILL))
				m.end(b)
				return
			} else {
				again.Reset(minInterval)
			}
		}
	}()
}

func (m *memoryWatch) sample(b *box, heap heapSample) int64 {
	used, err := b.kernel().MemoryFile().TotalUsage()
	if err != nil {
		panic("memory of the sandbox cannot be read: " + err.Error()) // fail closed
	}
	total := int64(used) - b.ws.usedBytes() + max(0, heap.bytes()-heapAllowance)
	for peak := m.peak.Load(); total > peak && !m.peak.CompareAndSwap(peak, total); peak = m.peak.Load() {
	}
	return total
}

// last looks at what is left when the last process has ended, which may have been before the next sample: files in memory. What a process had is
// given back a moment later.
func (m *memoryWatch) last(b *box) {
	heap := newHeapSample()
	if m.sample(b, heap) <= b.req.MemoryBytes {
		return
	}
	<-time.After(minInterval)
	if m.sample(b, heap) > b.req.MemoryBytes {
		m.exceeded.Store(true)
	}
}

// sampleAfter is how long a guest with so many cores needs at least for the bytes that are left to it.
func sampleAfter(left int64, cores uint) time.Duration {
	need := time.Duration(float64(left) / fillRate / float64(max(1, cores)) * float64(time.Second))
	return min(max(need, minInterval), maxInterval)
}

// heapSample measures what this process's Go heap takes and the stacks of its goroutines, at the cost of microseconds.
type heapSample []metrics.Sample

func newHeapSample() heapSample {
	return heapSample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
}

func (h heapSample) bytes() (total int64) {
	metrics.Read(h)
	for _, s := range h {
		total += int64(s.Value.Uint64())
	}
	return total
}

// end ends this process if the kill does not end the sandbox soon: a task inside a system call that takes ever more
// memory is not interrupted by it. The workspace is lost then.
func (m *memoryWatch) end(b *box) {
	select {
	case <-b.over:
	case <-time.After(killPatience):
		b.guard.last(wire.Message{
			Kind: wire.Exit, Status: uint32(linux.SIGKILL), OOM: true, Flags: b.guard.flags(), Processes: b.guard.processes.Load(),
			PeakBytes: m.peak.Load(), DrainErr: "the sandbox ended for want of memory, its workspace with it",
		})
	}
}

// forked counts the processes beside init and the program.
func (b *box) forked() int64 {
	return int64(max(0, len(b.kernel().RootPIDNamespace().ThreadGroups())-2))
}
