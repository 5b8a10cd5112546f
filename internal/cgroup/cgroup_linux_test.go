package cgroup

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func find(t *testing.T) *Root {
	t.Helper()
	r, err := Find()
	if err != nil {
		unavailable(t, err)
	}
	return r
}

// unavailable ends a test of what this host does not offer; the limits are then held otherwise. Who requires root, as testenv has it, has a host with
// groups. It is not asked itself, because it imports this package.
func unavailable(t *testing.T, why error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("SILK_TEST_REQUIRE"), ","), "root") {
		t.Fatal(why)
	}
	t.Skip(why)
}

func TestGroupLimitsAndRemoval(t *testing.T) {
	r := find(t)
	g, err := r.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Limit(Limits{MemoryBytes: 64 << 20, CPUs: 0.5, Processes: 10}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if n, err := g.OOMKills(); n != 0 || err != nil {
		t.Errorf("OOMKills() = %d, %v, want 0", n, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if err := g.Remove(context.Background()); err != nil { // kills the process
		t.Fatal(err)
	}
	<-done
	for _, dir := range g.dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
}

// TestTwoRoots: drivers of one process that have found the place each for itself do not get in each other's way.
func TestTwoRoots(t *testing.T) {
	for _, r := range []*Root{find(t), find(t)} {
		g, err := r.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := g.Remove(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSweepRemovesOnlyGroupsOfTheDead(t *testing.T) {
	r := find(t)
	mine, err := r.New()
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Remove(context.Background())
	dead := &Root{Version: r.Version, dirs: r.dirs, self: maker{r.self.namespace, 1 << 22, 1}}
	left, err := dead.New()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := &Root{Version: r.Version, dirs: r.dirs, self: maker{r.self.namespace + 1, 1 << 22, 1}}
	foreign, err := elsewhere.New()
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Remove(context.Background())
	dirs, err := r.Leftovers()
	if err != nil || !slices.Contains(dirs, left.dirs[0]) || slices.Contains(dirs, mine.dirs[0]) || slices.Contains(dirs, foreign.dirs[0]) {
		t.Errorf("leftovers are %v, %v, want %s", dirs, err, left.dirs[0])
	}
	if err := r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left.dirs[0]); err == nil {
		t.Errorf("the group of a dead silk is still there")
	}
	if _, err := os.Stat(mine.dirs[0]); err != nil {
		t.Errorf("the group of a living silk is gone: %v", err)
	}
	if _, err := os.Stat(foreign.dirs[0]); err != nil {
		t.Errorf("a group from another PID namespace is gone: %v", err)
	}
}

// TestSweepLooksIntoOtherSessions: a version 1 group is left where its maker was, which need not be where we are.
func TestSweepLooksIntoOtherSessions(t *testing.T) {
	top := t.TempDir()
	self, err := current()
	if err != nil {
		t.Fatal(err)
	}
	dead := maker{self.namespace, 1 << 22, 1}
	left, lives := filepath.Join(top, "other", dead.name(1)), filepath.Join(top, "other", self.name(1))
	for _, dir := range []string{left, lives, filepath.Join(top, "own")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := &Root{Version: 1, self: self, dirs: map[string]string{}, mounts: map[string]mount{}}
	for _, c := range controllers {
		r.dirs[c], r.mounts[c] = filepath.Join(top, "own"), mount{"/", top}
	}
	if err := r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the group of a dead silk in another session is still there")
	}
	if _, err := os.Stat(lives); err != nil {
		t.Errorf("the group of a living silk in another session is gone: %v", err)
	}
}

func TestNames(t *testing.T) {
	m := maker{4026531836, 42, 777}
	if got, ok := parseName(m.name(3)); !ok || got != m {
		t.Errorf("parseName(%q) = %v, %v", m.name(3), got, ok)
	}
	for _, name := range []string{"silk", "silk-", "silk-1-a-1-2", "silk-1-2-3", "silk-1-2-3-4-5", "other-1-2-3-4", "silk-1-0-1-1", "silk-1--1-1-1", "silk--1-1-1-1"} {
		if _, ok := parseName(name); ok {
			t.Errorf("parseName(%q) took a name that is not ours", name)
		}
	}
}

func TestReadMounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mountinfo")
	text := strings.Join([]string{
		"30 25 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw",
		"31 25 0:27 /docker/x /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory",
		"32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
	}, "\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readMounts(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]mount{"": {"/", "/sys/fs/cgroup/unified"}, "memory": {"/docker/x", "/sys/fs/cgroup/memory"}, "cpu": {"/", "/sys/fs/cgroup/cpu,cpuacct"}, "cpuacct": {"/", "/sys/fs/cgroup/cpu,cpuacct"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(mount{})); d != "" {
		t.Error(d)
	}
	for path, want := range map[string]bool{"/docker/x/y": true, "/docker/x": true, "/elsewhere": false, "/../x": false} {
		if _, ok := got["memory"].exact(path); ok != want {
			t.Errorf("exact(%q) is known: %t, want %t", path, ok, want)
		}
	}
	if dir, ok := (mount{"/..", "/sys/fs/cgroup/memory"}).exact("/"); ok {
		t.Errorf("a group is %s where more than our namespace is mounted", dir)
	}
	for path, want := range map[string]string{"/docker/x/y": "/sys/fs/cgroup/memory/y", "/docker/x": "/sys/fs/cgroup/memory", "/elsewhere": "/sys/fs/cgroup/memory", "/../x": "/sys/fs/cgroup/memory"} {
		if got := got["memory"].dir(path); got != want {
			t.Errorf("dir(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestOfAnother(t *testing.T) {
	self, err := current()
	if err != nil {
		t.Fatal(err)
	}
	parent, err := StartTime(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		group string
		want  bool
	}{
		{"our own", self.name(1), false},
		{"of a process that lives", maker{self.namespace, os.Getppid(), parent}.name(1), true},
		{"of a process that is gone", maker{self.namespace, os.Getppid(), parent + 1}.name(1), false},
		{"of another PID namespace", maker{self.namespace + 1, 1, 1}.name(1), true},
		{"not one of ours", "system.slice", false},
	} {
		if got := OfAnother(test.group); got != test.want {
			t.Errorf("%s: OfAnother(%q) = %t, want %t", test.name, test.group, got, test.want)
		}
	}
}

func TestCPUTime(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name, file, text string
		version          int
		want             time.Duration
		ok               bool
	}{
		{"version 2", "cpu.stat", "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n", 2, 1500 * time.Microsecond, true},
		{"version 1, both controllers in one place", "cpuacct.usage", "1500\n", 1, 1500, true},
		{"nothing that counts", "other", "", 1, 0, false},
		{"a file in another form", "cpu.stat", "nonsense\n", 2, 0, false},
	} {
		group := filepath.Join(dir, test.name)
		if err := os.Mkdir(group, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(group, test.file), []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		g := &Group{root: &Root{Version: test.version, dirs: map[string]string{"memory": dir, "cpu": dir, "pids": dir}}, dirs: []string{group}}
		if got, ok := g.CPUTime(); got != test.want || ok != test.ok {
			t.Errorf("%s: CPUTime() = %v, %t, want %v, %t", test.name, got, ok, test.want, test.ok)
		}
	}
}
