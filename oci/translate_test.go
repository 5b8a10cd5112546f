package oci

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden translates the specs that engines really make: testdata/ENGINE-CASE.json.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no specs: %v", err)
	}
	for _, file := range files {
		name, want := strings.TrimSuffix(file, ".json"), strings.TrimSuffix(file, ".json")+".golden"
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			spec, err := Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			var text []byte
			wish, err := Translate(spec, Config{Bundle: "/bundle", Stdin: true})
			if err != nil {
				text = []byte("refused: " + err.Error() + "\n")
			} else if text, err = json.MarshalIndent(wish, "", "  "); err != nil {
				t.Fatal(err)
			} else {
				text = append(text, '\n')
				if _, err := policy.Decide(wish.RequestFor(Profile(), policy.Grants{}), Profile(), policy.Grants{}); err != nil {
					t.Errorf("the request is refused: %v", err)
				}
			}
			if *update {
				if err := os.WriteFile(want, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(golden), string(text)); d != "" {
				t.Error(d)
			}
		})
	}
}

// spec is a small one that is refused nothing.
func spec() *specs.Spec {
	return &specs.Spec{
		Version: "1.0.2", Hostname: "box", Root: &specs.Root{Path: "rootfs", Readonly: true},
		Process: &specs.Process{Args: []string{"true"}, Env: []string{"PATH=/bin"}, Cwd: "/srv", User: specs.User{UID: 1000, GID: 1000}},
		Linux:   &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace}}},
	}
}

func TestTranslate(t *testing.T) {
	wish, err := Translate(spec(), Config{Bundle: "/bundle"})
	if err != nil {
		t.Fatal(err)
	}
	want := Wish{
		Request: policy.Request{Client: policy.ClientRuntime, Profile: DefaultProfile, Driver: "gvisor", Args: []string{"true"}, Env: []string{"PATH=/bin"}, Cwd: "/srv", Hostname: "box"},
		Root:    "/bundle/rootfs", User: User{UID: 1000, GID: 1000},
	}
	if d := cmp.Diff(want, wish); d != "" {
		t.Error(d)
	}
}

func TestRefusals(t *testing.T) {
	limit := int64(100)
	yes := true
	bind := func(to string, options ...string) func(*specs.Spec) {
		return func(s *specs.Spec) {
			s.Mounts = append(s.Mounts, specs.Mount{Destination: to, Type: "bind", Source: "/srv/data", Options: append(options, "rbind")})
		}
	}
	for _, test := range []struct {
		name   string
		change func(*specs.Spec)
		rule   string // of a denial; empty: it makes no sense
		text   string
	}{
		{"no process", func(s *specs.Spec) { s.Process = nil }, "", "no process"},
		{"no root", func(s *specs.Spec) { s.Root = nil }, "", "no root"},
		{"a relative mount", func(s *specs.Spec) { s.Mounts = []specs.Mount{{Destination: "a", Type: "tmpfs"}} }, "", "absolute"},
		{"a directory of the host", bind("/data"), policy.RuleMount, "below /workspace"},
		{"a directory of the host to write to", bind("/workspace/data", "rw"), policy.RuleMount, ":ro"},
		{"a directory of the host for a workspace", bind("/workspace"), policy.RuleMount, ":ro"},
		{"a service account", bind("/var/run/secrets/kubernetes.io/serviceaccount", "ro"), policy.RuleMount, "below /workspace"},
		{"a tmpfs elsewhere", func(s *specs.Spec) { s.Mounts = []specs.Mount{{Destination: "/var/cache", Type: "tmpfs"}} }, policy.RuleMount, "use /tmp"},
		{"another file system", func(s *specs.Spec) { s.Mounts = []specs.Mount{{Destination: "/nfs", Type: "nfs"}} }, policy.RuleMount, `"nfs"`},
		{"a size that is none", func(s *specs.Spec) {
			s.Mounts = []specs.Mount{{Destination: "/tmp", Type: "tmpfs", Options: []string{"size=much"}}}
		}, "", "size"},
		{"the host's processes", func(s *specs.Spec) { s.Linux.Namespaces = s.Linux.Namespaces[1:] }, RuleRuntime, "--pid=host"},
		{"another container's processes", func(s *specs.Spec) { s.Linux.Namespaces[0].Path = "/proc/7/ns/pid" }, RuleRuntime, "another container"},
		{"the host's network", func(s *specs.Spec) { s.Linux.Namespaces = s.Linux.Namespaces[:1] }, policy.RuleNetwork, "--network none"},
		{"a device", func(s *specs.Spec) { s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/fuse"}} }, RuleRuntime, "/dev/fuse"},
		{"a hook", func(s *specs.Spec) { s.Hooks = &specs.Hooks{Poststop: []specs.Hook{{Path: "/bin/x"}}} }, RuleRuntime, "/bin/x"},
		{"a limit that is not held", func(s *specs.Spec) { s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_FSIZE", Hard: 1}} }, RuleRuntime, "RLIMIT_FSIZE"},
		{"no OOM killer", func(s *specs.Spec) {
			s.Linux.Resources = &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &limit, DisableOOMKiller: &yes}}
		}, RuleRuntime, "--oom-kill-disable"},
		{"an unknown annotation", func(s *specs.Spec) { s.Annotations = map[string]string{"silk.timeuot": "1s"} }, "", "did you mean silk.timeout"},
		{"a bad annotation", func(s *specs.Spec) { s.Annotations = map[string]string{"silk.memory": "512"} }, "", "silk.memory"},
		{"a bad switch", func(s *specs.Spec) { s.Annotations = map[string]string{"silk.no-spawn": "yes"} }, "", "neither true nor false"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := spec()
			test.change(s)
			_, err := Translate(s, Config{Bundle: "/bundle"})
			var denial *policy.Denial
			var fault *policy.RequestError
			switch {
			case err == nil || !strings.Contains(err.Error(), test.text):
				t.Errorf("got %v, want %q in it", err, test.text)
			case test.rule == "" && !errors.As(err, &fault):
				t.Errorf("got %T, want a request error", err)
			case test.rule != "" && (!errors.As(err, &denial) || denial.Rule != test.rule):
				t.Errorf("got %v, want a denial by %s", err, test.rule)
			}
		})
	}
}

// TestAllRefusals: who has three things to change reads of all three.
func TestAllRefusals(t *testing.T) {
	s := spec()
	s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/a"}, {Path: "/dev/b"}}
	s.Linux.Namespaces = nil
	_, err := Translate(s, Config{})
	for _, text := range []string{"/dev/a and 1 more", "pid namespace", "network namespace"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in %v", text, err)
		}
	}
}

func TestNotes(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*specs.Spec)
		note   string
	}{
		{"a writable root", func(s *specs.Spec) { s.Root.Readonly = false }, "read-only"},
		{"root", func(s *specs.Spec) { s.Process.User = specs.User{} }, "user 0:0 is 1000:1000"},
		{"capabilities", func(s *specs.Spec) {
			s.Process.Capabilities = &specs.LinuxCapabilities{Effective: []string{"CAP_CHOWN"}}
		}, "no capability"},
		{"an init", func(s *specs.Spec) { s.Process.Args = []string{"/sbin/docker-init", "--", "true"} }, "init is left out"},
		{"Docker's network", func(s *specs.Spec) {
			s.Hooks = &specs.Hooks{Prestart: []specs.Hook{{Path: "/proc/7/exe", Args: []string{libnetworkSetKey, "x"}}}} //nolint:staticcheck // what engines send
		}, "stays unused"},
		{"a shared namespace", func(s *specs.Spec) { s.Linux.Namespaces[2].Path = "/proc/7/ns/ipc" }, "ipc namespace"},
		{"sysctls", func(s *specs.Spec) { s.Linux.Sysctl = map[string]string{"net.ipv4.ip_forward": "1"} }, "sysctls"},
		{"a tmpfs on /run", func(s *specs.Spec) { s.Mounts = []specs.Mount{{Destination: "/run", Type: "tmpfs"}} }, "/run is not writable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := spec()
			test.change(s)
			wish, err := Translate(s, Config{})
			if err != nil || len(wish.Notes) != 1 || !strings.Contains(wish.Notes[0], test.note) {
				t.Errorf("notes %q, %v, want one with %q", wish.Notes, err, test.note)
			}
			if got := wish.Request.Args[0]; got != "true" {
				t.Errorf("the command is %q", got)
			}
		})
	}
}

func TestWorkspace(t *testing.T) {
	s := spec()
	s.Mounts = []specs.Mount{{Destination: "/workspace", Type: "bind", Source: "/srv/data/", Options: []string{"rbind", "ro"}}}
	s.Annotations = map[string]string{"silk.read-only": "true"}
	wish, err := Translate(s, Config{})
	if err != nil || wish.Request.Dir != "/srv/data" || !wish.ReadOnly || len(wish.Request.Mounts) != 0 {
		t.Errorf("%+v, %v", wish, err)
	}
}

func TestAnnotations(t *testing.T) {
	s := spec()
	s.Annotations = map[string]string{
		"silk.profile": "lab:python", "silk.network": "a.test:443, b.test:80", "silk.timeout": "2m", "silk.memory": "64MiB", "silk.cpus": "0.5", "silk.processes": "7",
		"silk.workspace": "1MiB", "silk.no-spawn": "true", "silk.deterministic": "true", "silk.require-watch": "false", "silk.read-only": "false", "io.kubernetes.cri.container-type": "container",
	}
	wish, err := Translate(s, Config{Profile: "lab:node"})
	if err != nil {
		t.Fatal(err)
	}
	r := wish.Request
	if r.Profile != "lab:python" || r.Network != profile.NetworkAllowlist || !r.NoSpawn || !r.Deterministic || r.RequireWatch {
		t.Errorf("%+v", r)
	}
	if d := cmp.Diff([]string{"a.test:443", "b.test:80"}, r.Hosts); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(profile.Limits{Timeout: 2 * 60e9, MemoryBytes: 64 << 20, CPUs: 0.5, Processes: 7, WorkspaceBytes: 1 << 20}, r.Limits); d != "" {
		t.Error(d)
	}
	if len(s.Annotations)-1 != len(Annotations()) {
		t.Errorf("the test has not all of %q", Annotations())
	}
}

// TestLimits: the spec narrows what is asked for, and is cut to what the profile and the owner allow.
func TestLimits(t *testing.T) {
	prof := profile.Profile{Name: "p", Limits: profile.Defaults, Max: profile.Limits{MemoryBytes: 1 << 30}}
	for _, test := range []struct {
		name              string
		annotation, limit int64
		grant, want       int64
	}{
		{"nothing said", 0, 0, 0, 0},
		{"less than the profile gives", 0, 64 << 20, 0, 64 << 20},
		{"more than it gives, and no more than it allows", 0, 768 << 20, 0, 768 << 20},
		{"more than it allows", 0, 8 << 30, 0, 1 << 30},
		{"more than it allows, and granted", 0, 2 << 30, 4 << 30, 2 << 30},
		{"an annotation alone, whatever it says", 8 << 30, 0, 0, 8 << 30},
		{"an annotation below the limit", 32 << 20, 64 << 20, 0, 32 << 20},
		{"an annotation above the limit", 128 << 20, 64 << 20, 0, 64 << 20},
	} {
		w := Wish{Request: policy.Request{Limits: profile.Limits{MemoryBytes: test.annotation}}, Limits: profile.Limits{MemoryBytes: test.limit}}
		req := w.RequestFor(prof, policy.Grants{Max: profile.Limits{MemoryBytes: test.grant}})
		if got := req.Limits.MemoryBytes; got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestSpecLimits(t *testing.T) {
	s := spec()
	memory, quota, period := int64(64<<20), int64(50_000), uint64(100_000)
	s.Linux.Resources = &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &memory}, CPU: &specs.LinuxCPU{Quota: &quota, Period: &period}, Pids: &specs.LinuxPids{Limit: 50}}
	s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NPROC", Hard: 20, Soft: 20}}
	s.Mounts = []specs.Mount{
		{Destination: "/tmp", Type: "tmpfs", Options: []string{"rw", "size=64m"}}, {Destination: "/dev/shm", Type: "tmpfs", Options: []string{"size=65536k"}},
	}
	wish, err := Translate(s, Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := profile.Limits{MemoryBytes: 64 << 20, CPUs: 0.5, Processes: 20, TmpBytes: 64 << 20, ShmBytes: 64 << 20}
	if d := cmp.Diff(want, wish.Limits); d != "" {
		t.Error(d)
	}
}

func TestMappedUser(t *testing.T) {
	s := spec()
	s.Process.User = specs.User{UID: 5, GID: 0, AdditionalGids: []uint32{7, 70_000}}
	s.Linux.UIDMappings = []specs.LinuxIDMapping{{ContainerID: 0, HostID: 100_000, Size: 65_536}}
	s.Linux.GIDMappings = []specs.LinuxIDMapping{{ContainerID: 0, HostID: 200_000, Size: 65_536}}
	wish, err := Translate(s, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(User{UID: 100_005, GID: 200_000, Groups: []uint32{200_007, 70_000}}, wish.User); d != "" {
		t.Error(d)
	}
}

func FuzzTranslate(f *testing.F) {
	data, err := json.Marshal(spec())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if err != nil {
			return
		}
		wish, err := Translate(s, Config{Bundle: "/bundle"})
		if err != nil {
			return
		}
		if !filepath.IsAbs(wish.Root) {
			t.Errorf("root %q", wish.Root)
		}
		for _, m := range wish.Request.Mounts {
			if !strings.HasPrefix(m.Target, policy.Workspace+"/") {
				t.Errorf("mount on %q", m.Target)
			}
		}
	})
}
