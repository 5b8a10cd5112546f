package sentry

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor/wire"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/watch"
)

// guard is silk's policy inside the sandbox's own kernel: the table of driver/rules, enforced. It replaces entries of the
// system call table before any task exists; each decision is made before the call has an effect. The first program is
// started by the Sentry and does not pass through the table, so "no second exec" simply refuses execve.
//
// A rule that is about a call whatever its arguments needs no code of its own. The others stand in files.go, exec.go,
// network.go, process.go, privilege.go and output.go.
type guard struct {
	report func(wire.Message) // set before the kernel runs

	network   driver.Network
	noSpawn   bool
	trees     []string // of the image, which programs may read
	quick     []string // those of them that quickTrees names
	box       *box
	ended     atomic.Bool // the last message is being said
	processes atomic.Int64

	pidsLimit, tmpFull, diskFull atomic.Int64
	refused                      refusals
	events                       events
	judgesExecutables            atomic.Bool // the loader has asked once
}

type (
	args = arch.SyscallArguments

	// call is one system call on its way.
	call struct {
		task  *kernel.Task
		name  string
		kind  wire.EventKind // of its event
		place wire.Call
		nr    uintptr
		args  args
		next  kernel.SyscallFn
	}

	// rule handles a call: it refuses it, ends the sandbox, or lets it go on.
	rule func(*call) (uintptr, *kernel.SyscallControl, error)
)

// proceed lets the call happen.
func (c *call) proceed() (uintptr, *kernel.SyscallControl, error) {
	return c.next(c.task, c.nr, c.args)
}

// install puts the guard into table. It must run before the first task does. It returns the names of the rules that are
// in force, for the engine to compare with its own table.
func (g *guard) install(table *kernel.SyscallTable) ([]string, error) {
	handlers := map[string]rule{}
	for _, some := range []map[string]rule{g.fileCalls(), g.listingCalls(), g.execCalls(), g.networkCalls(), g.processCalls(), g.privilegeCalls(), g.outputCalls()} {
		for name, handler := range some {
			if handlers[name] != nil {
				return nil, fmt.Errorf("install policy: %s has two handlers", name)
			}
			handlers[name] = handler
		}
	}
	var names []string
	for _, r := range rules.All() {
		names = append(names, r.Name)
		if r.Errno != "" && errnos[r.Errno] == nil {
			return nil, fmt.Errorf("install policy: rule %s has an unknown errno %s", r.Name, r.Errno)
		}
		for _, name := range r.Calls {
			if handlers[name] == nil {
				handlers[name] = g.flat(r)
			}
		}
	}
	for name, handler := range handlers {
		nr, ok := numbers[name]
		if !ok {
			return nil, fmt.Errorf("install policy: no number is known of %s", name)
		}
		entry := table.Table[nr]
		next := entry.Fn
		if next == nil {
			next = func(*kernel.Task, uintptr, args) (uintptr, *kernel.SyscallControl, error) {
				return 0, nil, linuxerr.ENOSYS
			}
		}
		kind, ok := kinds[name]
		if !ok {
			kind = eventDenied
		}
		place := wire.CallOf(name)
		entry.Name = name
		entry.Fn = func(t *kernel.Task, nr uintptr, a args) (uintptr, *kernel.SyscallControl, error) {
			return handler(&call{task: t, name: name, kind: kind, place: place, nr: nr, args: a, next: next})
		}
		table.Table[nr] = entry
	}
	table.Init()
	return names, nil
}

// flat is the handler of a rule that is about calls whatever their arguments.
func (g *guard) flat(r rules.Rule) rule {
	return func(c *call) (uintptr, *kernel.SyscallControl, error) {
		switch {
		case !g.on(r.Name):
			return c.proceed()
		case r.Action == rules.Kill:
			return g.violate(c, r.Name, c.names())
		}
		return 0, nil, g.refuse(c, r.Name, c.names())
	}
}

// named are the arguments that are text, of calls that a rule is about whatever their arguments.
var named = map[string][]int{
	"mount": {0, 1, 2}, "umount2": {0}, "pivot_root": {0, 1}, "fsopen": {0}, "fspick": {1}, "open_tree": {1}, "move_mount": {1, 3}, "mount_setattr": {1},
	"chroot": {0}, "swapon": {0}, "swapoff": {0}, "acct": {0}, "add_key": {0, 1}, "request_key": {0, 1}, "delete_module": {0},
}

// names are the arguments of a call that are text, for people: nothing is decided on them.
func (c *call) names() string {
	var names []string
	for _, i := range named[c.name] {
		if name, err := c.task.CopyInString(c.args[i].Pointer(), linux.PATH_MAX); err == nil {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// configure sets what the run asks for.
func (g *guard) configure(b *box) {
	g.box, g.network, g.noSpawn, g.trees = b, b.req.Network, b.req.NoSpawn, b.req.Trees
	g.quick = quickTrees(g.trees)
}

func (g *guard) flags() driver.Flags {
	return driver.Flags{PidsLimitHit: g.pidsLimit.Load(), TmpFull: g.tmpFull.Load(), DiskFull: g.diskFull.Load()}
}

// violate ends the sandbox: the engine learns of it on a channel that the guest cannot write to, then this process -
// every task, every thread, the whole kernel - exits, before the call has had an effect.
func (g *guard) violate(c *call, rule, argument string) (uintptr, *kernel.SyscallControl, error) {
	g.events.add(c.task, c.kind, c.place, argument, wire.Killed)
	g.last(wire.Message{
		Kind: wire.Violation, Violation: &driver.Violation{Rule: rule, Syscall: c.name, Argument: watch.Printable(argument)},
		Flags: g.flags(), Refused: g.refused.list(), Processes: g.processes.Load(), PeakBytes: g.box.memory.peak.Load(),
	})
	return 0, nil, linuxerr.EPERM // not reached
}

// last says the last message and ends the process. Only the first of several callers has its say; none returns.
func (g *guard) last(m wire.Message) {
	if g.ended.CompareAndSwap(false, true) {
		g.report(m)
		os.Exit(0)
	}
	select {}
}
