// Package api speaks to one Firecracker process over its API socket: what a machine is made of, and the word to start it. It knows the part of
// the API that a machine of one run needs: processors and memory, what it boots, read-only drives, a vsock device, entropy.
// There are no network devices, no snapshots, no metadata service, and nothing that changes a machine that runs.
//
// A [Machine] is a value, and [Machine.Calls] the requests that make it, in order: the last one starts it. Package schema says what
// each may look like; the tests hold every request against it, and so does the double in tests/fakefirecracker.
//
// Nobody in a machine can reach the socket. What comes back is still read with bounds, since the VMM is the first thing that a guest
// would take over.
package api

// Machine is what a machine is made of.
type Machine struct {
	Config  Config
	Boot    BootSource
	Drives  []Drive
	Vsock   Vsock
	Entropy Entropy
}

// Config is its size.
type Config struct {
	VCPUs     int  `json:"vcpu_count"` // 1, or an even number, 32 at most
	MemoryMiB int  `json:"mem_size_mib"`
	SMT       bool `json:"smt"` // two processors of the guest's share a core: never
}

// BootSource is what it boots. Paths here and below are the VMM's own, in its jail.
type BootSource struct {
	Kernel  string `json:"kernel_image_path"` // ELF
	Initial string `json:"initrd_path,omitempty"`
	Args    string `json:"boot_args,omitempty"`
}

// Drive is a block device.
type Drive struct {
	ID       string       `json:"drive_id"`
	Path     string       `json:"path_on_host"`
	Root     bool         `json:"is_root_device"` // the kernel mounts it: not where there is an initial file system
	ReadOnly bool         `json:"is_read_only"`
	Limiter  *RateLimiter `json:"rate_limiter,omitempty"`
}

// Vsock is the vsock(7) device. A call of the guest's to a port becomes one to the Unix socket Path_PORT, if somebody listens there.
type Vsock struct {
	CID  uint32 `json:"guest_cid"`
	Path string `json:"uds_path"`
}

// Entropy is the source of random numbers.
type Entropy struct {
	Limiter *RateLimiter `json:"rate_limiter,omitempty"`
}

// RateLimiter bounds what a device does, in bytes and in operations.
type RateLimiter struct {
	Bandwidth *Bucket `json:"bandwidth,omitempty"`
	Ops       *Bucket `json:"ops,omitempty"`
}

// Bucket has Size tokens when it is full, and is filled anew, from empty, in RefillMs.
type Bucket struct {
	Size     int64 `json:"size"`
	RefillMs int64 `json:"refill_time"`
}

// Call is one request.
type Call struct {
	Method, Path string
	Body         any // as JSON; nil: none
}

// Calls are the requests that make the machine and start it. None can be left out, and none comes after the last.
func (m Machine) Calls() []Call {
	calls := []Call{put("/machine-config", m.Config), put("/boot-source", m.Boot)}
	for _, d := range m.Drives {
		calls = append(calls, put("/drives/"+d.ID, d))
	}
	calls = append(calls, put("/vsock", m.Vsock), put("/entropy", m.Entropy))
	return append(calls, put("/actions", action{"InstanceStart"}))
}

type action struct {
	Type string `json:"action_type"`
}

func put(path string, body any) Call { return Call{"PUT", path, body} }
