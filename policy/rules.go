package policy

import (
	"slices"

	"github.com/silk-sandbox/silk/profile"
)

// Enforcement is what every driver does about one kind of act while the program of a plan runs, before the act has an
// effect. It is for people to read; drivers have the rules themselves, and their conformance suite holds them to it.
type Enforcement struct {
	Rule string `json:"rule"` // class of rules in driver/rules; empty: the call fails and the run goes on
	What string `json:"what"`
}

// Enforced lists what ends a run of p, and what fails in it, the former first.
func Enforced(p Plan) []Enforcement {
	network := "creating an INET, INET6, PACKET, VSOCK or raw socket"
	var refused []Enforcement
	switch {
	case p.Egress != nil && p.Egress.OnRefused == profile.RefusedKills:
		network = "creating a PACKET, VSOCK or raw socket"
		refused = []Enforcement{{"egress.*", "looking up, connecting or sending to what the network does not allow"}}
	case p.Egress != nil:
		network = "creating a PACKET, VSOCK or raw socket"
		refused = []Enforcement{{"", "looking up, connecting or sending to what the network does not allow; UDP and ICMP"}}
	case p.Network != profile.NetworkDeny:
		network = "creating a PACKET, VSOCK or raw socket; connecting or sending to an address that is not loopback"
	}
	list := []Enforcement{
		{"network.*", network},
		{"file.*", "opening /etc/passwd, shadow, gshadow or sudoers, /root, /boot, the environment or memory of another process, kernel memory and logs, /sys beyond what runtimes need, host devices"},
		{"privilege.*", "mount, new namespaces and setns, becoming another user or group, raising capabilities, ptrace of a process that is no child, reading another process's memory, bpf, kernel modules, kexec, reboot"},
		{"", "files outside /workspace, /tmp, /dev/shm and the image's runtimes; writing anywhere else; executing files in /tmp and /dev/shm"},
		{"", "io_uring, perf, keyctl, userfaultfd, clock and host name changes, chroot, mknod, swapon, real-time priorities"},
	}
	list = slices.Concat(list, refused)
	if p.NoSpawn {
		list = append(list, Enforcement{"", "new processes and a second exec; threads may be created"})
	}
	return list
}
