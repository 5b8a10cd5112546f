package oci

import (
	"math"

	"github.com/silk-sandbox/silk/profile"
)

// resources takes the limits of the spec that are a sandbox's own; the rest is about the host.
func (t *translation) resources() {
	r := t.spec.Linux.Resources
	if r == nil {
		return
	}
	if m := r.Memory; m != nil {
		if m.Limit != nil && *m.Limit > 0 {
			t.Limits.MemoryBytes = least(t.Limits.MemoryBytes, *m.Limit)
		}
		if m.DisableOOMKiller != nil && *m.DisableOOMKiller {
			t.deny(RuleRuntime, "leave --oom-kill-disable out", "a container that stands still when its memory is used up is asked for")
		}
	}
	if c := r.CPU; c != nil {
		if c.Quota != nil && *c.Quota > 0 && c.Period != nil && *c.Period > 0 {
			share := float64(*c.Quota) / float64(*c.Period)
			t.Limits.CPUs = least(t.Limits.CPUs, math.Max(0.01, math.Round(share*1000)/1000))
		}
		if c.Cpus != "" || c.Mems != "" {
			t.note("the processors and memory nodes of the spec (cpuset) are not kept to")
		}
	}
	if p := r.Pids; p != nil && p.Limit > 0 {
		t.Limits.Processes = least(t.Limits.Processes, int(min(p.Limit, profile.MaxProcesses)))
	}
	if b := r.BlockIO; b != nil && (b.Weight != nil && *b.Weight > 0 || len(b.WeightDevice)+len(b.ThrottleReadBpsDevice)+len(b.ThrottleWriteBpsDevice)+len(b.ThrottleReadIOPSDevice)+len(b.ThrottleWriteIOPSDevice) > 0) {
		t.note("limits on block devices are for nothing: a sandbox has none")
	}
	if len(r.Unified) > 0 {
		t.note("settings of control groups by name (unified) are not made")
	}
}
