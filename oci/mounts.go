package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/silk-sandbox/silk/policy"
)

// Files that engines bind into every container and that lie over the image here. Of the one silk reads what is a file of hosts, of the
// other nothing: the spec has the name. A resolver is none of them: what answers names in a sandbox, if anything, is silk's gateway.
const (
	hostsFile    = "/etc/hosts"
	hostnameFile = "/etc/hostname"
)

// unneeded are places that engines mount something on, and that are a sandbox's own or of no use in it.
var unneeded = []string{"/etc/resolv.conf", "/dev/termination-log", "/dev/console", "/etc/mtab"}

// mounts sorts the mounts of the spec: what the sandbox has itself, what is laid over the image, what is copied in, and what is
// refused.
func (t *translation) mounts() {
	for _, m := range t.spec.Mounts {
		to := path.Clean(m.Destination)
		bound := m.Type == "bind" || slices.ContainsFunc(m.Options, func(o string) bool { return o == "bind" || o == "rbind" })
		switch {
		case !path.IsAbs(to):
			t.fault("mount destination %q is not an absolute path", m.Destination)
		case to == "/dev/shm":
			t.sized(&t.Limits.ShmBytes, m)
		case bound && to == hostsFile:
			t.Hosts = filepath.Clean(m.Source)
		case bound && to == hostnameFile:
			t.hostname()
		case bound && (slices.Contains(unneeded, to) || to == initProgram):
		case bound:
			t.bind(m, to)
		default:
			t.special(m, to)
		}
	}
}

// hostname puts the container's name where programs look for it.
func (t *translation) hostname() {
	if name := t.spec.Hostname; isHostName(name) && name != "" && len(t.Request.Overlays) == 0 {
		text := []byte(name + "\n")
		sum := sha256.Sum256(text)
		t.Request.Overlays = []policy.Overlay{{Path: hostnameFile, Bytes: text, SHA256: hex.EncodeToString(sum[:])}}
	}
}

// bind is a directory of the host.
func (t *translation) bind(m specs.Mount, to string) {
	switch {
	case to == policy.Workspace && (slices.Contains(m.Options, "ro") || slices.Contains(m.Options, "rro")):
		t.Request.Dir = filepath.Clean(m.Source)
		t.note("%s is copied into %s; what is written there is gone with the container", m.Source, policy.Workspace)
	case to != policy.Workspace && !strings.HasPrefix(to, policy.Workspace+"/"):
		t.deny(policy.RuleMount, "mount it read-only (:ro) on or below "+policy.Workspace+"; if nobody has asked for it, the image has a VOLUME there", "%s is to be mounted on %s, and the host's files are only ever seen in %s", m.Source, to, policy.Workspace)
	case !slices.Contains(m.Options, "ro") && !slices.Contains(m.Options, "rro"):
		t.deny(policy.RuleMount, "mount it read-only (:ro)", "%s is to be mounted on %s to be written to, and a sandbox has a copy", m.Source, to)
	default:
		t.Request.Mounts = append(t.Request.Mounts, policy.Mount{Source: filepath.Clean(m.Source), Target: to})
	}
}

// special is a file system that no directory of the host stands behind.
func (t *translation) special(m specs.Mount, to string) {
	switch {
	case m.Type == "proc", m.Type == "sysfs", m.Type == "devpts", m.Type == "mqueue", m.Type == "cgroup", m.Type == "cgroup2", to == "/dev":
	case m.Type == "tmpfs" && to == "/tmp":
		t.sized(&t.Limits.TmpBytes, m)
	case m.Type == "tmpfs" && (to == "/run" || to == "/var/run"): // some engines give one to every container
		t.note("%s is not writable", to)
	case m.Type == "tmpfs":
		t.deny(policy.RuleMount, "use /tmp, which is one", "a tmpfs is asked for on %s, and a program writes to /workspace, /tmp and /dev/shm only", to)
	default:
		t.deny(policy.RuleMount, "leave it out", "a file system of type %q is asked for on %s", m.Type, to)
	}
}

// sized takes the size of a tmpfs as a limit, in tmpfs(5)'s words; a percentage is of no known memory and says nothing.
func (t *translation) sized(limit *int64, m specs.Mount) {
	for _, o := range m.Options {
		text, ok := strings.CutPrefix(o, "size=")
		if !ok || strings.HasSuffix(text, "%") {
			continue
		}
		shift := 0
		if n := len(text); n > 0 {
			if i := strings.IndexByte("kmg", text[n-1]|0x20); i >= 0 {
				shift, text = 10*(i+1), text[:n-1]
			}
		}
		size, err := strconv.ParseInt(text, 10, 64)
		if err != nil || size < 0 || size > 1<<62>>shift {
			t.fault("mount %s has the size %q", m.Destination, o)
			continue
		}
		if size > 0 {
			*limit = least(*limit, size<<shift)
		}
	}
}
