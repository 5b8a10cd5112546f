package stage

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// executables puts elf, and the executable other if there is one, where a stage has them.
func executables(t *testing.T, elf []byte, other string, attr *os.ProcAttr) {
	t.Helper()
	open := func(fd int, err error) *os.File {
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "")
		t.Cleanup(func() { f.Close() })
		return f
	}
	attr.Files = append(attr.Files, make([]*os.File, OtherFD+1-len(attr.Files))...)
	attr.Files[SelfFD] = open(Memfd("test", elf))
	if other != "" {
		attr.Files[OtherFD] = open(unix.Open(other, unix.O_PATH|unix.O_CLOEXEC, 0))
	}
}

// output starts a stage with pipes as stdout and stderr and waits for the end of what it makes.
func output(t *testing.T, s Stage, other string, uid, gid int) (stdout, stderr string, ok bool) {
	t.Helper()
	outR, outW := pipe(t)
	errR, errW := pipe(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	attr := &os.ProcAttr{Dir: "/", Env: []string{"A=b"}, Files: []*os.File{null, outW, errW, null, null}}
	executables(t, s.ELF, other, attr)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := Start([]string{"stage", "one", "two"}, attr, uid, gid)
	if err != nil {
		t.Fatal(err)
	}
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
	c := Config{Dirs: []string{"a", "a/b"}, Files: []File{{"a/b/c", "content\n"}}, LastCap: lastCap(t), Groups: os.Getuid() == 0}
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
	if d := cmp.Diff(want, behind(t, New(c), look)); d != "" {
		t.Errorf("seen behind the stage (-want +got):\n%s", d)
	}
	// Without that limit, which needs a writable /proc/sys, there are user namespaces, and they give nothing of the host.
	want["nested"] = nestedWant()
	c.nested = true
	if d := cmp.Diff(want, behind(t, New(c), look)); d != "" {
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

// behind runs look behind a stage.
func behind(t *testing.T, s Stage, look string) (got map[string]any) {
	t.Helper()
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 { // not root's: it could write to the host's control groups
		uid, gid = 0x78000000, 0x78000000
	}
	stdout, stderr, ok := output(t, s, look, uid, gid)
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

// TestStageSaysWhatFailed runs a stage that has a directory to make where there is no directory above it.
func TestStageSaysWhatFailed(t *testing.T) {
	testenv.Require(t, testenv.Userns)
	s := New(Config{Dirs: []string{"a/b"}, LastCap: lastCap(t)})
	_, stderr, ok := output(t, s, "", os.Getuid(), os.Getgid())
	why, is := s.Explain(stderr)
	const want = "make /a/b: no such file or directory"
	if ok || !is || why != want {
		t.Errorf("success %t, said %q, explained as %q, want %q", ok, stderr, why, want)
	}
}

// TestStartOfAnother asks for ids that this process may not give: there is a process then, which gets no further, and an error.
func TestStartOfAnother(t *testing.T) {
	testenv.Require(t, testenv.Userns)
	attr := &os.ProcAttr{}
	executables(t, New(Config{LastCap: lastCap(t)}).ELF, "", attr)
	p, err := Start([]string{"stage"}, attr, -1, 0)
	if err == nil || p == nil {
		t.Fatalf("Start with an id that is none = %v, %v", p, err)
	}
	if state, err := p.Wait(); err != nil || state.Success() { // it sees the end of the socket
		t.Errorf("the process without ids ended with %v, %v", state, err)
	}
}

// TestStartOfADeadStage has the stage end between the making of the process and its report, as if it were killed there: nobody waits
// for it, and of the process nothing is left.
func TestStartOfADeadStage(t *testing.T) {
	testenv.Require(t, testenv.Userns)
	elf := New(Config{LastCap: lastCap(t)}).ELF
	write := []byte{0x41, 0x89, 0x46, 0xf8, 0xb8, unix.SYS_WRITE, 0, 0, 0} // mov [r14-8], eax; mov eax, SYS_write
	at := bytes.Index(elf, write)
	if at < 0 {
		t.Fatal("the stage reports in another way")
	}
	elf[at+5] = unix.SYS_EXIT_GROUP
	attr := &os.ProcAttr{}
	executables(t, elf, "", attr)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := children()
	if p, err := Start([]string{"stage"}, attr, os.Getuid(), os.Getgid()); p != nil || !errors.Is(err, unix.EAGAIN) {
		t.Errorf("Start = %v, %v, want no process", p, err)
	}
	if after := children(); !slices.Equal(after, before) {
		t.Errorf("children %v are left, there were %v", after, before)
	}
}

// TestStartIsRefused runs a stage as a user who may have one process.
func TestStartIsRefused(t *testing.T) {
	testenv.Require(t, testenv.Root)
	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &had); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: had.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &had); err != nil {
			t.Error(err)
		}
	}()
	attr := &os.ProcAttr{Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 0x78000001, Gid: 0x78000001}}}
	executables(t, New(Config{}).ELF, "", attr)
	if p, err := Start([]string{"stage"}, attr, 0, 0); p != nil || !errors.Is(err, unix.EAGAIN) {
		t.Errorf("Start = %v, %v, want no process and EAGAIN", p, err)
	}
}

func TestExplain(t *testing.T) {
	s := New(Config{})
	report := func(index int, errno syscall.Errno) string {
		b := binary.LittleEndian.AppendUint32([]byte(mark), uint32(index))
		return string(binary.LittleEndian.AppendUint32(b, uint32(errno)))
	}
	for give, want := range map[string]string{
		report(1, unix.EINVAL):            "close the socket: invalid argument",
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
	attr := &os.ProcAttr{}
	executables(t, Init(), "", attr)
	p, err := os.StartProcess("/proc/self/fd/"+strconv.Itoa(SelfFD), []string{"init"}, attr)
	if err != nil {
		t.Fatal(err)
	}
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
