package docker

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/driver"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares what is written as JSON with a file.
func golden(t *testing.T, name string, value any) {
	t.Helper()
	got, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", path, diff)
	}
}

func TestSeccompProfile(t *testing.T) {
	golden(t, "seccomp-deny.json", seccompProfile(driver.NetworkDeny))
	golden(t, "seccomp-loopback.json", seccompProfile(driver.NetworkLoopback))
}

func spec() driver.Spec {
	return driver.Spec{
		ID: "01RUN", Args: []string{"true"}, Dir: "/workspace", Hostname: "silk", Network: driver.NetworkDeny, Trees: []string{"/usr"},
		MemoryBytes: 128 << 20, WorkspaceBytes: 256 << 20, TmpBytes: 64 << 20, ShmBytes: 64 << 20, Processes: 64, CPUs: 0.5,
	}
}

func TestContainer(t *testing.T) {
	of := host{image: "sha256:1", owner: "1-2-3-0", gate: "/run/silk/docker/x", processors: 2, cpuset: "1", files: 1024, over: map[string]string{"/etc/b": "/g/file1", "/etc/a": "/g/file0"}}
	lab := spec()
	skill := spec()
	skill.ReadOnly, skill.ShmBytes, skill.MemoryBytes, skill.CPUs = true, 0, 1<<20, 8
	for name, s := range map[string]driver.Spec{"container-lab.json": lab, "container-skill.json": skill} {
		c, err := containerOf(s, of)
		if err != nil {
			t.Fatal(err)
		}
		c.HostConfig.SecurityOpt[1] = "seccomp=(a file of its own)"
		golden(t, name, c)
	}
}

// TestMountsAreRefused: before the engine is asked for anything, with what to do.
func TestMountsAreRefused(t *testing.T) {
	d := &Driver{config: Config{Watch: func(context.Context, int, io.Writer) (Scope, error) { return nil, errors.New("it starts") }}}
	s := spec()
	s.Image, s.Stdout, s.Mounts = os.Stdin, os.Stdout, []driver.Mount{{Target: "/workspace/data", Image: os.Stdin}}
	_, err := d.Start(t.Context(), s)
	var unheld *driver.Unheld
	if !errors.As(err, &unheld) || unheld.Promise != "mounts" || !strings.Contains(unheld.Fix, "--dir") || !strings.Contains(unheld.Fix, "docker/silk") {
		t.Errorf("%v, want a refusal", err)
	}
}
