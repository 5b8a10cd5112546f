package main

import (
	"bufio"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/internal/embedded"
)

// hostFacts are what the kernel says of itself (proc(5), cgroups(7), user_namespaces(7)).
func hostFacts() []fact {
	return []fact{linuxFact(), usernsFact(), cgroupFact()}
}

func linuxFact() fact {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return fact{"kernel", factUnknown, err.Error()}
	}
	return fact{"kernel", factYes, "Linux " + strings.TrimSpace(string(release))}
}

func usernsFact() fact {
	const name = "user namespaces"
	for _, s := range []struct{ file, bad, text string }{
		{"/proc/sys/user/max_user_namespaces", "0", "switched off: sysctl user.max_user_namespaces=15000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "kept from ordinary users: sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "restricted by AppArmor: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile for silk"},
	} {
		if os.Geteuid() == 0 && s.file != "/proc/sys/user/max_user_namespaces" {
			continue // for ordinary users only
		}
		if v, err := os.ReadFile(s.file); err == nil && strings.TrimSpace(string(v)) == s.bad {
			return fact{name, factFatal, s.text}
		}
	}
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		return fact{name, factFatal, "this kernel has none"}
	}
	return fact{name, factYes, "may be made"}
}

// cgroupFact says which control groups are mounted and whether memory can be limited by them.
func cgroupFact() fact {
	const name = "control groups"
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fact{name, factUnknown, err.Error()}
	}
	defer f.Close()
	var v1 []string
	v2 := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mount, rest, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		kind := strings.Fields(rest)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		switch kind[0] {
		case "cgroup2":
			v2 = fields[4]
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				if slices.Contains([]string{"memory", "pids", "cpu"}, option) {
					v1 = append(v1, option)
				}
			}
		}
	}
	slices.Sort(v1)
	const otherwise = "; memory is watched by silk itself, processes are limited in the sandbox"
	if v2 != "" {
		controllers, err := os.ReadFile(v2 + "/cgroup.controllers")
		if err == nil && strings.Contains(string(controllers), "memory") {
			return fact{name, factYes, fmt.Sprintf("v2 on %s: %s", v2, strings.TrimSpace(string(controllers)))}
		}
	}
	switch {
	case slices.Contains(v1, "memory"):
		return fact{name, factYes, "v1: " + strings.Join(slices.Compact(v1), " ")}
	case v2 != "" || len(v1) > 0:
		return fact{name, factNo, "mounted without the memory controller" + otherwise}
	}
	return fact{name, factNo, "not mounted" + otherwise}
}

// carriedFact says which executable of silk's is used: gVisor's version and the file's digest. without is how bad it is not to have it.
func carriedFact(e embedded.Executable, home, explicit string, without factState) fact {
	name := e.What
	path, err := e.Locate(explicit, home)
	if err != nil {
		return fact{name, without, err.Error()}
	}
	f, err := os.Open(path)
	if err != nil {
		return fact{name, without, err.Error()}
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return fact{name, without, err.Error()}
	}
	text := path + " sha256:" + hex.EncodeToString(hash.Sum(nil))
	if info, err := buildinfo.Read(f); err == nil {
		for _, dep := range info.Deps {
			if dep.Path == "gvisor.dev/gvisor" {
				text = "gVisor " + dep.Version + " in " + text
			}
		}
	}
	return fact{name, factYes, text}
}
