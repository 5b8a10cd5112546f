package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func hostAttacks() map[string]attack {
	return map[string]attack{
		"environment": environment,
		"host-name":   hostName,
		"who":         who,
		"processes":   processes,
		"grep":        grep,
		"exists":      exists,
		"addresses":   addresses,
		"processors":  processors,
	}
}

// environment looks for a variable of the host.
func environment(args []string) {
	reached()
	own, err := os.ReadFile("/proc/self/environ")
	must("read the own environment", err)
	for _, entry := range append(os.Environ(), strings.Split(string(own), "\x00")...) {
		if strings.HasPrefix(entry, args[0]) {
			effect("the environment has", args[0])
			return
		}
	}
	answer(nil)
}

// hostName compares the name of the machine with the host's.
func hostName(args []string) {
	var uts unix.Utsname
	reached()
	must("ask for the name", unix.Uname(&uts))
	if name := unix.ByteSliceToString(uts.Nodename[:]); name == args[0] {
		effect("the host's name is", name)
		return
	}
	answer(nil)
}

// who says whether it is root, or has a group of root's.
func who([]string) {
	reached()
	if unix.Getuid() == 0 || unix.Geteuid() == 0 || unix.Getgid() == 0 || unix.Getegid() == 0 {
		effect("root:", quote([]byte(ids())))
		return
	}
	more, err := unix.Getgroups()
	must("ask for the groups", err)
	for _, id := range more {
		if id != unix.Getgid() {
			effect("member of group", strconv.Itoa(id))
			return
		}
	}
	answer(nil)
}

// processes lists the processes that it can see: itself and whatever reaps orphans.
func processes([]string) {
	var seen []string
	reached()
	for _, name := range names("/proc") {
		if name[0] >= '1' && name[0] <= '9' {
			seen = append(seen, name)
		}
	}
	if len(seen) > 3 {
		effect(strconv.Itoa(len(seen)), "processes can be seen:", quote([]byte(strings.Join(seen, " "))))
		return
	}
	answer(nil)
}

// grep looks for a text of the host's in files that may be read.
func grep(args []string) {
	reached()
	for _, name := range args[1:] {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if bytes.Contains(b, []byte(args[0])) {
			effect(name, "has", strconv.Quote(args[0]))
			return
		}
	}
	answer(nil)
}

// exists looks for a file of the host's by its path there.
func exists(args []string) {
	var st unix.Stat_t
	reached()
	if err := unix.Lstat(args[0], &st); err != nil {
		answer(err)
		return
	}
	effect(args[0], "is there")
}

// addresses looks for a network device other than the loopback.
func addresses([]string) {
	reached()
	for _, line := range lines("/proc/net/dev") {
		name, _, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok && name != "lo" {
			effect("there is a network device", name)
			return
		}
	}
	answer(nil)
}

// processors counts those that it may use.
func processors(args []string) {
	var set unix.CPUSet
	reached()
	must("ask for processors", unix.SchedGetaffinity(0, &set))
	if set.Count() > number(args[0]) {
		effect(strconv.Itoa(set.Count()), "processors")
		return
	}
	answer(nil)
}
