package selftest

import "github.com/silk-sandbox/silk/driver/rules"

// agents are what a virtual machine has beside the program: an agent, which is process 1, and its way to the host. A sandbox that is none has none of it,
// and the same answers.
func agents() []Row {
	gone, unknown := behind(kernel("ENOENT", notThere)), behind(kernel("EAFNOSUPPORT", noFamily))
	const anothers = "EACCES|ENOENT|EPERM"
	return class(
		"the agent of a virtual machine", rules.FileDevice, gone,
		Row{Name: "the host, where the agent calls it", Rule: rules.NetworkVsock, Attack: do("call-machine", "2", "1024"), Behind: unknown},
		Row{Name: "the machine itself, from a child", Rule: rules.NetworkVsock, Attack: do("in-child", "call-machine", "1", "1024"), Behind: unknown},
		Row{Name: "the address of the machine", Attack: do("open", "rdonly", "/dev/vsock")},
		Row{Name: "a channel to the host", Attack: do("open", "rdwr", "/dev/vport0p1")},
		Row{Name: "a console of the hypervisor", Attack: do("open", "wronly", "/dev/hvc0")},
		Row{Name: "the serial line", Attack: do("open", "wronly", "/dev/ttyS0")},
		Row{Name: "random numbers of the host", Attack: do("open", "rdonly", "/dev/hwrng")},
		Row{Name: "descriptors of process 1", Attack: do("list", "/proc/1/fd"), Want: Want{Errno: anothers}},
		Row{Name: "the root of process 1", Attack: do("list", "/proc/1/root/"), Want: Want{Errno: anothers}},
		Row{Name: "descriptors of one's own, which is ordinary", Attack: do("list", "/proc/self/fd"), Want: Want{Effect: true}},
	)
}
