package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// TestDeaths: somebody whom a skill's container needs is killed while it runs. The end has a name, and after the next start of silk there is nothing of
// the container.
func TestDeaths(t *testing.T) {
	for _, driver := range []string{"docker", "docker/silk"} {
		t.Run(driver, func(t *testing.T) {
			s := newDaemon(t).skills(driver)
			s.shimDies()
			if everything() {
				s.engineDies()
			}
		})
	}
}

func (s *skills) shimDies() {
	s.t.Helper()
	w := s.waits()
	killShim(s.t, w.pid)
	o := w.goesOn()
	if o.Outcome != "ok" && (o.Outcome != "error" || o.Message == "") {
		s.t.Errorf("the outcome is %+v; stderr: %s", o, &w.said)
	}
	w.nothing()
}

// skills are two on one driver: one that prints fine, and one that waits for a line.
type skills struct {
	*daemon
	driver string
}

// skills registers them and runs the first, so that the engine has the image.
func (d *daemon) skills(driver string) *skills {
	d.t.Helper()
	testenv.Require(d.t, testenv.Image("lab:python"), testenv.BPF, testenv.Landlock)
	d.publish("fine", "print('fine')")
	d.publish("waits", "print('up', flush=True)\ninput()")
	s := &skills{d, driver}
	s.fine()
	return s
}

// fine runs the skill that does nothing; what silks left before is swept then.
func (s *skills) fine() (said string) {
	s.t.Helper()
	a, err := s.asked("", "skill", "run", "fine", "--driver", s.driver)
	if err != nil || a.stdout != "fine\n" {
		s.t.Fatalf("%v %+v", err, a)
	}
	return a.stderr
}

// waiting is a skill whose container runs.
type waiting struct {
	*skills
	cmd       *exec.Cmd
	out, said bytes.Buffer
	input     *os.File
	id        string // of the container
	pid       int    // its first process
}

// waits starts the skill that waits.
func (s *skills) waits() *waiting {
	s.t.Helper()
	before, err := s.asked("", "audit", "ls", "--event", "sandbox_started", "--limit", "100", "--json")
	if err != nil {
		s.t.Fatalf("%v %s", err, before.stderr)
	}
	fifo := filepath.Join(s.t.TempDir(), "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*most)
	w := &waiting{skills: s}
	w.cmd = exec.CommandContext(ctx, testenv.SilkPath(), "--home", filepath.Join(s.dir, "asking"), "--config", s.withImages(), "skill", "run", "waits", "--driver", s.driver, "--stdin", fifo, "--json")
	w.cmd.Env = append(os.Environ(), "DOCKER_HOST="+s.host)
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.said
	if err := w.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cancel()
		_ = w.cmd.Wait() // most likely it was waited for
		if s.t.Failed() {
			s.t.Logf("silk %d said %s%s", w.cmd.Process.Pid, &w.out, &w.said)
		}
	})
	if w.input, err = os.OpenFile(fifo, os.O_RDWR, 0); err != nil { // does not wait for silk
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { w.input.Close() })
	s.until("the skill runs", func() bool {
		a, err := s.asked("", "audit", "ls", "--event", "sandbox_started", "--limit", "100", "--json")
		return err == nil && strings.Count(a.stdout, `"waits"`) > strings.Count(before.stdout, `"waits"`) && s.must("ps", "-q") != ""
	})
	w.id = s.must("ps", "-q", "--no-trunc")
	if w.pid, err = strconv.Atoi(s.inspect(w.id, ".State.Pid")); err != nil {
		s.t.Fatal(err)
	}
	return w
}

// goesOn lets the skill go on, and returns how its run ended.
func (w *waiting) goesOn() ended {
	w.t.Helper()
	if _, err := w.input.WriteString("on\n"); err != nil {
		w.t.Fatal(err)
	}
	_ = w.cmd.Wait() // the outcome says it
	var got struct{ Outcome ended }
	if err := json.Unmarshal(w.out.Bytes(), &got); err != nil {
		w.t.Fatalf("%v: %s%s", err, &w.out, &w.said)
	}
	return got.Outcome
}

// nothing says that the next silk leaves nothing of the container.
func (w *waiting) nothing() {
	w.t.Helper()
	said := w.fine() // sweeps
	if left := w.must("ps", "-aq"); left != "" {
		w.t.Errorf("containers are left: %s; silk says %s", w.must("inspect", "-f", "{{.Name}} {{json .State}}", left), said)
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.pid)); err == nil && !strings.Contains(string(status), "State:\tZ") { // for whoever adopted it to wait for
		w.t.Errorf("the container's process %d is left: %.100s", w.pid, status)
	}
	if left, err := filepath.Glob(fmt.Sprintf("/run/silk/docker/*-%d-*", w.cmd.Process.Pid)); err != nil || len(left) > 0 {
		w.t.Errorf("left: %q, %v", left, err)
	}
	w.until("nothing is left of the container", func() bool { return len(w.left(w.id)) == 0 }) // containerd removes it when it hears of the end
}

// publish makes a skill in Python of the daemon's asking silk.
func (d *daemon) publish(name, program string) {
	d.t.Helper()
	dir := filepath.Join(d.dir, "skill-"+name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		d.t.Fatal(err)
	}
	write(d.t, filepath.Join(dir, "a.py"), program, 0o644)
	key := filepath.Join(d.dir, name+".key")
	for _, args := range [][]string{
		{"init", dir, "--name", name, "--publisher", "Ann", "--contact", "ann@example.org", "--timeout-ms", "60000", "--new-key", key}, {"sign", dir, "--key", key}, {"register", dir},
	} {
		if a, err := d.asked("", append([]string{"skill"}, args...)...); err != nil {
			d.t.Fatalf("%v %s", err, a.stderr)
		}
	}
}

// killShim ends the parent of a container's first process, which must be an engine's shim.
func killShim(t testing.TB, pid int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), ") ")
	shim, err := strconv.Atoi(strings.Fields(rest)[1])
	if err != nil {
		t.Fatal(err)
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", shim)); err != nil || !strings.HasPrefix(string(name), "containerd-shim") {
		t.Fatalf("the container's parent is %q, %v", name, err)
	}
	if err := syscall.Kill(shim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
