package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/tests/silktest"
)

// tag is the image of the bundles.
const tag = "lab:text"

// most bounds each command of a test.
const most = 60 * time.Second

// engine plays containerd's part.
type engine struct {
	t      *testing.T
	dir    string // of everything
	home   string // silk's state
	rootfs string
}

// newEngine makes bundles with one root file system.
func newEngine(t *testing.T) *engine {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.Silk, testenv.Image(tag))
	dir := t.TempDir()
	e := &engine{t: t, dir: dir, home: filepath.Join(dir, "home"), rootfs: filepath.Join(dir, "rootfs")}
	silktest.Unpack(t, tag, e.rootfs)
	if err := os.WriteFile(filepath.Join(e.rootfs, "etc/passwd"), []byte("root:x:0:0::/root:/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return e
}

// box is one container.
type box struct {
	*engine
	id     string
	bundle string
	spec   *specs.Spec
	stdout *os.File // of the container; stderr beside it
	stderr *os.File
}

var boxes atomic.Int64

// box makes a bundle that runs args.
func (e *engine) box(change func(*specs.Spec), args ...string) *box {
	e.t.Helper()
	id := fmt.Sprintf("box-%d-%d", os.Getpid(), boxes.Add(1))
	b := &box{engine: e, id: id, bundle: filepath.Join(e.dir, id), spec: &specs.Spec{
		Version: specs.Version, Hostname: "box", Root: &specs.Root{Path: e.rootfs},
		Process: &specs.Process{Args: args, Env: []string{"PATH=/usr/bin:/bin"}, Cwd: "/", Capabilities: &specs.LinuxCapabilities{Effective: []string{"CAP_CHOWN"}}},
		Linux: &specs.Linux{
			CgroupsPath: "/silk-test-" + id,
			Namespaces:  []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace}, {Type: specs.MountNamespace}, {Type: specs.UTSNamespace}},
		},
	}}
	if change != nil {
		change(b.spec)
	}
	if err := os.Mkdir(b.bundle, 0o700); err != nil {
		e.t.Fatal(err)
	}
	data, err := json.Marshal(b.spec)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.bundle, "config.json"), data, 0o600)
	}
	if err == nil {
		b.stdout, err = os.Create(filepath.Join(b.bundle, "stdout"))
	}
	if err == nil {
		b.stderr, err = os.Create(filepath.Join(b.bundle, "stderr"))
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if _, err := b.try("delete", "--force", b.id); err != nil {
			e.t.Error(err)
		}
		b.stdout.Close()
		b.stderr.Close()
	})
	return b
}

// answer is what a call of the runtime says.
type answer struct {
	stdout, stderr string
	status         int
}

// silk runs silk, with this engine's state and configuration.
func (e *engine) silk(args ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most) // also while a test is being cleaned up
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.SilkPath(), append([]string{"--home", e.home, "--config", filepath.Join(e.dir, "config.yaml")}, args...)...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	a := answer{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	if err != nil {
		err = fmt.Errorf("silk %s: %w: %s", strings.Join(args, " "), err, a.stderr)
	}
	return a, err
}

// call is a command line of the runtime.
func (b *box) call(args ...string) []string {
	return append([]string{"runtime", "--root", filepath.Join(b.dir, "root"), "--log", filepath.Join(b.bundle, "log.json"), "--log-format", "json"}, args...)
}

func (b *box) try(args ...string) (answer, error) { return b.silk(b.call(args...)...) }

// must calls the runtime, and fails the test if it fails.
func (b *box) must(args ...string) string {
	b.t.Helper()
	a, err := b.try(args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return a.stdout
}

// start begins a call whose process keeps the container's channels.
func (b *box) start(args ...string) *exec.Cmd {
	b.t.Helper()
	cmd := exec.CommandContext(context.Background(), testenv.SilkPath(), append([]string{"--home", b.home, "--config", filepath.Join(b.dir, "config.yaml")}, b.call(args...)...)...)
	cmd.Stdout, cmd.Stderr = b.stdout, b.stderr // files: nobody waits for their end
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	return cmd
}

// create makes the container.
func (b *box) create(args ...string) {
	b.t.Helper()
	pidFile := filepath.Join(b.bundle, "pid")
	cmd := b.start(append(append([]string{"create", "--bundle", b.bundle, "--pid-file", pidFile}, args...), b.id)...)
	if err := cmd.Wait(); err != nil {
		b.t.Fatalf("create: %v: %s", err, b.log())
	}
}

func (b *box) pid() int {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.bundle, "pid"))
	if err != nil {
		b.t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		b.t.Fatal(err)
	}
	return pid
}

// log is the last error that the engine would read.
func (b *box) log() string {
	data, err := os.ReadFile(filepath.Join(b.bundle, "log.json"))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var last struct{ Level, Msg string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Level != "error" {
		b.t.Errorf("the log ends with %q, %v", lines[len(lines)-1], err)
	}
	return last.Msg
}

func (b *box) state() specs.State {
	b.t.Helper()
	var s specs.State
	if err := json.Unmarshal([]byte(b.must("state", b.id)), &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// await waits until the container is in a state.
func (b *box) await(want specs.ContainerState) specs.State {
	b.t.Helper()
	for deadline := time.Now().Add(most); ; {
		s := b.state()
		if s.Status == want {
			return s
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the container is %s, want %s; it says %s%s", s.Status, want, b.out(), b.errors())
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (b *box) out() string    { return read(b.t, b.stdout.Name()) }
func (b *box) errors() string { return read(b.t, b.stderr.Name()) }

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// record is what there is of the container's run.
func (b *box) record(run string) string {
	b.t.Helper()
	a, err := b.silk("runs", "show", run, "--json")
	if err != nil {
		b.t.Fatal(err)
	}
	return a.stdout
}

// left names what is left of a container that was removed.
func (b *box) left() (names []string) {
	for _, pattern := range []string{filepath.Join(b.dir, "root", b.id), filepath.Join(b.home, "containers", "*"), "/sys/fs/cgroup/silk-test-" + b.id, "/sys/fs/cgroup/*/silk-test-" + b.id} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, name := range found {
			if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
				names = append(names, name)
			}
		}
	}
	return names
}
