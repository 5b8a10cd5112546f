package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/docker"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/image/imagetest"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// asked runs silk with the images of the tests, which asks the engine for containers. The engine's runtime has a state directory of its own.
func (d *daemon) asked(stdin string, args ...string) (answer, error) {
	return d.exec(testenv.SilkPath(), strings.NewReader(stdin), append([]string{"--home", filepath.Join(d.dir, "asking"), "--config", d.withImages()}, args...)...)
}

// build is which silk the engine's runtime is.
func (d *daemon) build() string {
	d.t.Helper()
	a, err := d.silk("version", "--json")
	var v struct{ Version string }
	if err == nil {
		err = json.Unmarshal([]byte(a.stdout), &v)
	}
	if err != nil {
		d.t.Fatalf("%v %s", err, a.stderr)
	}
	return v.Version
}

// TestDriverConforms: a container whose runtime is silk is a sandbox as any other.
func TestDriverConforms(t *testing.T) {
	d := newDaemon(t)
	testenv.Require(t, testenv.Image(tag))
	build := d.build()
	made, err := docker.New(docker.Config{Home: filepath.Join(d.dir, "driver"), Host: d.host})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	}()
	one := made.Silk(build)
	root := openRoot(t)
	defer root.Close()
	first, cancel := context.WithCancel(t.Context()) // makes what a driver keeps, which is no leak of a run
	spec := driver.Spec{
		ID: "first", Image: root, Args: []string{"true"}, Network: driver.NetworkDeny, Stdout: os.Stderr, MemoryBytes: 1 << 20, WorkspaceBytes: 1 << 20, TmpBytes: 1 << 20,
		ShmBytes: 1 << 20, Processes: 1, CPUs: 1, Trace: func(string, time.Time) { cancel() },
	}
	if _, err := one.Start(first, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("a start that is not wanted any more: %v", err)
	}
	drivertest.Run(t, func(*testing.T) driver.Driver { return one }, openRoot, drivertest.Shell)
	if left := d.must("ps", "-aq"); left != "" {
		t.Errorf("containers are left: %s", left)
	}
	if left, err := filepath.Glob(filepath.Join(d.home, "containers/*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	other, err := docker.New(docker.Config{Home: filepath.Join(d.dir, "driver"), Host: d.host})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Silk("another").Probe(t.Context(), driver.Spec{}); err != nil {
		t.Errorf("probe: %v", err)
	}
}

func openRoot(t *testing.T) *os.File {
	t.Helper()
	return imagetest.Root(t, tag)
}

// ended is what `silk run --json` prints, as far as it is looked at here.
type ended struct {
	Outcome, Rule, Message, Driver, Run string
	Stdout                              struct{ Text *string }
	Artifacts                           []struct{ Path string }
}

// TestDriver: `silk run --driver docker/silk` ends as runs elsewhere do, with one record and one line of audit.
func TestDriver(t *testing.T) {
	d := newDaemon(t)
	for _, image := range []string{tag, "lab:python"} {
		testenv.Require(t, testenv.Image(image))
	}
	for _, test := range []struct {
		name, outcome, stdout, rule string
		status                      int
		args                        []string
	}{
		{"a shell", "ok", "text 3\n", "", 0, []string{"-p", "lab:text", "-c", "echo text $((1+2))"}},
		{"a workspace", "ok", "", "", 0, []string{"-p", "lab:text", "-c", "echo made >out.txt"}},
		{"stdin", "ok", "given", "", 0, []string{"-p", "lab:text", "--stdin", "-", "-c", "cat"}},
		{"a program that fails", "failed", "", "", 3, []string{"-p", "lab:text", "-c", "exit 3"}},
		{"a command that does not exist", "failed", "", "", 127, []string{"-p", "lab:text", "--", "no-such-command"}},
		{"a forbidden file", "violated", "before\n", "file.accounts", 159, []string{"-p", "lab:text", "-c", "echo before; cat /etc/passwd; echo after"}},
		{"a socket", "violated", "", "network.inet", 159, []string{"-p", "lab:python", "-c", "import socket; socket.socket()"}},
		{"too much memory", "oom", "", "", 137, []string{"-p", "lab:python", "--memory", "100MiB", "-c", "x = bytearray(400 << 20); print(len(x))"}},
		{"too long", "timeout", "begun\n", "", 124, []string{"-p", "lab:text", "--timeout", "2s", "-c", "echo begun; sleep 1000 & while :; do :; done"}},
		{"one process only", "ok", "no process\n", "", 0, []string{"-p", "lab:python", "--no-spawn", "-c", "import os\ntry: os.fork()\nexcept OSError: print('no process')"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, _ := d.asked("given", append([]string{"run", "--json", "--driver", "docker/silk"}, test.args...)...) // the status says it
			var o ended
			if err := json.Unmarshal([]byte(a.stdout), &o); err != nil {
				t.Fatalf("%v: %+v", err, a)
			}
			if a.status != test.status || o.Outcome != test.outcome || o.Rule != test.rule || o.Driver != "docker/silk" || o.Stdout.Text == nil || *o.Stdout.Text != test.stdout {
				t.Errorf("%+v; stderr: %s", a, a.stderr)
			}
			if (len(o.Artifacts) == 1) != (test.name == "a workspace") {
				t.Errorf("artifacts %v", o.Artifacts)
			}
		})
	}
	t.Run("output beyond what is kept", func(t *testing.T) {
		a, _ := d.asked("", "run", "--json", "--driver", "docker/silk", "-p", "lab:text", "-c", "head -c 20000000 /dev/zero | tr '\\0' x")
		if !strings.Contains(a.stdout, `"bytes":20000000`) || !strings.Contains(a.stdout, `"truncated":true`) {
			t.Errorf("status %d, %.300s", a.status, a.stdout)
		}
	})
	t.Run("the plan", func(t *testing.T) {
		a, err := d.asked("", "plan", "--driver", "docker/silk", "-p", "lab:text", "-c", "true")
		if err != nil || !strings.Contains(a.stdout, "has silk as its runtime") {
			t.Errorf("%v %+v", err, a)
		}
	})
	t.Run("stock runsc", func(t *testing.T) {
		a, err := d.asked("", "run", "--driver", "docker/runsc", "-p", "lab:text", "-c", "true")
		if err == nil || a.status != 125 || !strings.Contains(a.stderr, "watched by nobody") {
			t.Errorf("%v %+v", err, a)
		}
	})
	t.Run("one record", func(t *testing.T) {
		if left, err := filepath.Glob(filepath.Join(d.home, "state.db")); err != nil || len(left) > 0 {
			a, _ := d.silk("runs", "ls")
			t.Errorf("the engine's runtime has records too: %s", a.stdout)
		}
		if a, err := d.asked("", "audit", "verify"); err != nil {
			t.Errorf("%v %s", err, a.stderr)
		}
	})
	if left := d.must("ps", "-aq"); left != "" {
		t.Errorf("containers are left: %s", left)
	}
}

// TestDriverWithoutRuntime: an engine that does not know silk is a refusal, with what to do.
func TestDriverWithoutRuntime(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Docker, testenv.Silk, testenv.Image(tag))
	d := &daemon{t: t, dir: t.TempDir(), host: testenv.DockerHost()} // that of all tests, which has runc alone
	a, err := d.asked("", "run", "--json", "--driver", "docker/silk", "-p", "lab:text", "-c", "true")
	if err == nil || a.status != 126 || !strings.Contains(a.stdout, "no runtime of the name silk") || !strings.Contains(a.stdout, "silk doctor --docker --write") {
		t.Errorf("%v %+v", err, a)
	}
}

// TestDriverOfADeadSilk: with silk goes the container, by its reaper or because its monitor hears nobody; an engine that is asked to end one
// is an error of the run.
func TestDriverOfADeadSilk(t *testing.T) {
	d := newDaemon(t)
	testenv.Require(t, testenv.Image(tag))
	start := func() (*exec.Cmd, *bytes.Buffer, string) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*most)
		t.Cleanup(cancel)
		cmd := exec.CommandContext(ctx, testenv.SilkPath(), "--home", filepath.Join(d.dir, "asking"), "--config", d.withImages(), "run", "--json", "--driver", "docker/silk", "-p", "lab:text", "-c", "while :; do sleep 0.1; done")
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+d.host)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var id string
		d.until("the container runs", func() bool {
			id = d.must("ps", "-q", "--no-trunc")
			return id != "" && d.inspect(id, ".State.Running") == "true" && d.programRuns(id)
		})
		return cmd, &out, id
	}
	cmd, _, id := start()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	d.until("the container is gone", func() bool { return d.must("ps", "-aq") == "" })
	d.nothing(id)

	cmd, out, id := start()
	if a, err := d.docker("kill", id); err != nil {
		t.Errorf("%v %s", err, a.stderr)
	}
	_ = cmd.Wait()
	if !strings.Contains(out.String(), `"outcome":"error"`) || !strings.Contains(out.String(), "ended by signal 9 from outside") {
		t.Errorf("the run of a container that somebody has killed: %s", out)
	}
	d.until("the container is gone", func() bool { return d.must("ps", "-aq") == "" })
	d.nothing(id)
	if a, err := d.asked("", "run", "--driver", "docker/silk", "-p", "lab:text", "-c", "true"); err != nil { // and sweeps
		t.Errorf("%v %s", err, a.stderr)
	}
	if left, err := filepath.Glob("/run/silk/docker/*_" + id); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// until waits for something that must come.
func (d *daemon) until(what string, is func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(most); !is(); {
		if time.Now().After(deadline) {
			d.t.Fatal("it is not so that " + what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// programRuns says whether the container's sandbox has a kernel besides its monitor.
func (d *daemon) programRuns(id string) bool {
	a, err := d.docker("top", id)
	return err == nil && strings.Contains(a.stdout, "silk-sentry")
}

// drivers are those on which a skill must do the same.
var drivers = []string{"gvisor", "docker", "docker/silk"}

// TestSkillsOnEveryDriver: the two example skills give the same result, byte for byte, wherever they run.
func TestSkillsOnEveryDriver(t *testing.T) {
	d := newDaemon(t)
	for _, image := range []string{"lab:node", "lab:python"} {
		testenv.Require(t, testenv.Image(image))
	}
	testenv.Require(t, testenv.BPF, testenv.Landlock)
	var first string
	for _, name := range []string{"totals-node", "totals-python"} {
		if a, err := d.asked("", "skill", "register", filepath.Join(testenv.RepoRoot(), "examples/skills", name)); err != nil {
			t.Fatalf("%v %s", err, a.stderr)
		}
		for _, driver := range drivers {
			a, err := d.asked("", "skill", "run", name, "--driver", driver, "--json-output", "--json")
			var got struct {
				Success  bool
				ExitCode int
				Stdout   string
				Stderr   string
				Output   json.RawMessage
				Outcome  ended
			}
			if err == nil {
				err = json.Unmarshal([]byte(a.stdout), &got)
			}
			if err != nil {
				t.Fatalf("%s on %s: %v %+v", name, driver, err, a)
			}
			if first == "" {
				first = got.Stdout
			}
			if !got.Success || got.ExitCode != 0 || got.Stderr != "" || got.Stdout != first || string(got.Output)+"\n" != first || got.Outcome.Driver != driver {
				t.Errorf("%s on %s: %+v, want the output %q", name, driver, got, first)
			}
		}
	}
	if !strings.Contains(first, `"USDC":"-50.000001"`) {
		t.Errorf("the result is %q", first)
	}
}

// TestSkillService: a skill with networkAccess reaches its one service out of a container whose runtime is silk, by the link that the monitor hands to
// the sandbox.
func TestSkillService(t *testing.T) {
	d := newDaemon(t)
	testenv.Require(t, testenv.Image("lab:python"))
	var asked atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, r.URL.Path)
	}))
	defer service.Close()
	dir := filepath.Join(d.dir, "skill")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a.py"), "import os, sys, importlib\nask = importlib.import_module('.'.join(['urllib', 'request'])).urlopen\n"+
		"print(ask(sys.argv[1] if len(sys.argv) > 1 else os.environ['ISCL_API_URL'] + '/v1/x').read().decode())", 0o644)
	for _, args := range [][]string{
		{"init", dir, "--name", "asks", "--publisher", "Ann", "--contact", "ann@example.org", "--timeout-ms", "60000", "--network-access", "--new-key", filepath.Join(d.dir, "key")},
		{"sign", dir, "--key", filepath.Join(d.dir, "key")},
		{"register", dir},
	} {
		if a, err := d.asked("", append([]string{"skill"}, args...)...); err != nil {
			t.Fatalf("%v %s", err, a.stderr)
		}
	}
	run := []string{"skill", "run", "asks", "--driver", "docker/silk", "--api-url", service.URL}
	if a, err := d.asked("", run...); err != nil || a.stdout != "/v1/x\n" || asked.Load() != 1 {
		t.Errorf("asked %d times, %v %+v", asked.Load(), err, a)
	}
	if a, _ := d.asked("", slices.Concat(run, []string{"--", "http://192.0.2.1/"})...); a.status != 159 || !strings.Contains(a.stderr, "egress.") || asked.Load() != 1 {
		t.Errorf("another address: asked %d times, %+v", asked.Load(), a)
	}
}
