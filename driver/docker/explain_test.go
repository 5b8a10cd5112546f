package docker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/driver"
)

// TestExplain: each restriction of the container is a flag.
func TestExplain(t *testing.T) {
	spec := driver.Spec{
		ID: "x", Args: []string{"python3", "/workspace/a b.py"}, Env: []string{"A=b c"}, Dir: "/workspace", Hostname: "silk", Network: driver.NetworkDeny, ReadOnly: true, NoSpawn: true,
		MemoryBytes: 128 << 20, WorkspaceBytes: 256 << 20, TmpBytes: 64 << 20, Processes: 64, CPUs: 0.5,
	}
	args, profile, err := Explain(spec, "lab:python", "/srv/skill", "seccomp.json")
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(args, "\x00")
	for _, want := range [][]string{
		{"--network", "none"},
		{"--read-only"},
		{"--user", "1000:1000"},
		{"--memory", "134217728"},
		{"--memory-swap", "134217728"},
		{"--cpus", "0.5"},
		{"--pids-limit", "65"},
		{"--ipc", "none"},
		{"--cap-drop", "ALL"},
		{"--security-opt", "no-new-privileges"},
		{"--security-opt", "seccomp=seccomp.json"},
		{"--ulimit", "core=0:0"},
		{"--tmpfs", "/tmp:rw,noexec,nosuid,nodev,size=67108864,mode=1777"},
		{"--volume", "/srv/skill:/workspace:ro"},
		{"--env", "A=b c"},
		{"lab:python", "python3", "/workspace/a b.py"},
	} {
		if !strings.Contains(line, strings.Join(want, "\x00")) {
			t.Errorf("%q has no %q", args, want)
		}
	}
	var p map[string]any
	if err := json.Unmarshal(profile, &p); err != nil || p["defaultAction"] == nil {
		t.Errorf("profile %.80s, %v", profile, err)
	}
	spec.ReadOnly, spec.ShmBytes = false, 64<<20
	args, _, err = Explain(spec, "lab:python", "/srv/skill", "seccomp.json")
	if err != nil || slices.Contains(args, "--volume") || !slices.Contains(args, "--shm-size") {
		t.Errorf("%q, %v", args, err)
	}
}
