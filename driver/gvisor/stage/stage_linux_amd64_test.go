package stage

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// start runs one of our hand-written executables on the host's kernel, which knows best whether it is one.
func start(t *testing.T, elf []byte, other string, attr *os.ProcAttr) *os.Process {
	t.Helper()
	fd, err := Memfd("test", elf)
	if err != nil {
		t.Fatal(err)
	}
	self := os.NewFile(uintptr(fd), "stage")
	defer self.Close()
	attr.Files = append(attr.Files, make([]*os.File, SelfFD+2-len(attr.Files))...)
	attr.Files[SelfFD] = self
	if other != "" {
		fd, err := unix.Open(other, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), other)
		defer f.Close()
		attr.Files[OtherFD] = f
	}
	p, err := os.StartProcess("/proc/self/fd/"+strconv.Itoa(SelfFD), []string{"stage", "one", "two"}, attr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// output starts elf with pipes as stdout and stderr and waits for its end.
func output(t *testing.T, elf []byte, other string, sys *syscall.SysProcAttr) (stdout, stderr string, ok bool) {
	t.Helper()
	outR, outW := pipe(t)
	errR, errW := pipe(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p := start(t, elf, other, &os.ProcAttr{Dir: "/", Env: []string{"A=b"}, Files: []*os.File{null, outW, errW, null, null}, Sys: sys})
	outW.Close()
	errW.Close()
	out, err := io.ReadAll(outR)
	if err != nil {
		t.Fatal(err)
	}
	say, err := io.ReadAll(errR)
	if err != nil {
		t.Fatal(err)
	}
	state, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return string(out), string(say), state.Success()
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// TestStageTakesEverythingAway looks at itself from behind a stage.
func TestStageTakesEverythingAway(t *testing.T) {
	testenv.Require(t, testenv.Userns)
	look := filepath.Join(t.TempDir(), "look")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", look, "./testdata/look")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // nothing to link with in an empty root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := New([]string{"a", "a/b"}, []File{{"a/b/c", "content\n"}}, lastCap(t))
	defer syscall.Umask(syscall.Umask(0o777)) // the stage makes its files readable whatever its caller's mask is
	zero := map[string]any{"Effective": 0.0, "Permitted": 0.0, "Inheritable": 0.0}
	want := map[string]any{
		"args": []any{"stage", "one", "two"}, "env": []any{"A=b"},
		"files":      map[string]any{".": "", "a": "", "a/b": "", "a/b/c": "content\n"},
		"root flags": float64(unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC),
		"bounding":   0.0, "no_new_privs": 1.0, "capabilities": []any{zero, zero},
		"host": "silk", "mount": "operation not permitted", "chroot": "operation not permitted",
		"nested": map[string]any{"user namespace": "no space left on device"},
	}
	var sys unix.Statfs_t
	if err := unix.Statfs("/proc/sys/user", &sys); err == nil && sys.Flags&unix.ST_RDONLY != 0 { // a container's
		want["nested"] = nestedWant()
	}
	if d := cmp.Diff(want, behind(t, s, look, unix.CAP_SYS_RESOURCE)); d != "" {
		t.Errorf("seen behind the stage (-want +got):\n%s", d)
	}
	// Without that limit, which needs a writable /proc/sys, there are user namespaces, and they give nothing of the host.
	want["nested"] = nestedWant()
	if d := cmp.Diff(want, behind(t, s, look)); d != "" {
		t.Errorf("seen behind the stage that cannot forbid user namespaces (-want +got):\n%s", d)
	}
}

// nestedWant is what comes of the steps of testdata/look/nested.go: what is done concerns the process's own namespaces.
func nestedWant() map[string]any {
	const eperm = "operation not permitted"
	return map[string]any{
		"host name": eperm, "more files than allowed": eperm, "become root": "invalid argument",
		"own mount namespace": "done", "own tmpfs": "done", "a block device": "value too large for defined data type", "proc": eperm, "sysfs": eperm,
		"root writable again": eperm, "below the root": "invalid argument", "a file of the host": "no such file or directory", "a file by its handle": eperm,
		"own cgroup namespace": "done", "control groups": "done", "write to its control group": "permission denied", "make a control group": "permission denied",
		"own network namespace": "done", "socket": "done", "the network": "network is unreachable",
		"a BPF program": eperm, "system log": eperm,
	}
}

// behind runs look behind a stage that has what it needs, and more capabilities.
func behind(t *testing.T, s Stage, look string, more ...uintptr) (got map[string]any) {
	t.Helper()
	const id = 65534
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 { // not root's: it could write to the host's control groups
		uid, gid = 0x78000000, 0x78000000
	}
	stdout, stderr, ok := output(t, s.ELF, look, &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS,
		Credential:  &syscall.Credential{Uid: id, Gid: id, NoSetGroups: true},
		UidMappings: []syscall.SysProcIDMap{{ContainerID: id, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: id, HostID: gid, Size: 1}},
		AmbientCaps: append(more, unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SETPCAP),
	})
	if why, is := s.Explain(stderr); !ok || is || stderr != "" {
		t.Fatalf("the stage failed: %q %s", stderr, why)
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return got
}

func lastCap(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestStageSaysWhatFailed runs a stage whose first mount is refused: it has neither a namespace nor a right.
func TestStageSaysWhatFailed(t *testing.T) {
	s := New(nil, nil, 40)
	sys := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		sys.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	_, stderr, ok := output(t, s.ELF, "", sys)
	why, is := s.Explain(stderr)
	const want = "make mounts private: operation not permitted"
	if ok || !is || why != want {
		t.Errorf("success %t, said %q, explained as %q, want %q", ok, stderr, why, want)
	}
}

func TestExplain(t *testing.T) {
	s := New(nil, nil, 0)
	report := func(index int, errno syscall.Errno) string {
		b := binary.LittleEndian.AppendUint32([]byte(mark), uint32(index))
		return string(binary.LittleEndian.AppendUint32(b, uint32(errno)))
	}
	for give, want := range map[string]string{
		report(1, unix.EINVAL):            "make mounts private: invalid argument",
		report(len(s.calls), unix.EACCES): "execute the sandbox kernel: permission denied",
		report(1, unix.EINVAL) + "x":      "",
		"panic: oh no":                    "",
		"":                                "",
	} {
		if got, _ := s.Explain(give); got != want {
			t.Errorf("Explain(%q) = %q, want %q", give, got, want)
		}
	}
}

func TestInitSleeps(t *testing.T) {
	p := start(t, Init(), "", &os.ProcAttr{})
	defer func() { // it never ends by itself
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
	}()
	call := func() string {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/syscall")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	pause := strconv.Itoa(unix.SYS_PAUSE) + " "
	for !strings.HasPrefix(call(), pause) {
	}
}
