package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// envHelper makes this test binary one that starts a sandbox and waits for its own end.
const envHelper = "SILK_DOCKER_HELPER"

// started starts a shell in a container, whose output goes to w.
func started(t *testing.T, d *Driver, id string, w *os.File, script string, change func(*driver.Spec)) (driver.Sandbox, error) {
	t.Helper()
	root := openLabText(t)
	defer root.Close()
	s := spec()
	s.ID, s.Image, s.Args, s.Stdout, s.Stderr = id, root, []string{"sh", "-c", script}, w, w
	s.Env = []string{"PATH=/usr/bin:/bin"}
	s.Trees = []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives"}
	if change != nil {
		change(&s)
	}
	return d.Start(t.Context(), s)
}

// helper is the process that is killed.
func helper(t *testing.T, id string) {
	t.Helper()
	s, err := started(t, newDriver(t), id, os.Stdout, "echo up; while :; do sleep 1; done", withLink(t))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.Wait()
}

// TestSilkIsKilled: the container dies, by its reaper, and is removed; what else is left a sweep removes.
func TestSilkIsKilled(t *testing.T) {
	if id := os.Getenv(envHelper); id != "" {
		helper(t, id)
		return
	}
	d := newDriver(t)
	dir, err := home()
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf("killed-%d", os.Getpid())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	silk := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSilkIsKilled$")
	silk.Env = append(os.Environ(), envHelper+"="+id, envShared+"="+dir)
	silk.Stdout, silk.Stderr = w, os.Stderr
	if err := silk.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	out := bufio.NewReader(r)
	if line, err := out.ReadString('\n'); line != "up\n" {
		t.Fatalf("it says %q: %v", line, err)
	}
	at, err := d.engine.look(t.Context(), name(id))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := cgroup.Of(at.State.Pid)
	if err != nil {
		t.Fatal(err)
	}
	netns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", at.State.Pid))
	if err != nil || !strings.Contains(devices(t, at.State.Pid), "eth0:") {
		t.Fatalf("it has no network device: %v", err)
	}
	_ = silk.Process.Kill()
	_ = silk.Wait()
	if _, err := io.Copy(io.Discard, out); err != nil { // to the end of the last writer: every process of the container
		t.Fatal(err)
	}
	within(t, 10*time.Second, "its groups are empty", func() bool { empty, err := groups.Empty(); return empty && err == nil })
	within(t, 20*time.Second, "the container is removed", func() bool { _, err := d.engine.look(t.Context(), name(id)); return errors.Is(err, errNotFound) })
	within(t, 10*time.Second, "its network namespace is gone", func() bool { return !namespaces(t)[netns] })
	left, err := d.Leftovers()
	if err != nil || len(left) != 1 {
		t.Errorf("Leftovers() = %q, %v, want the directory of its socket", left, err)
	}
	if err := d.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := d.Leftovers(); err != nil || len(left) != 0 {
		t.Errorf("after the sweep: %q, %v", left, err)
	}
}

// devices is what the kernel says of the network devices that a process sees.
func devices(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// namespaces are the network namespaces that processes are in, or that a mount keeps.
func namespaces(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			all[to] = true
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasPrefix(f[3], "net:[") {
			all[f[3]] = true
		}
	}
	return all
}

func within(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); {
		if time.Since(began) > limit {
			t.Fatalf("after %v not yet: %s", limit, what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestSweepLeavesTheLiving: containers of a silk that lives, and of others, stay.
func TestSweepLeavesTheLiving(t *testing.T) {
	d := newDriver(t)
	testenv.NoLeaks(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := started(t, d, fmt.Sprintf("living-%d", os.Getpid()), w, "echo up; sleep 1000", nil)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.runs(), d.engine.key()+"_1-4194305-1-0_gone"), 0o700); err != nil { // of another PID namespace
		t.Fatal(err)
	}
	if err := d.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "up\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	if err := os.Remove(filepath.Join(d.runs(), d.engine.key()+"_1-4194305-1-0_gone")); err != nil {
		t.Error(err)
	}
	s.Kill(driver.KillNow)
	if exit, err := s.Wait(); err != nil || !exit.Killed {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

// TestOutsiders: what others do to a container, or have done before, has a name, and leaves nothing.
func TestOutsiders(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(t *testing.T, d *Driver, s *sandbox)
		want func(exit driver.Exit, err error) bool
	}{
		{
			"somebody kills the container",
			func(t *testing.T, d *Driver, s *sandbox) {
				if err := d.engine.call(t.Context(), "POST", "/containers/"+s.name+"/kill", nil, nil, nil); err != nil {
					t.Fatal(err)
				}
			},
			func(_ driver.Exit, err error) bool {
				return err != nil && strings.Contains(err.Error(), "somebody has ended the container")
			},
		},
		{
			"somebody removes the container",
			func(t *testing.T, d *Driver, s *sandbox) {
				if err := d.engine.remove(t.Context(), s.name); err != nil {
					t.Fatal(err)
				}
			},
			func(_ driver.Exit, err error) bool {
				return err != nil && strings.Contains(err.Error(), "somebody has removed the container")
			},
		},
		{
			"somebody pauses the container",
			func(t *testing.T, d *Driver, s *sandbox) {
				if err := d.engine.call(t.Context(), "POST", "/containers/"+s.name+"/pause", nil, nil, nil); err != nil {
					t.Fatal(err)
				}
				s.Kill(driver.KillNow)
			},
			func(exit driver.Exit, err error) bool { return err == nil && exit.Killed },
		},
		{
			"the engine's shim is killed",
			func(t *testing.T, _ *Driver, s *sandbox) {
				status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.ruler.pid))
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
				if err := unix.Kill(shim, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				s.Kill(driver.KillNow)
			},
			func(exit driver.Exit, err error) bool { return err == nil && exit.Killed },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDriver(t)
			linked := withLink(t)
			testenv.NoLeaks(t)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			run, err := started(t, d, fmt.Sprintf("outsider-%d-%d", os.Getpid(), time.Now().UnixNano()), w, "echo up; sleep 1000", linked)
			w.Close()
			if err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(r).ReadString('\n'); line != "up\n" {
				t.Fatalf("it says %q, %v", line, err)
			}
			s := run.(*sandbox)
			groups := s.groups
			test.do(t, d, s)
			exit, err := run.Wait()
			if !test.want(exit, err) {
				t.Errorf("exit %+v, %v", exit, err)
			}
			if empty, err := groups.Empty(); !empty || err != nil {
				t.Errorf("processes are left: %v", err)
			}
			if _, err := d.engine.look(context.Background(), s.name); !errors.Is(err, errNotFound) {
				t.Errorf("the container is left: %v", err)
			}
		})
	}
}

// TestNameThatIsTaken: another's container of that name stays, and is not run.
func TestNameThatIsTaken(t *testing.T) {
	d := newDriver(t)
	root := openLabText(t)
	defer root.Close()
	id, err := d.imageOf(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	run := fmt.Sprintf("taken-%d", os.Getpid())
	if _, err := d.engine.create(t.Context(), name(run), container{Image: id, Entrypoint: []string{"/bin/true"}, HostConfig: hostConfig{NetworkMode: "none"}}); err != nil {
		t.Fatal(err)
	}
	defer d.engine.remove(context.Background(), name(run)) //nolint:errcheck // the engine ends with its tests
	testenv.NoLeaks(t)
	if _, err := started(t, d, run, os.Stdout, "true", nil); !errors.Is(err, errConflict) {
		t.Errorf("%v, want errConflict", err)
	}
	if _, err := d.engine.look(t.Context(), name(run)); err != nil {
		t.Errorf("another's container: %v", err)
	}
}

// TestImageThatIsGone is loaded again; and one that somebody has given our name is not run.
func TestImageThatIsGone(t *testing.T) {
	d := newDriver(t)
	testenv.NoLeaks(t)
	root := tinyImage(t) // others use the engine's other images
	id, err := d.imageOf(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.engine.call(context.Background(), "DELETE", "/images/"+id, nil, nil, nil); err != nil {
			t.Error(err)
		}
	}()
	if err := d.engine.call(t.Context(), "DELETE", "/images/"+id, map[string][]string{"force": {"1"}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if there, err := d.engine.hasImage(t.Context(), id); there || err != nil {
		t.Fatalf("the image is there: %t, %v", there, err)
	}
	again, err := d.imageOf(t.Context(), root)
	if err != nil || again != id {
		t.Errorf("loaded again it is %s, %v, want %s", again, err, id)
	}
}

// tinyImage is an image of one file, which is in no store.
func tinyImage(t *testing.T) *os.File {
	t.Helper()
	tree, err := image.NewTree(image.TreeConfig{Epoch: time.Unix(1e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if err := tree.AddFile("/file", 0o644, time.Unix(1e9, 0), strings.NewReader(t.Name())); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := tree.WriteEROFS(f); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEngineIsGone: no engine, a name for that, and nothing left.
func TestEngineIsGone(t *testing.T) {
	d := newDriver(t)
	testenv.NoLeaks(t)
	e, err := newEngine("unix://" + filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	d.engine = e
	if _, err := started(t, d, "gone", os.Stdout, "true", nil); !errors.Is(err, ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
	if err := d.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUnwatchedIsRefused: without the kernel's programs nothing starts.
func TestUnwatchedIsRefused(t *testing.T) {
	d := newDriver(t)
	d.config.Watch, d.config.Unwatched = nil, "this is a test"
	_, err := started(t, d, "unwatched", os.Stdout, "true", nil)
	var unheld *driver.Unheld
	if !errors.As(err, &unheld) || unheld.Promise != "watch" || !strings.Contains(unheld.Detail, "this is a test") {
		t.Errorf("%v, want a refusal", err)
	}
	d.config.Watch = func(context.Context, int, io.Writer) (Scope, error) { return nil, errors.New("broken") }
	testenv.NoLeaks(t)
	if _, err := started(t, d, "unwatched", os.Stdout, "true", nil); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v, want the watcher's error", err)
	}
}
