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

// TestShimDies: the shim of a skill's container is killed while it runs. The end has a name, and after the next start of silk there is nothing of the
// container.
func TestShimDies(t *testing.T) {
	for _, driver := range []string{"docker", "docker/silk"} {
		t.Run(driver, func(t *testing.T) { shimDies(t, driver) })
	}
}

func shimDies(t *testing.T, driver string) {
	t.Helper()
	d := newDaemon(t)
	testenv.Require(t, testenv.Image("lab:python"), testenv.BPF, testenv.Landlock)
	d.publish("fine", "print('fine')")
	fifo := filepath.Join(d.dir, "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	d.publish("waits", "print('up', flush=True)\ninput()")
	fine := []string{"skill", "run", "fine", "--driver", driver}
	if a, err := d.asked("", fine...); err != nil { // the image is there
		t.Fatalf("%v %+v", err, a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*most)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.SilkPath(), "--home", filepath.Join(d.dir, "asking"), "--config", d.withImages(), "skill", "run", "waits", "--driver", driver, "--stdin", fifo, "--json")
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+d.host)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	input, err := os.OpenFile(fifo, os.O_RDWR, 0) // does not wait for silk
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	d.until("the skill runs", func() bool {
		a, err := d.asked("", "audit", "ls", "--event", "sandbox_started", "--json")
		return err == nil && strings.Contains(a.stdout, `"waits"`) && d.must("ps", "-q") != ""
	})
	id := d.must("ps", "-q", "--no-trunc")
	pid, err := strconv.Atoi(d.inspect(id, ".State.Pid"))
	if err != nil {
		t.Fatal(err)
	}
	killShim(t, pid)
	if _, err := input.WriteString("on\n"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the outcome says it
	var got struct{ Outcome ended }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s%s", err, &out, &said)
	}
	o := got.Outcome
	if o.Outcome != "ok" && (o.Outcome != "error" || o.Message == "") {
		t.Errorf("the outcome is %+v; stderr: %s", o, &said)
	}
	if a, err := d.asked("", fine...); err != nil || a.stdout != "fine\n" { // sweeps
		t.Errorf("%v %+v", err, a)
	}
	if left := d.must("ps", "-aq"); left != "" {
		t.Errorf("containers are left: %s", left)
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil && !strings.Contains(string(status), "State:\tZ") { // for whoever adopted it to wait for
		t.Errorf("the container's process %d is left: %.100s", pid, status)
	}
	if left, err := filepath.Glob(fmt.Sprintf("/run/silk/docker/*-%d-*", cmd.Process.Pid)); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
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
func killShim(t *testing.T, pid int) {
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
