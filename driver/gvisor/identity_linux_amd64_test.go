package gvisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/testenv"
)

func testHost(t *testing.T) host {
	t.Helper()
	testenv.Require(t, testenv.Sentry)
	d, err := New(Config{Sentry: testenv.SentryPath()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d.host
}

// born starts a kernel that waits, and says who it is on the host.
func (h host) born(t *testing.T) (k *kernel, id identity) {
	t.Helper()
	k, err := h.spawn(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.discard(); err != nil {
			t.Error(err)
		}
	})
	if _, err := k.receive(); err != nil { // hello: it is what it executes in the end
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", k.proc.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch ids := strings.Fields(rest); name {
		case "Uid", "Gid":
			if len(ids) != 4 || strings.Count(rest, ids[0]) != 4 {
				t.Errorf("%s of a sandbox kernel is %q, want one id four times", name, rest)
			}
			at := &id.uid
			if name == "Gid" {
				at = &id.gid
			}
			if _, err := fmt.Sscan(ids[0], at); err != nil {
				t.Fatal(err)
			}
		case "Groups":
			if os.Getuid() == 0 && len(ids) > 0 {
				t.Errorf("a sandbox kernel has the groups %q", ids)
			}
		}
	}
	return k, id
}

// TestEachSandboxHasItsOwnID: started by root, each is somebody else. An ordinary user's is that user.
func TestEachSandboxHasItsOwnID(t *testing.T) {
	h := testHost(t)
	_, one := h.born(t)
	_, two := h.born(t)
	if uid := os.Getuid(); uid != 0 {
		if want := (identity{uid, os.Getgid()}); one != want || two != want {
			t.Errorf("sandboxes of an ordinary user are %v and %v, want %v", one, two, want)
		}
		return
	}
	testenv.Require(t, testenv.Root)
	for _, id := range []identity{one, two} {
		if id.uid != id.gid || id.uid < firstID || id.uid > lastID {
			t.Errorf("a sandbox is %+v, want one id from %d to %d twice", id, firstID, lastID)
		}
	}
	if one == two {
		t.Errorf("two sandboxes are both %+v", one)
	}
}

// TestIDsKeepSandboxesApart does in the host's PID namespace what one sandbox's process would do to another's, were there
// no PID namespaces: as the one it is refused, and as the other itself it is not.
func TestIDsKeepSandboxesApart(t *testing.T) {
	if pid := os.Getenv("SILK_TEST_VICTIM"); pid != "" {
		reach(pid)
		return
	}
	testenv.Require(t, testenv.Root)
	h := testHost(t)
	_, one := h.born(t)
	victim, two := h.born(t)
	for _, test := range []struct {
		name string
		who  identity
		want string
	}{
		{"another sandbox", one, "signal: operation not permitted, rlimit: operation not permitted, environment: permission denied"},
		{"the sandbox itself", two, "signal: <nil>, rlimit: <nil>, environment: permission denied"},
	} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestIDsKeepSandboxesApart$")
		cmd.Env = append(os.Environ(), fmt.Sprint("SILK_TEST_VICTIM=", victim.proc.Pid))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(test.who.uid), Gid: uint32(test.who.gid)}}
		out, err := cmd.Output()
		if got, _, _ := strings.Cut(string(out), "\n"); err != nil || got != test.want {
			t.Errorf("as %s: %q, %v; want %q", test.name, got, err, test.want)
		}
	}
}

// reach prints what this process may do to another.
func reach(victim string) {
	var pid int
	_, _ = fmt.Sscan(victim, &pid)
	_, environ := os.ReadFile("/proc/" + victim + "/environ")
	fmt.Printf("signal: %v, rlimit: %v, environment: %v\n", unix.Kill(pid, 0), unix.Prlimit(pid, unix.RLIMIT_CORE, nil, new(unix.Rlimit)), bare(environ))
	os.Exit(0)
}

func bare(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// TestContainerWithoutTheIDs starts a sandbox as root of a user namespace with as many ids as containers have: it is
// nobody there, and Probe says so.
func TestContainerWithoutTheIDs(t *testing.T) {
	if os.Getenv("SILK_TEST_CONTAINER") == "" {
		testenv.Require(t, testenv.Root)
		ids := []syscall.SysProcIDMap{{Size: 1 << 16}}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestContainerWithoutTheIDs$", "-test.v")
		cmd.Env = append(os.Environ(), "SILK_TEST_CONTAINER=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "\n--- PASS: ") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	h := testHost(t)
	if _, id := h.born(t); id != (identity{nobody, nobody}) {
		t.Errorf("a sandbox is %+v, want %d", id, nobody)
	}
	notes, err := (&Driver{host: h}).Probe(t.Context(), driver.Spec{CPUs: 1})
	if err != nil || !strings.Contains(strings.Join(notes, "\n"), "share the id 65534") {
		t.Errorf("Probe says %q, %v", notes, err)
	}
}

func TestMapped(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       bool
	}{
		{"the host", "         0          0 4294967295\n", true},
		{"a container", "         0     100000      65536\n", false},
		{"exactly", fmt.Sprintf("%d 5 %d\n", firstID, lastID-firstID+1), true},
		{"one too few", fmt.Sprintf("0 0 1\n%d 5 %d\n", firstID, lastID-firstID), false},
		{"from the second on", fmt.Sprintf("%d 5 %d\n", firstID+1, lastID), false},
		{"nothing", "", false},
	} {
		file := filepath.Join(t.TempDir(), "map")
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := mapped(file); got != test.want {
			t.Errorf("%s: mapped = %t, want %t", test.name, got, test.want)
		}
	}
	if mapped("/no/such/file") {
		t.Error("a map that cannot be read has all")
	}
}
