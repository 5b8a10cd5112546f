//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// report is everything that was measured.
type report struct {
	date     string
	n        int
	machine  machine
	all      []contender // those that are missing included
	starts   []comparison
	warm     []comparison
	service  []comparison
	latency  []latencies
	viewers  viewed
	lists    []listed
	flows    []flowed
	single   []crowded
	crowds   []crowded
	inside   []comparison
	networks []networked
	idleWay  int64 // bytes
	overhead []paired
	machines machines
	trace    string // what silk run --trace-start says
}

const reportHead = `# Benchmarks

` + "`make bench`" + ` wrote this page; ` + "`bench`" + ` is the program. All figures come from one invocation on one machine, the
contenders take turns, and what counts are ratios of medians: an absolute number says little about another machine.
The programs are the same files for all, those of silk's lab images. Contenders with limits have those of silk's profiles:
512 MiB, 64 processes, one processor.

`

// write renders the page.
func (r report) write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(reportHead)
	fmt.Fprintf(&b, "%s, on %s\n\n", r.date, r.machine)
	r.writeContenders(&b)
	fmt.Fprintf(&b, "## Cold start\n\nRequest to exit status, nothing started before; median of %d, fastest to slowest in parentheses. CPU is user and\n"+
		"system time of the process and everything below it.\n\n", r.n)
	for _, c := range r.starts {
		writeStarts(&b, c)
	}
	if len(r.warm) > 0 {
		b.WriteString("## Warm start\n\nInside a process that lives on: a sandbox kernel that was started before the request, has seen no code, no input and\n" +
			"no image write, and serves this one run. Its CPU time includes that start. runc ran in the same rounds.\n\n")
		for _, c := range r.warm {
			writeStarts(&b, c)
		}
	}
	r.writeService(&b)
	r.writeTargets(&b)
	if r.trace != "" {
		fmt.Fprintf(&b, "## Where a cold start's time goes\n\n`silk run --trace-start -p lab:text -- true`, one run:\n\n```\n%s\n```\n\n", strings.TrimRight(r.trace, "\n"))
	}
	fmt.Fprintf(&b, "## Output\n\n%d MB through stdout, start included; median of %d.\n\n| | MB/s | peak memory of the first process |\n|---|---:|---:|\n", flowBytes/1_000_000, insideRounds)
	for _, f := range r.flows {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f MiB |\n", f.contender, f.rate/1e6, mib(f.peak))
	}
	b.WriteString("\n## Memory and many at once\n\nProportional set size of all processes of an idle sandbox (`sleep`), and the time until the last program has printed its\nfirst word.\n\n| | at once | PSS each | all ready after |\n|---|---:|---:|---:|\n")
	for _, c := range append(r.single, r.crowds...) {
		fmt.Fprintf(&b, "| %s | %d | %.1f MiB | %.2f s |\n", c.contender, c.count, mib(c.pss), c.ready.Seconds())
	}
	if len(r.inside) > 0 {
		r.writeInside(&b)
	}
	b.WriteString("\n")
	r.writeNetwork(&b)
	r.writeOverhead(&b)
	r.writeMachines(&b)
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

func (r report) writeContenders(b *strings.Builder) {
	b.WriteString("| | How it isolates |\n|---|---|\n")
	for _, c := range r.all {
		if c.missing == nil {
			fmt.Fprintf(b, "| %s | %s |\n", c.name, c.what)
		} else {
			fmt.Fprintf(b, "| %s | not measured: %s |\n", c.name, strings.ReplaceAll(c.missing.Error(), "\n", "; "))
		}
	}
	b.WriteString("\n")
}

func writeStarts(b *strings.Builder, c comparison) {
	fmt.Fprintf(b, "%s in %s:\n\n| | wall, ms | x runc | x runsc | CPU, ms | x runc |\n|---|---:|---:|---:|---:|---:|\n", c.program.title, c.program.tag)
	runc, runsc := c.of("runc"), c.of("runsc")
	for _, f := range c.rows {
		fmt.Fprintf(b, "| %s | %.0f (%.0f-%.0f) | %s | %s | %s | %s |\n", f.contender, ms(f.wall), ms(f.low), ms(f.high),
			ratio(f.wall, runc.wall), ratio(f.wall, runsc.wall), cpuText(f.cpu), ratio(f.cpu, runc.cpu))
	}
	b.WriteString("\n")
}

func (r report) writeInside(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Inside\n\nHow long programs say they took, in ms, start not included; median of %d.\n\n| |", insideRounds)
	for _, f := range r.inside[0].rows {
		fmt.Fprintf(b, " %s |", f.contender)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(r.inside[0].rows)) + "\n")
	for _, c := range r.inside {
		fmt.Fprintf(b, "| %s |", c.program.title)
		for _, f := range c.rows {
			fmt.Fprintf(b, " %.0f |", ms(f.wall))
		}
		b.WriteString("\n")
	}
}

// target is a promise about a ratio, or about an amount per sandbox.
type target struct {
	text  string
	limit float64
	got   float64 // 0: not measured
	unit  string
}

func (r report) targets() []target {
	find := func(list []comparison, title string) comparison {
		for _, c := range list {
			if c.program.title == title {
				return c
			}
		}
		return comparison{}
	}
	cold := find(r.starts, startPrograms[0].title)
	warmTrue, warmPython := find(r.warm, startPrograms[0].title), find(r.warm, startPrograms[1].title)
	all := []target{
		{"cold `true`, wall, x runsc", 0.4, over(cold.of("silk").wall, cold.of("runsc").wall), ""},
		{"cold `true`, wall, x runsc without limits", 0.4, over(cold.of("silk").wall, cold.of(unlimited).wall), ""},
		{"cold `true`, wall, x runc", 1.4, over(cold.of("silk").wall, cold.of("runc").wall), ""},
		{"cold `true`, CPU, x runc", 1.25, over(cold.of("silk").cpu, cold.of("runc").cpu), ""},
		{"warm `true`, wall, x runc", 0.4, over(warmTrue.of("silk, warm").wall, warmTrue.of("runc").wall), ""},
		{"warm Python, wall, x runc", 0.9, over(warmPython.of("silk, warm").wall, warmPython.of("runc").wall), ""},
	}
	for _, p := range startPrograms[:2] {
		if c := find(r.starts, p.title); c.of(inDocker).wall > 0 && c.of("docker").wall > 0 {
			all = append(all, target{fmt.Sprintf("cold %s in a container of Docker, wall, x `docker run`", p.title), 1.1, over(c.of(inDocker).wall, c.of("docker").wall), ""})
		}
	}
	served := find(r.service, startPrograms[0].title)
	all = append(all, target{"service, request to exit, `true`, x runc", 0.5, over(served.of(serviceName).wall, served.of("runc").wall), ""})
	for _, l := range r.latency {
		if l.what == serviceName {
			all = append(all, target{fmt.Sprintf("a line's way to a client, %d at once, p50, x plain", l.streams), 2, over(l.at(0.5), r.halfway(barest, l.streams)), ""})
		}
	}
	if r.viewers.memory > 0 {
		all = append(all, target{fmt.Sprintf("memory of the service with %d viewers of one run", viewers), 200, mib(r.viewers.memory), " MiB"})
	}
	if r.viewers.cat > 0 {
		all = append(all, target{"100 MB into `cat` by the service, time, x `silk run`", 2, over(r.viewers.streamed, r.viewers.cat), ""})
	}
	for _, l := range r.lists {
		all = append(all, target{fmt.Sprintf("%d runs listed (%s), x the bare query", l.runs, l.what), 3, over(l.service, l.bare), ""})
	}
	var silk, runsc flowed
	for _, f := range r.flows {
		switch f.contender {
		case "silk":
			silk = f
		case "runsc":
			runsc = f
		}
	}
	if silk.rate > 0 && runsc.rate > 0 {
		all = append(all, target{"100 MB through stdout, time, x runsc", 1 / 0.8, runsc.rate / silk.rate, ""})
	}
	all = append(all, target{"memory of `silk` meanwhile", 64, mib(silk.peak), " MiB"})
	for _, c := range r.crowds {
		if c.contender == "silk" {
			all = append(all, target{fmt.Sprintf("PSS of each of %d at once", c.count), 20, mib(c.pss), " MiB"})
		}
	}
	return append(all, r.networkTargets()...)
}

func (r report) writeTargets(b *strings.Builder) {
	b.WriteString("## Targets\n\n")
	writeTargets(b, r.targets())
}

func writeTargets(b *strings.Builder, targets []target) {
	b.WriteString("| | at most | measured | |\n|---|---:|---:|---|\n")
	for _, t := range targets {
		got, verdict := "-", "not measured"
		if t.got > 0 {
			got, verdict = fmt.Sprintf("%.2f%s", t.got, t.unit), "met"
			if t.got > t.limit {
				verdict = "**missed**"
			}
		}
		fmt.Fprintf(b, "| %s | %.2f%s | %s | %s |\n", t.text, t.limit, t.unit, got, verdict)
	}
	b.WriteString("\n")
}

// of returns the figures of one contender; zero if it was not measured.
func (c comparison) of(name string) figures {
	for _, f := range c.rows {
		if f.contender == name {
			return f
		}
	}
	return figures{}
}

func ratio(a, b time.Duration) string {
	if r := over(a, b); r > 0 {
		return fmt.Sprintf("%.2f", r)
	}
	return "-"
}

func over(a, b time.Duration) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func cpuText(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", ms(d))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
