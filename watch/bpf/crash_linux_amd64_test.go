package bpf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// watchAndWait is a silk that watches a guest, and is killed.
func watchAndWait(args []string) {
	w, err := Open(context.Background(), Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pid, _ := strconv.Atoi(args[0])
	s, err := w.Guest(context.Background(), pid, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Cgroup())
	_, _ = io.ReadAll(os.Stdin)
}

// loadedPrograms are the programs of this package that the kernel has, by id.
func loadedPrograms(t *testing.T) (ids []ebpf.ProgramID) {
	t.Helper()
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return ids
		}
		if err != nil {
			t.Fatal(err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil { // gone since
			continue
		}
		info, err := p.Info()
		if err == nil && strings.HasPrefix(info.Name, "silk_") {
			ids = append(ids, id)
		}
		p.Close()
	}
}

func TestKilledWatcherLeavesNothing(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.BPF)
	testenv.NoLeaks(t)
	before := loadedPrograms(t)
	p := start(t, "wait")
	silk := start(t, "watch", strconv.Itoa(p.Process.Pid))
	group := silk.tell(t, "")
	if !filepath.IsAbs(group) {
		t.Fatal(group)
	}
	its := slices.DeleteFunc(loadedPrograms(t), func(id ebpf.ProgramID) bool { return slices.Contains(before, id) })
	if len(its) < 6 {
		t.Errorf("a watcher has the programs %v: the test does not see them", its)
	}
	if err := silk.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	silk.end(t)
	p.end(t)
	gone := func() bool {
		return !slices.ContainsFunc(loadedPrograms(t), func(id ebpf.ProgramID) bool { return slices.Contains(its, id) })
	}
	for deadline := time.Now().Add(10 * time.Second); !gone(); { // the kernel takes a grace period
		if time.Now().After(deadline) {
			t.Fatal("programs are left in the kernel")
		}
		<-time.After(20 * time.Millisecond)
	}
	// What is left is an empty directory, which the next silk removes.
	root, err := cgroup.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if root.Version == 2 { // see cgroup.Child
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(group); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", group, err)
	}
}

func TestProbe(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.BPF)
	testenv.NoLeaks(t)
	if c := Permitted(); c.Answer != Yes {
		t.Errorf("%+v", c)
	}
	names := []string{}
	for _, c := range Probe() {
		names = append(names, c.Name)
		if c.Answer != Yes || c.Reason == "" {
			t.Errorf("%+v", c)
		}
	}
	if diff := cmp.Diff([]string{"bpf", "btf", "tracepoints", "task_storage", "processes", "pid_namespace", "cgroup2"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestWithoutRoot: who cannot watch is told why, and a watcher is not to be had.
func TestWithoutRoot(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.BPF)
	testenv.NoLeaks(t)
	const nobody = 65534
	for _, test := range []struct {
		name string
		attr syscall.SysProcAttr
		want string // of the first check that says no
		open string // of Open's error
	}{
		{"an ordinary user", syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}, "{Name:bpf Answer:no Reason:needs root (CAP_BPF, CAP_PERFMON) Optional:false}", "needs root (CAP_BPF, CAP_PERFMON)"},
		{"root of a user namespace", syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, Credential: &syscall.Credential{NoSetGroups: true},
			UidMappings: []syscall.SysProcIDMap{{HostID: nobody, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: nobody, Size: 1}},
		}, "{Name:bpf Answer:no Reason:refused although this is root", "refused although this is root"},
		{"another PID namespace", syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}, "{Name:pid_namespace Answer:no Reason:silk runs in a PID namespace", "silk runs in a PID namespace"},
	} {
		t.Run(test.name, func(t *testing.T) {
			self, err := os.Open("/proc/self/exe") // its directory may be closed to others
			if err != nil {
				t.Fatal(err)
			}
			defer self.Close()
			cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3")
			cmd.Env, cmd.Dir = []string{envProgram + "=probe"}, "/"
			cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{self}, &test.attr
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), test.want) || !strings.Contains(string(out), ErrUnavailable.Error()+": "+test.open) {
				t.Errorf("%v, Probe() and Open said %q, want %q and %q in it", err, out, test.want, test.open)
			}
		})
	}
}
