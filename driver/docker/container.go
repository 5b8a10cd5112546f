package docker

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/docker/launch"
)

// container is what the engine is asked for: the body of POST /containers/create, as far as it is not empty.
type container struct {
	Image      string // id
	Hostname   string
	User       string
	WorkingDir string
	Entrypoint []string
	Env        []string
	Labels     map[string]string
	HostConfig hostConfig
}

type hostConfig struct {
	Runtime        string `json:",omitempty"` // empty: the engine's own, runc
	NetworkMode    string
	ReadonlyRootfs bool
	Tmpfs          map[string]string
	Mounts         []bind
	Memory         int64
	MemorySwap     int64
	NanoCPUs       int64  `json:"NanoCpus"`
	CpusetCpus     string `json:",omitempty"`
	PidsLimit      int64
	CapDrop        []string
	SecurityOpt    []string
	IpcMode        string
	ShmSize        int64 `json:",omitempty"`
	Ulimits        []ulimit
	MaskedPaths    []string
	ReadonlyPaths  []string
	LogConfig      logConfig
	RestartPolicy  restartPolicy
	OomKillDisable bool
}

type bind struct {
	Type, Source, Target string
	ReadOnly             bool
	BindOptions          bindOptions
}

type bindOptions struct{ Propagation string }

type ulimit struct {
	Name       string
	Soft, Hard int64
}

type logConfig struct{ Type string }

type restartPolicy struct{ Name string }

// Labels of our containers.
const (
	labelRun   = "silk.run"   // the run's id
	labelOwner = "silk.owner" // the process that made it: see package cgroup
)

// name is the container's.
func name(run string) string { return "silk-" + run }

// minMemoryBytes is the least that an engine takes, linuxMinMemory of moby's daemon/daemon_unix.go.
const minMemoryBytes = 6 << 20

// host is what a container has of this machine.
type host struct {
	image      string // id
	owner      string
	gate       string            // directory with launcher and socket
	processors int               // that there are
	cpuset     string            // those that it may use; "": all
	files      int64             // descriptors that a process may have at most
	over       map[string]string // what lies over a file of the image: where it is here
}

// containerOf decides everything about a container. It does no I/O, and is the same for the same arguments.
func containerOf(spec driver.Spec, h host) (container, error) {
	profile, err := json.Marshal(seccompProfile(spec.Network))
	if err != nil {
		return container{}, fmt.Errorf("write seccomp profile: %w", err)
	}
	memory := max(spec.MemoryBytes, minMemoryBytes)
	if !spec.ReadOnly { // its pages are counted with the rest, and are no memory of the program's
		memory += spec.WorkspaceBytes
	}
	cpus := min(spec.CPUs, float64(h.processors))
	c := container{
		Image: h.image, Hostname: spec.Hostname,
		User:       fmt.Sprintf("%d:%d", confine.User, confine.User),
		WorkingDir: "/",
		Entrypoint: []string{launch.Dir + "/launch"},
		Env:        []string{}, // the program has its own, which the launcher brings
		Labels:     map[string]string{labelRun: spec.ID, labelOwner: h.owner},
		HostConfig: hostConfig{
			NetworkMode:    "none",
			ReadonlyRootfs: true,
			Tmpfs: map[string]string{
				"/tmp":       fmt.Sprintf("rw,noexec,nosuid,nodev,size=%d,mode=1777", spec.TmpBytes),
				"/workspace": fmt.Sprintf("rw,exec,nosuid,nodev,size=%d,mode=0755,uid=%d,gid=%d", spec.WorkspaceBytes, confine.User, confine.User),
			},
			Mounts:        []bind{{"bind", h.gate, launch.Dir, true, bindOptions{"private"}}},
			Memory:        memory,
			MemorySwap:    memory, // together: no swap
			NanoCPUs:      int64(math.Round(cpus * 1e9)),
			CpusetCpus:    h.cpuset,
			PidsLimit:     int64(spec.Processes) + 1, // process 1
			CapDrop:       []string{"ALL"},
			SecurityOpt:   []string{"no-new-privileges", "seccomp=" + string(profile)},
			IpcMode:       "private",
			ShmSize:       spec.ShmBytes, // mounted noexec,nosuid,nodev
			Ulimits:       []ulimit{{"core", 0, 0}, {"memlock", 64 << 10, 64 << 10}, {"nofile", min(files, h.files), min(files, h.files)}},
			MaskedPaths:   maskedPaths,
			ReadonlyPaths: readonlyPaths,
			LogConfig:     logConfig{"none"},
			RestartPolicy: restartPolicy{"no"},
		},
	}
	if spec.ReadOnly {
		c.HostConfig.IpcMode, c.HostConfig.ShmSize = "none", 0
		c.HostConfig.Tmpfs["/workspace"] = "rw,exec,nosuid,nodev,size=" + strconv.FormatInt(spec.WorkspaceBytes, 10) + ",mode=0755,uid=0,gid=0"
	}
	var targets []string
	for target := range h.over {
		targets = append(targets, target)
	}
	slices.Sort(targets)
	for _, target := range targets {
		c.HostConfig.Mounts = append(c.HostConfig.Mounts, bind{"bind", h.over[target], target, true, bindOptions{"private"}})
	}
	return c, nil
}

// files is how many descriptors a process may have, as in the sandboxes of the gvisor driver.
const files = 1 << 16

// maskedPaths are covered with nothing, and readonlyPaths cannot be written to: what the engine's own lists have, and the files of
// /proc that driver/rules forbids. That they are forbidden is seen when one is opened; this holds without anybody's looking.
var (
	maskedPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg",
		"/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger",
		"/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware", "/sys/fs/cgroup", "/sys/kernel/debug", "/sys/kernel/tracing",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"}
)
