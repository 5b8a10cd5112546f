//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/firecracker"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// machines is what virtual machines by QEMU take.
type machines struct {
	notes   []string // of the host: with KVM, or by emulation
	agent   int64    // size of the agent's executable, in bytes
	kernels []booted // Debian's first; empty: not measured

	// flowBytes through stdout, with the last of the kernels: CPU time of the VMM, of everything else, and the whole time.
	flowVMM, flowOwn, flowWall time.Duration
}

// booted is what machines with one kernel took: medians, and for the boot the fastest and the slowest.
type booted struct {
	kernel          string // tag of its image
	size            int64  // of kernel and modules, in bytes
	boot, low, high time.Duration
	vmm, own        time.Duration // CPU time: of the VMM until the agent's first word, and of everything else on the host in the whole run
}

// kernels are the tags of what machines boot: Debian's kernel, and that of `make kernel`.
var kernels = []string{image.KernelTag, "kernel:minimal"}

// measureMachines boots machines, the kernels taking turns. A host that lacks something for it has none.
func measureMachines(ctx context.Context, cfg config) (m machines, err error) {
	store, err := image.Open(image.Config{Home: cfg.images()})
	if err != nil {
		return m, err
	}
	info, err := os.Stat(cfg.agent)
	if err != nil {
		progress("virtual machines are not measured: %v", err)
		return m, nil
	}
	m.agent = info.Size()
	home, err := os.MkdirTemp("", "silk-bench-machines-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	var drivers []*firecracker.Driver
	for _, tag := range kernels {
		d := firecracker.New(firecracker.Config{Home: home, Images: store, Kernel: tag, QEMU: cfg.qemu, Agent: cfg.agent})
		if why := d.Usable(); why != nil {
			progress("virtual machines with %s are not measured: %v", tag, why)
			continue
		}
		size, err := kernelSize(ctx, store, tag)
		if err != nil {
			return m, err
		}
		drivers, m.kernels = append(drivers, d), append(m.kernels, booted{kernel: tag, size: size})
	}
	if len(drivers) == 0 {
		return m, nil
	}
	if m.notes, err = drivers[0].Probe(ctx, driver.Spec{Network: driver.NetworkDeny}); err != nil {
		return m, err
	}
	boots, vmms, owns := make([][]float64, len(drivers)), make([][]float64, len(drivers)), make([][]float64, len(drivers))
	for round := range cfg.n + 1 { // the first one unpacks kernels
		for turn := range drivers {
			i := (turn + round) % len(drivers)
			s, err := bootOnce(ctx, drivers[i], store, startPrograms[0])
			if err != nil {
				return m, fmt.Errorf("a machine with %s: %w", m.kernels[i].kernel, err)
			}
			progress("%s: %v, VMM %v, silk %v", m.kernels[i].kernel, s.boot, s.bootCPU, s.own)
			if round > 0 {
				boots[i], vmms[i], owns[i] = append(boots[i], float64(s.boot)), append(vmms[i], float64(s.bootCPU)), append(owns[i], float64(s.own))
			}
		}
	}
	for i := range m.kernels {
		k := &m.kernels[i]
		k.low, k.high = time.Duration(slices.Min(boots[i])), time.Duration(slices.Max(boots[i]))
		k.boot, k.vmm, k.own = time.Duration(median(boots[i])), time.Duration(median(vmms[i])), time.Duration(median(owns[i]))
	}
	flow := program{"100 MB", "lab:text", []string{"head", "-c", fmt.Sprint(flowBytes), "/dev/zero"}, ""}
	start := time.Now()
	s, err := bootOnce(ctx, drivers[len(drivers)-1], store, flow)
	m.flowVMM, m.flowOwn, m.flowWall = s.vmm, s.own, time.Since(start)
	return m, err
}

// ofMachine is one run in a machine.
type ofMachine struct {
	boot         time.Duration // by the guest's clock
	bootCPU, vmm time.Duration // CPU time of the VMM, until the agent's first word and at the end
	own          time.Duration // and of everything else
}

// bootOnce runs p in a machine.
func bootOnce(ctx context.Context, d *firecracker.Driver, store *image.Store, p program) (s ofMachine, err error) {
	before, err := ownCPU()
	if err != nil {
		return s, err
	}
	var began, called time.Time
	var ticksErr error
	var reading time.Duration // CPU time of looking at the VMM's
	_, exit, err := drive(ctx, d, store, p, func(step string, at time.Time) {
		switch step {
		case firecracker.TraceKernel:
			began = at
		case firecracker.TraceAgent:
			called = at
			own, ownErr := ownCPU()
			below, belowErr := descendants(os.Getpid()) // no other child of this process runs
			ticks, err := cpuTicks(below)
			s.bootCPU = time.Duration(ticks) * time.Second / ticksPerSecond
			after, afterErr := ownCPU()
			reading, ticksErr = after-own, errors.Join(ownErr, belowErr, err, afterErr)
		}
	})
	after, ownErr := ownCPU()
	s.boot, s.vmm, s.own = called.Sub(began), exit.Usage.CPU, after-before-reading
	return s, errors.Join(err, ticksErr, ownErr)
}

// ticksPerSecond is USER_HZ of Linux on x86-64, proc(5).
const ticksPerSecond = 100

// kernelSize is what a kernel and its modules have, in bytes.
func kernelSize(ctx context.Context, store *image.Store, tag string) (size int64, err error) {
	img, err := store.Resolve(tag)
	if err != nil {
		return 0, err
	}
	tree, err := store.Tree(ctx, img, image.TreeConfig{})
	if err != nil {
		return 0, err
	}
	for e := range tree.All() {
		if name := strings.TrimPrefix(e.Path, "/"); name == image.KernelFile || path.Dir(name) == image.KernelModules {
			size += e.Size
		}
	}
	return size, tree.Close()
}

const machinesHead = "## Virtual machines"

func (r report) writeMachines(b *strings.Builder) {
	m := r.machines
	if len(m.kernels) == 0 {
		return
	}
	fmt.Fprintf(b, "%s\n\n`--driver qemu`, %s, Linux %s, load %s when it began: %s.\n\n", machinesHead, r.date, r.machine.kernel, r.machine.load, strings.Join(m.notes, "; "))
	fmt.Fprintf(b, "`true` in lab:text, by turns with each kernel (`kernel` is Debian's for clouds, `kernel:minimal` that of `make kernel`); median of %d. Boot is from the start of the kernel's\n"+
		"clock to the agent's first word, by the guest's own clock, fastest to slowest in parentheses; the VMM's CPU time is that from its start to there, with what no clock of the guest's counts.\n"+
		"silk's CPU time is everything on the host but the VMM, in the whole run.\n\n", r.n)
	b.WriteString("| kernel | size, MiB | boot, ms | x Debian's | VMM's CPU, ms | x Debian's | silk's CPU, ms |\n|---|---:|---:|---:|---:|---:|---:|\n")
	for _, k := range m.kernels {
		fmt.Fprintf(b, "| %s | %.1f | %.0f (%.0f-%.0f) | %s | %.0f | %s | %.1f |\n", k.kernel, mib(k.size), ms(k.boot), ms(k.low), ms(k.high),
			ratio(k.boot, m.kernels[0].boot), ms(k.vmm), ratio(k.vmm, m.kernels[0].vmm), ms(k.own))
	}
	fmt.Fprintf(b, "\n100 MB through stdout, start included, once: %.1f s, of which the VMM computed %.1f s and silk %.2f s.\n\n", m.flowWall.Seconds(), m.flowVMM.Seconds(), m.flowOwn.Seconds())
	writeTargets(b, m.targets())
}

func (m machines) targets() []target {
	first, last := m.kernels[0], m.kernels[len(m.kernels)-1]
	all := []target{
		{"the agent's executable", 3, mib(m.agent), " MiB"},
		{"silk's own CPU time of a run in a machine", 30, ms(last.own), " ms"},
		{"silk's own CPU time of 100 MB through stdout, x the VMM's", 1, over(m.flowOwn, m.flowVMM), ""},
	}
	if first.kernel == image.KernelTag && last.kernel != image.KernelTag {
		all = append(all,
			target{"boot of the minimal kernel by the guest's clock, x Debian's", 0.5, over(last.boot, first.boot), ""},
			target{"CPU time of the VMM until there, x Debian's", 0.5, over(last.vmm, first.vmm), ""})
	}
	return all
}

// insertMachines measures virtual machines and puts that section in place of the one that the page has.
func (r report) insertMachines(ctx context.Context, cfg config) (err error) {
	if r.machines, err = measureMachines(ctx, cfg); err != nil {
		return err
	}
	if len(r.machines.kernels) == 0 {
		return errors.New("virtual machines were not measured")
	}
	var section strings.Builder
	r.writeMachines(&section)
	page, err := os.ReadFile(cfg.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.Write(cfg.out, []byte(replaceSection(string(page), section.String())), 0o644)
}

// replaceSection puts a section in the place of the one of that heading, or at the page's end.
func replaceSection(page, section string) string {
	section = strings.TrimRight(section, "\n") + "\n"
	heading, _, _ := strings.Cut(section, "\n")
	before, rest, found := strings.Cut(page, heading+"\n")
	if !found {
		return strings.TrimRight(page, "\n") + "\n\n" + section
	}
	if _, after, more := strings.Cut(rest, "\n## "); more {
		return before + section + "\n## " + after
	}
	return before + section
}
