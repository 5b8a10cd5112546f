package docker

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/silk-sandbox/silk/driver"
)

// Explain is the command line of docker's client that comes nearest to a sandbox of spec, for people who check by hand what an engine is asked
// for: without the launcher, and so without what it does in the container - Landlock, the second filter, the rule against a second program - and
// without anybody who watches. dir is a directory of this host with what Fill would write. The seccomp profile is expected in the file seccomp.
func Explain(spec driver.Spec, image, dir, seccomp string) (args []string, profile []byte, err error) {
	const fewFiles = 1024 // which every engine may give; the driver gives what this process may have
	c, err := containerOf(spec, host{image: image, processors: runtime.NumCPU(), files: fewFiles})
	if err != nil {
		return nil, nil, err
	}
	h := c.HostConfig
	args = []string{
		"docker", "run", "--rm", "--network", h.NetworkMode, "--read-only", "--user", c.User, "--hostname", c.Hostname, "--workdir", spec.Dir,
		"--memory", strconv.FormatInt(h.Memory, 10), "--memory-swap", strconv.FormatInt(h.MemorySwap, 10), "--cpus", strconv.FormatFloat(float64(h.NanoCPUs)/1e9, 'g', -1, 64),
		"--pids-limit", strconv.FormatInt(h.PidsLimit, 10), "--ipc", h.IpcMode, "--log-driver", h.LogConfig.Type, "--pull", "never", "--init",
	}
	if h.ShmSize > 0 {
		args = append(args, "--shm-size", strconv.FormatInt(h.ShmSize, 10))
	}
	for _, drop := range h.CapDrop {
		args = append(args, "--cap-drop", drop)
	}
	for _, opt := range h.SecurityOpt {
		if text, ok := strings.CutPrefix(opt, "seccomp="); ok {
			profile = []byte(text)
			opt = "seccomp=" + seccomp
		}
		args = append(args, "--security-opt", opt)
	}
	for _, u := range h.Ulimits {
		args = append(args, "--ulimit", fmt.Sprintf("%s=%d:%d", u.Name, u.Soft, u.Hard))
	}
	args = append(args, "--tmpfs", "/tmp:"+h.Tmpfs["/tmp"])
	if spec.ReadOnly {
		args = append(args, "--volume", dir+":/workspace:ro")
	} else {
		args = append(args, "--tmpfs", "/workspace:"+h.Tmpfs["/workspace"])
	}
	for _, v := range spec.Env {
		args = append(args, "--env", v)
	}
	return slices.Concat(append(args, image), spec.Args), profile, nil
}
