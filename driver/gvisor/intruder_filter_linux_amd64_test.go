package gvisor_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/watch/bpf"
)

// controlSentry builds a sandbox kernel with what is only for tests, driver/gvisor/sentry/*_control.go.
func controlSentry(t *testing.T, tags string) string {
	t.Helper()
	testenv.Require(t, testenv.Sentry, testenv.Image(labText))
	dir := filepath.Join(testenv.RepoRoot(), "bin", "intruder") // kept: go build finds it up to date the next time
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "silk-sentry-"+strings.ReplaceAll(tags, ",", "-"))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-modfile=bin/gvisor.mod", "-tags", tags, "-o", path, "./cmd/silk-sentry")
	cmd.Dir, cmd.Env = testenv.RepoRoot(), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-p=2")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// behindFilter are the calls that driver/gvisor/sentry/intruder_control.go can make, and what comes of each in a sandbox
// kernel whose seccomp filter is off: the answer of the layer behind, or "done" where the call reaches nothing outside the
// process's own namespaces, with the reason. Where it is the host's choice, "|" stands between the answers: a kernel built
// without something, settings such as kernel.dmesg_restrict, a /proc/sys that is read-only.
var behindFilter = map[string]string{
	"socket packet":   "operation not permitted",
	"socket x32":      "function not implemented|done",
	"connect":         "invalid argument",
	"execve":          "permission denied",
	"execveat":        "permission denied",
	"open by handle":  "operation not permitted",
	"mkdir":           "read-only file system",
	"mknod":           "read-only file system",
	"unlink":          "read-only file system",
	"mount":           "operation not permitted",
	"umount":          "operation not permitted",
	"fsopen":          "operation not permitted",
	"open_tree":       "operation not permitted",
	"pivot_root":      "operation not permitted",
	"chroot":          "operation not permitted",
	"setuid":          "invalid argument",
	"setgid":          "invalid argument",
	"setgroups":       "operation not permitted",
	"capset":          "operation not permitted",
	"ambient":         "operation not permitted",
	"unshare user":    "invalid argument",
	"unshare mount":   "operation not permitted",
	"setns":           "invalid argument",
	"clone user":      "no space left on device|done",
	"ptrace attach":   "operation not permitted",
	"setsid":          "operation not permitted",
	"bpf":             "operation not permitted|function not implemented",
	"perf":            "permission denied|operation not permitted|no such file or directory",
	"userfaultfd":     "operation not permitted|function not implemented|done",
	"fanotify":        "operation not permitted|function not implemented",
	"reboot":          "operation not permitted",
	"swapon":          "operation not permitted|function not implemented",
	"sethostname":     "operation not permitted",
	"syslog":          "operation not permitted|done",
	"sched_setparam":  "invalid argument",
	"setpriority":     "permission denied",
	"acct":            "operation not permitted|function not implemented",
	"terminal input":  "inappropriate ioctl for device",
	"another filter":  "bad address",
	"copy descriptor": "bad file descriptor",

	// Its own, empty network namespace: no device is up, as TestIntruder shows; denied where watched.
	"socket inet":    "done",
	"socket inet6":   "done",
	"socket netlink": "done",
	"socket unix":    "done",

	// Its own, empty, read-only root: there is nothing to open, and nowhere to go.
	"open":    "done",
	"openat":  "done",
	"openat2": "done",
	"chdir":   "done",

	// Itself, its stubs and copies of itself: its PID namespace has nothing else.
	"kill 1":      "done",
	"kill all":    "done",
	"pidfd_open":  "done",
	"read memory": "done",
	"setrlimit":   "done",
	"fork":        "done",

	// Its own IPC namespace and keyring.
	"shmget":  "done|function not implemented",
	"mq_open": "done|function not implemented",
	"keyctl":  "done|function not implemented",
	"add_key": "done|function not implemented",

	// Itself alone, and more of the host's kernel than it should reach.
	"io_uring":    "done|operation not permitted|function not implemented",
	"inotify":     "done|function not implemented",
	"personality": "done",
	"modify_ldt":  "done|function not implemented",

	// See TestIntruderStays.
	"stay": "done",
}

// TestIntruderMeetsFilter lets a real sandbox kernel make calls that it has no business with, while its program runs:
// gVisor's seccomp filter ends it each time, before the call. With the filter off each gets what behindFilter says.
func TestIntruderMeetsFilter(t *testing.T) {
	filtered, unfiltered := intruderDriver(t, "silkcontrol"), intruderDriver(t, "silkcontrol,silkunfiltered")
	root := openImage(t)
	defer root.Close()
	if got := intrusion(t, filtered, root, "getpid"); !strings.HasSuffix(got, "intruder: getpid: done") {
		t.Errorf("a call that is allowed: %s", got)
	}
	var jobs sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for name, want := range behindFilter {
		slots <- struct{}{}
		jobs.Go(func() {
			defer func() { <-slots }()
			if got := intrusion(t, filtered, root, name); !strings.Contains(got, "bad system call") {
				t.Errorf("%s: the sandbox kernel ended with %q, want SIGSYS", name, got)
			}
			got := intrusion(t, unfiltered, root, name)
			if _, answer, ok := strings.Cut(got, "intruder: "+name+": "); !ok || !slices.Contains(strings.Split(want, "|"), answer) {
				t.Errorf("%s, without a filter: %q, want %q", name, got, want)
			}
		})
	}
	jobs.Wait()
}

func intruderDriver(t *testing.T, tags string) *gvisor.Driver {
	t.Helper()
	d, err := gvisor.New(gvisor.Config{Sentry: controlSentry(t, tags)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// intrusionTimeout bounds a sandbox that hangs.
const intrusionTimeout = time.Minute

// intrusion runs a program that gives the sandbox kernel its cue, and returns how that ended.
func intrusion(t *testing.T, d *gvisor.Driver, root *os.File, name string) string {
	r, w, err := os.Pipe()
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	s := spec(root, "bash", "-c", "echo runs; exec 3<>/dev/tcp/127.0.0.1/1; echo survived")
	s.Env, s.Stdout = append(s.Env, "SILK_TEST_INTRUDER="+name), w
	sandbox, err := d.Start(t.Context(), s)
	w.Close()
	if err != nil {
		return err.Error()
	}
	defer time.AfterFunc(intrusionTimeout, func() { sandbox.Kill(driver.KillNow) }).Stop()
	out, readErr := io.ReadAll(r)
	exit, err := sandbox.Wait()
	if string(out) != "runs\n" || readErr != nil || err == nil {
		return fmt.Sprintf("the program said %q, and all ended with %+v, %v, %v", out, exit, err, readErr)
	}
	return err.Error()
}

// TestIntruderIsDeniedSockets: in a control group that the host's kernel watches, a sandbox kernel without a seccomp filter
// gets no INET socket, which it otherwise does (behindFilter). The test makes the group, so that it runs where the groups
// of sandboxes are of version 1.
func TestIntruderIsDeniedSockets(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.BPF)
	w, err := bpf.Open(t.Context(), bpf.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var group *cgroup.Group
	d, err := gvisor.New(gvisor.Config{
		Sentry: controlSentry(t, "silkcontrol,silkunfiltered"),
		Watch: func(pid int, _ string) (gvisor.Scope, error) {
			if group, err = cgroup.Child(pid); err != nil {
				return nil, err
			}
			if err := group.Add(pid); err != nil {
				return nil, err
			}
			s, err := w.Watch(pid, group.Path())
			if err != nil {
				return nil, err
			}
			return unarmed{s}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	root := openImage(t)
	defer root.Close()
	for name, want := range map[string]string{"socket inet": "operation not permitted", "socket inet6": "operation not permitted", "socket unix": "done"} {
		if got := intrusion(t, d, root, name); !strings.HasSuffix(got, "intruder: "+name+": "+want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if err := group.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// unarmed is a scope that raises no alarm, so that the sandbox can say what has happened.
type unarmed struct{ *bpf.Scope }

func (unarmed) Arm() error { return nil }

// TestNoIntruderInTheProduct: the ordinary sandbox kernel does not know the variable, nor has it the word.
func TestNoIntruderInTheProduct(t *testing.T) {
	d := newDriver(t)
	root := openImage(t)
	defer root.Close()
	s := spec(root, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/1")
	s.Env = append(s.Env, "SILK_TEST_INTRUDER=getpid")
	if _, exit := output(t, d, s); exit.Violation == nil || exit.Violation.Rule != "network.inet" {
		t.Errorf("the program's own fault is %+v", exit)
	}
	for path, want := range map[string]bool{testenv.SentryPath(): false, controlSentry(t, "silkcontrol"): true} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(b, []byte("SILK_TEST_")); got != want {
			t.Errorf("%s contains the switch: %t, want %t", path, got, want)
		}
	}
	list, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.GoFiles}}", "github.com/silk-sandbox/silk/driver/gvisor/sentry").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	if files := string(list); !strings.Contains(files, "switch.go") || strings.Contains(files, "_control.go") {
		t.Errorf("the product is made of %s", files)
	}
}
