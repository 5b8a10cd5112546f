package runtime

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/pty"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/tests/silktest"
)

// daemon is a Docker Engine of the test's own, which has silk among its runtimes.
type daemon struct {
	t    testing.TB
	dir  string
	home string // silk's state
	host string
}

// newDaemon starts one with the given images. It ends with the test.
func newDaemon(t testing.TB, images ...string) *daemon {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.Docker, testenv.Silk)
	for _, image := range images {
		testenv.Require(t, testenv.Image(image))
	}
	d := &daemon{t: t, dir: t.TempDir()}
	d.home = filepath.Join(d.dir, "home")
	config := filepath.Join(d.dir, "config.yaml")
	runtime := filepath.Join(d.dir, "runtime")
	write(t, config, "{}\n", 0o600)
	write(t, runtime, fmt.Sprintf("#!/bin/sh\nexec %q --home %q --config %q runtime \"$@\"\n", testenv.SilkPath(), d.home, config), 0o700)

	cmd := exec.CommandContext(context.Background(), filepath.Join(testenv.RepoRoot(), "tools/dockerd"), "sh", "-c", "echo $"+testenv.EnvDocker+"; cat")
	cmd.Env = append(os.Environ(), testenv.EnvDocker+"=", "SILK_TEST_DOCKER_RUNTIMES=silk="+runtime)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the engine: %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if d.host = strings.TrimSpace(line); err != nil || d.host == "" {
		t.Fatalf("the engine does not start: %q, %v", line, err)
	}
	for _, image := range images {
		archive := filepath.Join(d.dir, "image.tar")
		if a, err := d.silk("--config", d.withImages(), "image", "export", image, archive); err != nil {
			t.Fatalf("%v %s", err, a.stderr)
		}
		d.must("load", "-q", "-i", archive)
		if err := os.Remove(archive); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// withImages is a configuration with the images of the tests. It is written once: a silk in the background may be about to read it.
func (d *daemon) withImages() string {
	path := filepath.Join(d.dir, "images.yaml")
	if _, err := os.Stat(path); err != nil {
		write(d.t, path, fmt.Sprintf("system_store: %q\n", filepath.Join(testenv.Home(), "images")), 0o600)
	}
	return path
}

func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// silk runs silk on the state that the runtime has.
func (d *daemon) silk(args ...string) (answer, error) {
	return d.exec(testenv.SilkPath(), nil, append([]string{"--home", d.home}, args...)...)
}

// docker is one call of Docker's client.
func (d *daemon) docker(args ...string) (answer, error) { return d.exec("docker", nil, args...) }

func (d *daemon) exec(program string, stdin io.Reader, args ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*most)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+d.host)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	err := cmd.Run()
	return answer{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}, err
}

func (d *daemon) must(args ...string) string {
	d.t.Helper()
	a, err := d.docker(args...)
	if err != nil {
		d.t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, a.stderr)
	}
	return strings.TrimSpace(a.stdout)
}

// run is `docker run` with silk as the runtime.
func (d *daemon) run(args ...string) (answer, error) {
	return d.docker(append([]string{"run", "--rm", "--runtime", "silk", "--network", "none"}, args...)...)
}

// background starts a container and waits until it says up.
func (d *daemon) background(args ...string) (id string) {
	d.t.Helper()
	id = d.must(append([]string{"run", "-d", "--runtime", "silk", "--network", "none"}, args...)...)
	for deadline := time.Now().Add(most); !strings.Contains(d.must("logs", id), "up"); {
		if time.Now().After(deadline) {
			d.t.Fatal("the container is not up")
		}
		<-time.After(50 * time.Millisecond)
	}
	return id
}

func (d *daemon) inspect(id, what string) string {
	d.t.Helper()
	return d.must("inspect", "-f", "{{"+what+"}}", id)
}

// nothing says that no container is left in silk's state and among the control groups.
func (d *daemon) nothing(id string) {
	d.t.Helper()
	if left := d.left(id); len(left) > 0 {
		d.t.Errorf("left: %q", left)
	}
}

// left is what there is of it.
func (d *daemon) left(id string) (all []string) {
	d.t.Helper()
	for _, pattern := range []string{filepath.Join(d.home, "containers/*"), "/sys/fs/cgroup/*/docker/" + id, "/sys/fs/cgroup/docker/" + id} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			d.t.Error(err)
		}
		all = append(all, left...)
	}
	return all
}

// TestDocker is what people type.
func TestDocker(t *testing.T) {
	d := newDaemon(t, tag)
	for _, test := range []struct {
		name           string
		args           []string
		status         int
		stdout, stderr string // within
	}{
		{"ok", []string{tag, "sh", "-c", "echo out; echo err >&2"}, 0, "out\n", "err\n"},
		{"its own status", []string{tag, "sh", "-c", "exit 7"}, 7, "", ""},
		{"a forbidden file", []string{tag, "cat", "/etc/passwd"}, 159, "", "WIDOW RED"},
		{"the network", []string{tag, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9"}, 159, "", "network.inet"},
		{"a command that is not there", []string{tag, "no-such-command"}, 127, "", "command not found"},
		{"options", []string{
			"--read-only", "--tmpfs", "/tmp:rw,noexec,size=16m", "--memory", "128m", "--cpus", "0.5", "--pids-limit", "64", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
			"--user", "65532:65532", "-w", "/usr", "-e", "A=b", "--hostname", "box", "--init", "--shm-size", "8m", tag, "sh", "-c", "pwd; hostname; echo $A; df -k /tmp /dev/shm",
		}, 0, "/usr\nbox\nb\n", ""},
		{"memory", []string{"--memory", "64m", tag, "sh", "-c", "head -c 200000000 /dev/zero | tail -n 1 | wc -c"}, 137, "", "oom: the memory limit of 64MiB"},
		{"a volume", []string{"-v", "/srv:/data", tag, "true"}, 125, "", "denied by rule mount: /srv"},
		{"privileges", []string{"--privileged", tag, "true"}, 125, "", "denied by rule runtime: device"},
		{"the host's processes", []string{"--pid", "host", tag, "true"}, 125, "", "denied by rule runtime: the host's processes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, _ := d.run(test.args...) // the status says it
			if a.status != test.status || !strings.Contains(a.stdout, test.stdout) || !strings.Contains(a.stderr, test.stderr) {
				t.Errorf("%+v, want status %d, %q and %q", a, test.status, test.stdout, test.stderr)
			}
		})
	}
	t.Run("stdin", func(t *testing.T) {
		want := strings.Repeat("a line of input\n", 10_000)
		a, err := d.exec("docker", strings.NewReader(want), "run", "--rm", "-i", "--runtime", "silk", "--network", "none", tag, "cat")
		if err != nil || a.stdout != want {
			t.Errorf("%d bytes come back, want %d; %v %s", len(a.stdout), len(want), err, a.stderr)
		}
	})
	t.Run("stop", func(t *testing.T) {
		id := d.background(tag, "sh", "-c", `echo up; trap "echo told; exit 9" TERM; while :; do sleep 0.1; done`)
		if a, err := d.docker("exec", id, "true"); err == nil || !strings.Contains(a.stderr+a.stdout, "silk runtime has no exec") {
			t.Errorf("exec: %+v, %v", a, err)
		}
		if top := d.must("top", id); !strings.Contains(top, "silk-monitor") || !strings.Contains(top, "silk-sentry") {
			t.Errorf("top: %s", top)
		}
		if used := d.must("stats", "--no-stream", "--format", "{{.MemUsage}} {{.PIDs}}", id); strings.HasPrefix(used, "0B") || strings.HasSuffix(used, " 0") {
			t.Errorf("stats: %s", used)
		}
		d.must("stop", id)
		if got := d.must("logs", id) + d.inspect(id, ".State.ExitCode"); got != "up\ntold9" {
			t.Errorf("it says and ends with %q", got)
		}
		d.must("start", id) // once more, in a new sandbox
		d.must("rm", "-f", id)
		d.nothing(id)
	})
	t.Run("kill", func(t *testing.T) {
		id := d.background(tag, "sh", "-c", "echo up; sleep 100")
		d.must("kill", id)
		d.must("wait", id)
		if got := d.inspect(id, ".State.ExitCode"); got != "137" {
			t.Errorf("it ends with %s", got)
		}
		d.must("rm", id)
		d.nothing(id)
	})
	t.Run("memory is told", func(t *testing.T) {
		id := d.must("run", "-d", "--runtime", "silk", "--network", "none", "--memory", "64m", tag, "sh", "-c", "head -c 200000000 /dev/zero | tail -n 1 | wc -c")
		d.must("wait", id)
		if got := d.inspect(id, ".State.ExitCode") + d.inspect(id, ".State.OOMKilled"); got != "137true" {
			t.Errorf("the engine says %s", got)
		}
		d.must("rm", id)
	})
	t.Run("doctor", func(t *testing.T) {
		a, err := d.silk("doctor", "--docker", "--json")
		if err != nil || !strings.Contains(a.stdout, "silk ran one, under profile oci") {
			t.Errorf("%v: %s%s", err, a.stdout, a.stderr)
		}
		if left := d.must("ps", "-aq") + d.must("images", "-q", "silk-doctor*"); left != "" {
			t.Errorf("left: %s", left)
		}
	})
	t.Run("many at once", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if a, err := d.run(tag, "sh", "-c", fmt.Sprint("echo ", i)); err != nil || a.stdout != fmt.Sprintln(i) {
					t.Errorf("container %d: %+v, %v", i, a, err)
				}
			})
		}
		all.Wait()
	})
	t.Run("an image is made once", func(t *testing.T) {
		// For root, for another user, and doctor's.
		if made, err := filepath.Glob(filepath.Join(d.home, "rootfs/*.json")); err != nil || len(made) > 3 {
			t.Errorf("%d images were made of root file systems, %v", len(made), err)
		}
	})
	t.Run("records", func(t *testing.T) {
		a, err := d.silk("audit", "ls", "--event", "security_violation", "--json")
		if err != nil || !strings.Contains(a.stdout, "security_violation") || !strings.Contains(a.stdout, "file.accounts") {
			t.Errorf("no violation in the trail: %v %s", err, a.stderr)
		}
		if a, err := d.silk("audit", "verify"); err != nil {
			t.Errorf("%v %s", err, a.stderr)
		}
	})
	if left, _ := filepath.Glob(filepath.Join(d.home, "containers/*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestContainerd asks the engine's containerd without the engine.
func TestContainerd(t *testing.T) {
	d := newDaemon(t)
	root := filepath.Join(d.dir, "rootfs")
	silktest.Unpack(t, tag, root)
	socket := filepath.Join(filepath.Dir(strings.TrimPrefix(d.host, "unix://")), "exec/containerd/containerd.sock")
	run := func(args ...string) answer {
		a, _ := d.exec("ctr", nil, append([]string{"--address", socket, "run", "--rm", "--runc-binary", filepath.Join(d.dir, "runtime")}, args...)...)
		return a
	}
	if a := run("--rootfs", root, "one", "sh", "-c", "echo out; exit 5"); a.status != 5 || a.stdout != "out\n" {
		t.Errorf("%+v", a)
	}
	if a := run("--annotation", "silk.timeout=300ms", "--rootfs", root, "two", "sleep", "60"); a.status != 124 || !strings.Contains(a.stderr, "time limit of 300ms") {
		t.Errorf("%+v", a)
	}
	if a := run("--annotation", "silk.profile=nobodys", "--rootfs", root, "three", "true"); a.status == 0 || !strings.Contains(a.stderr, `no profile is called "nobodys"`) {
		t.Errorf("%+v", a)
	}
	if left, _ := filepath.Glob(filepath.Join(d.home, "containers/*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestDockerTerminal: a terminal with its size, what is typed, and the end of the input.
func TestDockerTerminal(t *testing.T) {
	d := newDaemon(t, tag)
	side, replica, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close()
	if err := pty.Resize(side, 99, 33); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", "run", "--rm", "-it", "--runtime", "silk", "--network", "none", tag, "bash", "-c", "until stty size | grep 99; do sleep 0.1; done; tty; cat; exit 4")
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+d.host)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = replica, replica, replica
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	replica.Close()
	var shown strings.Builder
	buffer := make([]byte, 4096)
	typed := false
	for {
		n, err := side.Read(buffer)
		shown.Write(buffer[:n])
		if !typed && strings.Contains(shown.String(), "a tty") {
			typed = true
			if _, err := side.WriteString("typed\n\x04"); err != nil {
				t.Error(err)
			}
		}
		if err != nil { // EIO: docker has ended
			break
		}
	}
	_ = cmd.Wait()
	if got := shown.String(); cmd.ProcessState.ExitCode() != 4 || !strings.Contains(got, "33 99\r\n") || strings.Count(got, "typed\r\n") != 2 {
		t.Errorf("status %d, the terminal shows %q", cmd.ProcessState.ExitCode(), got)
	}
}

// TestDockerPython is the image that people have.
func TestDockerPython(t *testing.T) {
	const python = "lab:python"
	d := newDaemon(t, python)
	a, err := d.run(python, "python3", "-c", "import json, os; print(json.dumps({'n': 6 * 7, 'uid': os.getuid()}))")
	if err != nil || a.stdout != "{\"n\": 42, \"uid\": 1000}\n" {
		t.Errorf("%+v, %v", a, err)
	}
	a, _ = d.run(python, "python3", "-c", "print('before', flush=True); open('/etc/passwd'); print('after')")
	if a.status != 159 || a.stdout != "before\n" || !strings.Contains(a.stderr, "file.accounts") {
		t.Errorf("%+v", a)
	}
	a, err = d.silk("audit", "ls", "--event", "security_violation", "--json")
	if err != nil || !strings.Contains(a.stdout, "security_violation") {
		t.Errorf("%v: %s", err, a.stdout)
	}
}

// TestDockerCrashes: whoever is killed, no sandbox is left, and what it leaves silk gc removes.
func TestDockerCrashes(t *testing.T) {
	d := newDaemon(t, tag)
	kill := func(t *testing.T, pid int) {
		t.Helper()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	parent := func(t *testing.T, pid int) int {
		t.Helper()
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		ppid, err := strconv.Atoi(strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))[1])
		if err != nil {
			t.Fatal(err)
		}
		return ppid
	}
	for _, test := range []struct {
		name string
		who  func(t *testing.T, monitor int) int
	}{
		{"the monitor", func(_ *testing.T, monitor int) int { return monitor }},
		{"the shim", parent},
	} {
		t.Run(test.name, func(t *testing.T) {
			id := d.background(tag, "sh", "-c", "echo up; sleep 100")
			monitor, err := strconv.Atoi(d.inspect(id, ".State.Pid"))
			if err != nil {
				t.Fatal(err)
			}
			pids := children(t, monitor)
			kill(t, test.who(t, monitor))
			for _, pid := range append(pids, fmt.Sprint(monitor)) {
				await(t, "the end of process "+pid, func() bool { return gone(pid) })
			}
			await(t, "the end of the container", func() bool { return d.inspect(id, ".State.Running") == "false" })
			d.must("rm", "-f", id)
			if a, err := d.silk("gc"); err != nil {
				t.Errorf("%v %s", err, a.stderr)
			}
			d.nothing(id)
		})
	}
	t.Run("the engine, its containerd and the shim", func(t *testing.T) {
		id := d.background(tag, "sh", "-c", "echo up; sleep 100")
		monitor, err := strconv.Atoi(d.inspect(id, ".State.Pid"))
		if err != nil {
			t.Fatal(err)
		}
		pids := children(t, monitor)
		shim := parent(t, monitor)
		dir := filepath.Dir(strings.TrimPrefix(d.host, "unix://"))
		engine, err := strconv.Atoi(strings.TrimSpace(read(t, filepath.Join(dir, "pid"))))
		if err != nil {
			t.Fatal(err)
		}
		kill(t, engine) // and with it its containerd
		kill(t, shim)
		for _, pid := range append(pids, fmt.Sprint(monitor)) {
			await(t, "the end of process "+pid, func() bool { return gone(pid) })
		}
		if a, err := d.silk("gc"); err != nil {
			t.Errorf("%v %s", err, a.stderr)
		}
		d.nothing(id)
		a, err := d.silk("runs", "ls", "--json")
		if err != nil || !strings.Contains(a.stdout, `"canceled"`) {
			t.Errorf("no run was canceled: %v %s", err, a.stdout)
		}
	})
}

// children are the processes that a process has started.
func children(t *testing.T, pid int) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "pgrep", "-P", fmt.Sprint(pid)).Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("process %d has no child: %v", pid, err)
	}
	return strings.Fields(string(out))
}
