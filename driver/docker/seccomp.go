package docker

import (
	"slices"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/rules"
)

// profile is a seccomp profile as the engine takes it (moby's seccomp.Seccomp).
type profile struct {
	DefaultAction   string         `json:"defaultAction"`
	DefaultErrnoRet uint           `json:"defaultErrnoRet"` // since version 23; an older engine answers EPERM
	Architectures   []string       `json:"architectures"`
	Syscalls        []syscallGroup `json:"syscalls"`
}

type syscallGroup struct {
	Names    []string     `json:"names"`
	Action   string       `json:"action"`
	ErrnoRet *uint        `json:"errnoRet,omitempty"`
	Args     []syscallArg `json:"args,omitempty"`
}

type syscallArg struct {
	Index    uint   `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

// Numbers of Linux on amd64, which the profile is for wherever it is written.
const (
	eperm, enosys, eafnosupport = 1, 38, 97
	afUnix, afInet, afInet6     = 1, 2, 10
	newAnything                 = 0x7e020000 // CLONE_NEW*, clone(2)
)

// seccompProfile is the engine's own wall around everything in the container, the launcher included, by the table of driver/rules: what
// is not named is refused, what the table is about is refused in its words, and sockets are limited to what the plan allows.
// The launcher's filter comes on top, and knows more: who may fork, which execve it is, and what has to end the sandbox. What that
// one asks silk about is let through here.
func seccompProfile(network driver.Network) profile {
	refused := map[string]uint{}
	for _, r := range rules.All() {
		if slices.Contains(letThrough, r.Name) {
			continue
		}
		for _, name := range r.Calls {
			if _, known := refused[name]; known {
				continue
			}
			refused[name] = eperm
			if r.Errno == "ENOSYS" {
				refused[name] = enosys
			}
		}
	}
	refused["memfd_create"] = enosys // what is executed lies in the image or in the workspace
	var free []string
	for name := range confine.Ordinary() {
		if _, no := refused[name]; !no {
			free = append(free, name)
		}
	}
	slices.Sort(free)
	p := profile{
		DefaultAction: "SCMP_ACT_ERRNO", DefaultErrnoRet: enosys, Architectures: []string{"SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"}, // the filter refuses the last two
		Syscalls: []syscallGroup{{Names: free, Action: "SCMP_ACT_ALLOW"}},
	}
	for _, errno := range []uint{eperm, enosys} {
		var names []string
		for name, n := range refused {
			if n == errno && !slices.Contains([]string{"clone", "unshare", "socket"}, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		p.Syscalls = append(p.Syscalls, syscallGroup{Names: names, Action: "SCMP_ACT_ERRNO", ErrnoRet: &errno})
	}
	// A process or a thread, in the namespaces that there are.
	p.Syscalls = append(p.Syscalls, allow("clone", syscallArg{0, newAnything, 0, "SCMP_CMP_MASKED_EQ"}), allow("unshare", syscallArg{0, newAnything | 0x80, 0, "SCMP_CMP_MASKED_EQ"}))
	families := []uint64{afUnix}
	if network != driver.NetworkDeny {
		families = append(families, afInet, afInet6)
	}
	for _, family := range families {
		p.Syscalls = append(p.Syscalls, allow("socket", syscallArg{0, family, 0, "SCMP_CMP_EQ"}))
	}
	return p
}

func allow(name string, args ...syscallArg) syscallGroup {
	return syscallGroup{Names: []string{name}, Action: "SCMP_ACT_ALLOW", Args: args}
}

// letThrough are rules that the launcher's filter holds and this profile cannot: it asks silk about the call, or lets the
// launcher itself do what the program may not, or leaves it to the kernel, which refuses it without capabilities.
var letThrough = []string{
	rules.NetworkOutside, rules.PrivilegeIdentity, rules.PrivilegeGroups, rules.PrivilegeCapset, rules.PrivilegeProcessVM, rules.ProcessSpawn,
	rules.SystemClock, rules.SystemNode, rules.SystemRealtime, rules.ResourceFallocate, rules.ResourceMincore,
}
