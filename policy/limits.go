package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/profile"
)

// minMemory is the least memory that may be asked for. No program of an image starts in less, and what says how a run
// ended counts in MiB.
const minMemory = 1 << 20

// minCPUs is the least share of a processor: the kernel takes no quota below 1 ms in its period of 100 ms
// (Documentation/scheduler/sched-bwc.rst).
const minCPUs = 0.01

// limits settles every number: what is asked for, else what the profile gives; at most what the profile allows, the
// owner's configuration grants, or the client may grant.
func (d *decision) limits() {
	asked, base := d.req.Limits, d.prof.Limits
	top := d.prof.Max.Or(base)
	granted := d.owner.Max

	l := &d.plan.Limits
	l.Timeout = settle(d, RuleTimeout, "timeout", asked.Timeout, base.Timeout, top.Timeout, granted.Timeout, profile.FormatTimeout)
	l.MemoryBytes = settle(d, RuleMemory, "memory", asked.MemoryBytes, base.MemoryBytes, top.MemoryBytes, granted.MemoryBytes, profile.FormatBytes)
	l.CPUs = settle(d, RuleCPUs, "cpus", asked.CPUs, base.CPUs, top.CPUs, granted.CPUs, formatFloat)
	l.Processes = settle(d, RuleProcesses, "processes", asked.Processes, base.Processes, top.Processes, granted.Processes, strconv.Itoa)
	l.WorkspaceBytes = settle(d, RuleDisk, "workspace", asked.WorkspaceBytes, base.WorkspaceBytes, top.WorkspaceBytes, granted.WorkspaceBytes, profile.FormatBytes)
	l.TmpBytes = settle(d, RuleDisk, "tmp", asked.TmpBytes, base.TmpBytes, top.TmpBytes, granted.TmpBytes, profile.FormatBytes)
	l.ShmBytes = settle(d, RuleDisk, "shm", asked.ShmBytes, base.ShmBytes, top.ShmBytes, granted.ShmBytes, profile.FormatBytes)
	l.OutputBytes = settle(d, RuleOutput, "output", asked.OutputBytes, base.OutputBytes, top.OutputBytes, granted.OutputBytes, profile.FormatBytes)

	if asked.MemoryBytes > 0 && asked.MemoryBytes < minMemory {
		d.fault("memory %s is too little; ask for at least %s", profile.FormatBytes(asked.MemoryBytes), profile.FormatBytes(minMemory))
	}
	if asked.CPUs > 0 && asked.CPUs < minCPUs {
		d.fault("cpus %s is too little; ask for at least %s", formatFloat(asked.CPUs), formatFloat(minCPUs))
	}
	if l.CPUs > profile.MaxCPUs {
		d.fault("cpus %s is more than %d", formatFloat(l.CPUs), profile.MaxCPUs)
	}
	if l.Processes > profile.MaxProcesses {
		d.fault("processes %d is more than %d", l.Processes, profile.MaxProcesses)
	}
	if d.plan.ReadOnly {
		l.ShmBytes = 0
	}
	if d.req.Deterministic {
		l.CPUs = min(l.CPUs, 1) // two processors order threads by chance
	}
}

// settle decides one number. Zero in asked means the profile's base; zero in granted means that the owner grants nothing.
func settle[T int | int64 | float64 | time.Duration](d *decision, rule, name string, asked, base, top, granted T, format func(T) string) T {
	switch {
	case !(asked >= 0): // NaN too
		d.fault("%s %s is negative", name, format(asked))
		return base
	case asked == 0:
		asked = base
	}
	if !(asked > 0) {
		d.fault("profile %s has no %s", d.prof.Name, name)
		return base
	}
	switch {
	case asked <= max(top, base):
	case asked <= granted:
		d.plan.Grants = append(d.plan.Grants, fmt.Sprintf("%s %s (config)", name, format(asked)))
	default:
		d.widen(rule, name+" "+format(asked), format(max(top, base, granted)))
	}
	return asked
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func list(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:len(items)-1], ", ") + " and " + items[len(items)-1]
}
