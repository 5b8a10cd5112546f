package runtime

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// TestRun: what the program prints and how it ends is the container's.
func TestRun(t *testing.T) {
	e := newEngine(t)
	for _, test := range []struct {
		name           string
		change         func(*specs.Spec)
		args           []string
		status         int
		stdout, stderr string // within
	}{
		{"ok", nil, []string{"sh", "-c", "echo out; echo err >&2"}, 0, "out\n", "err\n"},
		{"its own status", nil, []string{"sh", "-c", "exit 7"}, 7, "", ""},
		{"its own signal", nil, []string{"sh", "-c", "kill -TERM $$"}, 143, "", ""},
		{"a command that is not there", nil, []string{"no-such-command"}, 127, "", "command not found"},
		{"a forbidden file", nil, []string{"sh", "-c", "echo before; cat /etc/passwd; echo after"}, 159, "before\n", "file.accounts"},
		{"the network", nil, []string{"bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9"}, 159, "", "network.inet"},
		{"the root file system is read-only", nil, []string{"sh", "-c", "echo x >/usr/file; echo $?"}, 0, "2\n", "Read-only file system"},
		{"places to write", nil, []string{"sh", "-c", "echo a >/workspace/f; echo b >/tmp/f; echo c >/dev/shm/f; cat /workspace/f /tmp/f /dev/shm/f"}, 0, "a\nb\nc\n", ""},
		{"who it is", nil, []string{"sh", "-c", "id -u; id -g; hostname; pwd; ls -ln /workspace >/dev/null"}, 0, "1000\n1000\nbox\n/\n", ""},
		{"names of accounts come from nowhere", nil, []string{"sh", "-c", "ls -l / >/dev/null && echo listed"}, 0, "listed\n", ""},
		{"a working directory", func(s *specs.Spec) { s.Process.Cwd = "/usr/bin" }, []string{"pwd"}, 0, "/usr/bin\n", ""},
		{"environment", func(s *specs.Spec) { s.Process.Env = append(s.Process.Env, "GREETING=hello") }, []string{"sh", "-c", "echo $GREETING $HOME"}, 0, "hello /workspace\n", ""},
		{"time", func(s *specs.Spec) { s.Annotations = map[string]string{"silk.timeout": "300ms"} }, []string{"sh", "-c", "echo up; sleep 60"}, 124, "up\n", "time limit"},
		{"memory", func(s *specs.Spec) {
			limit := int64(64 << 20)
			s.Linux.Resources = &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &limit}}
		}, []string{"sh", "-c", "head -c 200000000 /dev/zero | tail -n 1 | wc -c"}, 137, "", "memory limit of 64MiB"},
		{"no processes", func(s *specs.Spec) { s.Annotations = map[string]string{"silk.no-spawn": "true"} }, []string{"sh", "-c", "/bin/true; /bin/true"}, 2, "", "Cannot fork"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := *e
			e.t = t
			b := e.box(test.change, test.args...)
			cmd := b.start("run", "--bundle", b.bundle, b.id)
			_ = cmd.Wait() // the status says it
			if got := cmd.ProcessState.ExitCode(); got != test.status {
				t.Errorf("status %d, want %d", got, test.status)
			}
			if got := b.out(); !strings.Contains(got, test.stdout) {
				t.Errorf("stdout %q, want %q in it", got, test.stdout)
			}
			if got := b.errors(); !strings.Contains(got, test.stderr) {
				t.Errorf("stderr %q, want %q in it", got, test.stderr)
			}
			if left := b.left(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// TestLife goes the way of containerd's shim, and looks at what the engine looks at.
func TestLife(t *testing.T) {
	b := newEngine(t).box(nil, "sh", "-c", "echo up; trap 'echo told; exit 3' TERM; while :; do sleep 0.1; done")
	b.create()
	s := b.state()
	if s.Status != specs.StateCreated || s.Pid != b.pid() || s.ID != b.id || s.Bundle != b.bundle || s.Annotations["silk.run"] == "" {
		t.Errorf("state %+v", s)
	}
	if got := b.out() + b.errors(); got != "" {
		t.Errorf("before its start it says %q", got)
	}
	if a, err := b.try("delete", b.id); err == nil || !strings.Contains(a.stderr, "not stopped") {
		t.Errorf("delete: %+v, %v", a, err)
	}
	again := b.start("create", "--bundle", b.bundle, b.id)
	if err := again.Wait(); err == nil || !strings.Contains(b.log(), "already exists") {
		t.Errorf("a second one of that name: %v, %s", err, b.log())
	}
	b.must("start", b.id)
	if s := b.state(); s.Status != specs.StateRunning {
		t.Errorf("state %+v", s)
	}
	if a, err := b.try("start", b.id); err == nil || !strings.Contains(a.stderr, "running state") {
		t.Errorf("a second start: %+v, %v", a, err)
	}
	await(t, "output", func() bool { return b.out() == "up\n" })
	pids := strings.Fields(strings.Trim(strings.ReplaceAll(b.must("ps", "--format", "json", b.id), ",", " "), "[] \n"))
	if !slices.Contains(pids, fmt.Sprint(b.pid())) || len(pids) < 3 { // the monitor, the Sentry, its stubs
		t.Errorf("processes %q, want %d among more", pids, b.pid())
	}
	for _, exe := range pids {
		if name, err := os.Readlink("/proc/" + exe + "/ns/net"); err == nil {
			if host, _ := os.Readlink("/proc/self/ns/net"); name == host {
				t.Errorf("process %s has the host's network namespace for its own", exe)
			}
		}
	}
	b.must("kill", b.id, "TERM")
	b.await(specs.StateStopped)
	if got := b.out(); got != "up\ntold\n" {
		t.Errorf("it says %q", got)
	}
	if a, err := b.try("kill", b.id, "KILL"); err == nil || !strings.Contains(a.stderr, "container not running") {
		t.Errorf("kill when it has ended: %+v, %v", a, err)
	}
	record := b.record(s.Annotations["silk.run"])
	for _, want := range []string{`"client": "runtime"`, b.id, "no capability is given", `"exit_code": 3`} {
		if !strings.Contains(record, want) {
			t.Errorf("%q is not in the record %s", want, record)
		}
	}
	b.must("delete", b.id)
	if left := b.left(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if a, err := b.try("state", b.id); err == nil || !strings.Contains(a.stderr, "does not exist") {
		t.Errorf("state when it is removed: %+v, %v", a, err)
	}
}

// TestKill: whatever is killed, nothing of the sandbox is left.
func TestKill(t *testing.T) {
	e := newEngine(t)
	for _, test := range []struct {
		name    string
		started bool
		kill    func(b *box)
		outcome string
	}{
		{"the container", true, func(b *box) { b.must("kill", b.id, "KILL") }, "canceled"},
		{"a container that was not started", false, func(b *box) { b.must("kill", b.id, "KILL") }, "canceled"},
		{"the container, by its removal", true, func(b *box) { b.must("delete", "--force", b.id) }, "canceled"},
		{"the monitor", true, func(b *box) {
			if err := syscall.Kill(b.pid(), syscall.SIGKILL); err != nil {
				b.t.Error(err)
			}
		}, "error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := *e
			e.t = t
			b := e.box(nil, "sh", "-c", "echo up; sleep 60")
			b.create()
			run := b.state().Annotations["silk.run"]
			if test.started {
				b.must("start", b.id)
				await(t, "output", func() bool { return b.out() == "up\n" })
			}
			pids, err := exec.CommandContext(t.Context(), "pgrep", "-P", fmt.Sprint(b.pid())).Output()
			if err != nil || len(pids) == 0 {
				t.Errorf("the monitor has no child: %q, %v", pids, err)
			}
			test.kill(b)
			for _, pid := range append(strings.Fields(string(pids)), fmt.Sprint(b.pid())) {
				await(t, "the end of process "+pid, func() bool { return gone(pid) })
			}
			if _, err := b.try("delete", "--force", b.id); err != nil {
				t.Error(err)
			}
			if left := b.left(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if _, err := b.silk("gc"); err != nil { // completes the record of a monitor that was killed
				t.Error(err)
			}
			if record := b.record(run); !strings.Contains(record, `"kind": "`+test.outcome+`"`) {
				t.Errorf("outcome %s is not in %s", test.outcome, record)
			}
		})
	}
}

// TestSweep: a container whose engine never asks again is removed by silk gc.
func TestSweep(t *testing.T) {
	b := newEngine(t).box(nil, "sleep", "60")
	b.create()
	b.must("start", b.id)
	if a, err := b.silk("gc"); err != nil || strings.Contains(a.stdout, b.id) {
		t.Errorf("while it lives: %+v, %v", a, err)
	}
	pid := b.pid()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the monitor", func() bool { return gone(fmt.Sprint(pid)) })
	await(t, "word of what is left", func() bool { // its last thread may hold the lock for a moment
		a, err := b.silk("gc", "--dry-run")
		return err == nil && strings.Contains(a.stdout, b.id)
	})
	if len(b.left()) == 0 {
		t.Error("a dry run has removed it")
	}
	if _, err := b.silk("gc"); err != nil {
		t.Error(err)
	}
	if left := b.left(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestRefused: what a sandbox never has is refused by name, recorded, and leaves nothing.
func TestRefused(t *testing.T) {
	e := newEngine(t)
	dir := t.TempDir()
	secret, fifo, link := filepath.Join(dir, "secret"), filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(secret, []byte("root:hunter2\n"), 0o600), unix.Mkfifo(fifo, 0o600), os.Symlink(secret, link)); err != nil {
		t.Fatal(err)
	}
	over := func(source string) func(*specs.Spec) {
		return func(s *specs.Spec) {
			s.Mounts = []specs.Mount{{Destination: "/etc/x/../hosts", Source: source, Type: "bind", Options: []string{"rbind", "ro"}}}
		}
	}
	for _, test := range []struct {
		name    string
		change  func(*specs.Spec)
		want    string
		outcome string
	}{
		{"a secret as the hosts", over(secret), "it is no file of hosts", "denied"},
		{"a link as the hosts", over(link), "it is no regular file", "denied"},
		{"a pipe as the hosts", over(fifo), "it is no regular file", "denied"},
		{"a device as the hosts", over("/dev/zero"), "it is no regular file", "denied"},
		{"a device", func(s *specs.Spec) { s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/fuse", Type: "c"}} }, "device /dev/fuse is asked for", "denied"},
		{"a mount", func(s *specs.Spec) {
			s.Mounts = []specs.Mount{{Destination: "/data", Source: "/srv", Type: "bind", Options: []string{"rbind"}}}
		}, "on or below /workspace", "denied"},
		{"a store that nobody listed", func(s *specs.Spec) {
			s.Mounts = []specs.Mount{{Destination: "/workspace/data", Source: "/srv", Type: "bind", Options: []string{"rbind", "ro"}}}
		}, "no store that the owner listed", "denied"},
		{"more than the profile allows", func(s *specs.Spec) { s.Annotations = map[string]string{"silk.memory": "1TiB"} }, "beyond profile oci", "denied"},
		{"an unknown profile", func(s *specs.Spec) { s.Annotations = map[string]string{"silk.profile": "lab:pyhton"} }, "did you mean lab:python", "error"},
		{"an annotation that is none", func(s *specs.Spec) { s.Annotations = map[string]string{"silk.net": "deny"} }, "there is no annotation silk.net", "error"},
		{"the host's network", func(s *specs.Spec) { s.Linux.Namespaces = s.Linux.Namespaces[:1] }, "--network none", "denied"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := *e
			e.t = t
			b := e.box(test.change, "true")
			cmd := b.start("create", "--bundle", b.bundle, b.id)
			if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
				t.Fatalf("create: %v", err)
			}
			if got := b.log(); !strings.Contains(got, test.want) {
				t.Errorf("the engine reads %q, want %q in it", got, test.want)
			}
			if strings.Contains(b.log()+b.errors(), "hunter2") {
				t.Errorf("it tells of the file: %q %q", b.log(), b.errors())
			}
			if left := b.left(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			a, err := b.silk("runs", "ls", "--json")
			if err != nil || !strings.Contains(a.stdout, `"`+test.outcome+`"`) {
				t.Errorf("no run %s: %v %s", test.outcome, err, a.stdout)
			}
		})
	}
}

// TestNotOffered: what runc has and silk has not is said, and exits as a failure.
func TestNotOffered(t *testing.T) {
	b := newEngine(t).box(nil, "true")
	for _, verb := range []string{"exec", "checkpoint", "restore", "pause", "resume", "update", "events", "spec"} {
		a, err := b.try(verb, "--process", "x", b.id)
		if err == nil || a.status != 1 || !strings.Contains(b.log(), "silk runtime has no "+verb) {
			t.Errorf("%s: %+v, %v, the engine reads %q", verb, a, err, b.log())
		}
	}
	if got := b.must("features"); !strings.Contains(got, `"ociVersionMax": "`+specs.Version+`"`) {
		t.Errorf("features: %s", got)
	}
	if got := b.must("--version"); !strings.Contains(got, "spec: "+specs.Version) {
		t.Errorf("version: %s", got)
	}
}

// TestWorkspace: a directory of a store becomes the workspace.
func TestWorkspace(t *testing.T) {
	e := newEngine(t)
	store := filepath.Join(e.dir, "store")
	if err := os.MkdirAll(filepath.Join(store, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(store, "data/in.txt"): "input\n", filepath.Join(e.dir, "config.yaml"): "grants: {stores: [" + store + "]}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(store, "way-out")); err != nil {
		t.Fatal(err)
	}
	bind := func(source string) func(*specs.Spec) {
		return func(s *specs.Spec) {
			s.Mounts = []specs.Mount{{Destination: "/workspace", Source: source, Type: "bind", Options: []string{"rbind", "ro"}}}
		}
	}
	b := e.box(bind(filepath.Join(store, "data")), "sh", "-c", "cat /workspace/in.txt; echo more >>/workspace/in.txt; wc -l </workspace/in.txt")
	_ = b.start("run", "--bundle", b.bundle, b.id).Wait()
	if got := b.out(); got != "input\n2\n" {
		t.Errorf("it says %q and %q", got, b.errors())
	}
	if text, err := os.ReadFile(filepath.Join(store, "data/in.txt")); err != nil || string(text) != "input\n" {
		t.Errorf("the host's file has %q, %v", text, err)
	}
	b = e.box(func(s *specs.Spec) {
		bind(filepath.Join(store, "data"))(s)
		s.Annotations = map[string]string{"silk.read-only": "true"}
	}, "sh", "-c", "cat /workspace/in.txt; echo more >/workspace/in.txt; echo $?")
	_ = b.start("run", "--bundle", b.bundle, b.id).Wait()
	if got := b.out(); got != "input\n2\n" || !strings.Contains(b.errors(), "cannot create") {
		t.Errorf("read-only: it says %q and %q", got, b.errors())
	}
	for _, source := range []string{"/etc", filepath.Join(store, "way-out")} {
		b := e.box(bind(source), "true")
		if err := b.start("create", "--bundle", b.bundle, b.id).Wait(); err == nil || !strings.Contains(b.log(), "/etc") || !strings.Contains(b.log(), "no store that the owner listed") {
			t.Errorf("%s: %v, the engine reads %q", source, err, b.log())
		}
	}
}

// TestFilesOfTheEngine: the engine's hosts and hostname lie over the image's.
func TestFilesOfTheEngine(t *testing.T) {
	e := newEngine(t)
	hosts := filepath.Join(e.dir, "hosts")
	if err := os.WriteFile(hosts, []byte("192.0.2.7\tpeer\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := e.box(func(s *specs.Spec) {
		s.Mounts = []specs.Mount{{Destination: "/etc/hosts", Source: hosts, Type: "bind", Options: []string{"rbind", "rprivate"}}}
	}, "sh", "-c", "cat /etc/hosts /etc/resolv.conf; echo x >/etc/hosts")
	_ = b.start("run", "--bundle", b.bundle, b.id).Wait()
	if got := b.out(); got != "192.0.2.7\tpeer\nnameserver 127.0.0.1\n" {
		t.Errorf("it reads %q", got)
	}
	if got := b.errors(); !strings.Contains(got, "cannot create /etc/hosts") {
		t.Errorf("it says %q", got)
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(most); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// gone says whether a process has ended, reaped or not.
func gone(pid string) bool {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(data), ") Z ")
}
