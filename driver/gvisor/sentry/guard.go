package sentry

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"unicode"

	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor/wire"
)

// guard is silk's policy inside the sandbox's own kernel. It replaces entries of the system call table before any task
// exists; each decision is made before the call has an effect. The first program is started by the Sentry and does not
// pass through the table, so "no second exec" simply refuses execve.
//
// The rule files (files.go, network.go, process.go, privilege.go, output.go) each replace the calls they are about.
type guard struct {
	report func(wire.Message) // set before the kernel runs

	network   driver.Network
	noSpawn   bool
	box       *box
	ended     atomic.Bool // the last message is being said
	processes atomic.Int64

	pidsLimit, tmpFull, diskFull, filesRefused, spawnsRefused atomic.Int64
}

type (
	args = arch.SyscallArguments

	// call is one system call on its way.
	call struct {
		task *kernel.Task
		name string
		nr   uintptr
		args args
		next kernel.SyscallFn
	}

	// rule handles a call: it refuses it, ends the sandbox, or lets it go on.
	rule func(*call) (uintptr, *kernel.SyscallControl, error)
)

// proceed lets the call happen.
func (c *call) proceed() (uintptr, *kernel.SyscallControl, error) {
	return c.next(c.task, c.nr, c.args)
}

// Names of rules, as they stand in outcomes, records and docs/threat-model.md.
const (
	ruleNetwork   = "network"
	ruleFile      = "file"
	rulePrivilege = "privilege"
)

// install puts the guard's rules into table. It must run before the first task does.
func (g *guard) install(table *kernel.SyscallTable) {
	for _, rules := range []map[uintptr]rule{g.fileRules(), g.networkRules(), g.processRules(), g.privilegeRules(), g.outputRules()} {
		for nr, r := range rules {
			entry, ok := table.Table[nr]
			if !ok {
				entry = kernel.Syscall{Name: fmt.Sprintf("sys_%d", nr), Fn: func(*kernel.Task, uintptr, args) (uintptr, *kernel.SyscallControl, error) {
					return 0, nil, linuxerr.ENOSYS
				}}
			}
			next, name := entry.Fn, entry.Name
			entry.Fn = func(t *kernel.Task, nr uintptr, a args) (uintptr, *kernel.SyscallControl, error) {
				return r(&call{task: t, name: name, nr: nr, args: a, next: next})
			}
			table.Table[nr] = entry
		}
	}
	table.Init()
}

// configure sets what the run asks for.
func (g *guard) configure(b *box) {
	g.box, g.network, g.noSpawn = b, b.req.Network, b.req.NoSpawn
}

func (g *guard) flags() driver.Flags {
	return driver.Flags{
		PidsLimitHit: g.pidsLimit.Load(), TmpFull: g.tmpFull.Load(), DiskFull: g.diskFull.Load(),
		FilesRefused: g.filesRefused.Load(), SpawnsRefused: g.spawnsRefused.Load(),
	}
}

// violate ends the sandbox: the engine learns of it on a channel that the guest cannot write to, then this process -
// every task, every thread, the whole kernel - exits, before the call has had an effect.
func (g *guard) violate(c *call, rule, argument string) (uintptr, *kernel.SyscallControl, error) {
	g.last(wire.Message{
		Kind: wire.Violation, Violation: &driver.Violation{Rule: rule, Syscall: c.name, Argument: printable(argument)},
		Flags: g.flags(), Processes: g.processes.Load(), PeakBytes: g.box.memory.peak.Load(),
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

// printable makes text that came from the guest fit for a record: no control characters, at most 4096 bytes.
func printable(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, s)
	if len(s) > 4096 {
		s = strings.ToValidUTF8(s[:4093], "") + "..."
	}
	return s
}

// fatal is a rule that ends the sandbox whatever the arguments.
func (g *guard) fatal(name string) rule {
	return func(c *call) (uintptr, *kernel.SyscallControl, error) { return g.violate(c, name, "") }
}

// refuse is a rule that answers with an error; the run goes on.
func refuse(err error) rule {
	return func(*call) (uintptr, *kernel.SyscallControl, error) { return 0, nil, err }
}
