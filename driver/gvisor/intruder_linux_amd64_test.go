package gvisor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net"
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

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// intruderVariable is set in a test that has started itself anew.
const intruderVariable = "SILK_TEST_INTRUDER_PATH" // the built testdata/intruder

// ordinary is an ordinary user on every Linux.
const ordinary = 65534

// buildIntruder builds the program that takes the sandbox kernel's place where everybody can execute it.
func buildIntruder(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(intruderVariable); path != "" {
		return path
	}
	testenv.Require(t, testenv.Userns)
	dir := t.TempDir()
	path := filepath.Join(dir, "silk-sentry")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./testdata/intruder")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	open(t, dir)
	return path
}

// open lets everybody into a directory of a test's own.
func open(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
}

// intruding is a driver whose sandbox kernels are intruders, and the request that tells them what to try.
func intruding(t *testing.T, path string, targets map[string]any) (*gvisor.Driver, driver.Spec) {
	t.Helper()
	d, err := gvisor.New(gvisor.Config{Sentry: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	image, err := os.Open(path) // it does not look into it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { image.Close() })
	text, err := json.Marshal(targets)
	if err != nil {
		t.Fatal(err)
	}
	s := spec(image, "true")
	s.Env = []string{"INTRUDER=" + string(text)}
	return d, s
}

// keyName is the name of a key that the engine of an intruder has in its session keyring.
const keyName = "silk-intruder"

// again runs this test in another process, as user if that is not nil, with a key in its session keyring: only a process
// that is started with one has it in all threads.
func again(t *testing.T, path string, user *syscall.Credential) {
	t.Helper()
	home := t.TempDir()
	open(t, home)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$", "-test.v")
	cmd.Dir = home
	cmd.Env = append(os.Environ(), intruderVariable+"="+path, "TMPDIR="+home)
	if user != nil {
		testenv.Require(t, testenv.Root)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
		if err := os.Chown(home, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the keyring is this thread's, which ends with the goroutine
		_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
		if err == nil {
			_, err = unix.AddKey("user", keyName, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
		}
		if errors.Is(err, unix.ENOSYS) { // a kernel without keys
			err = nil
		}
		started <- errors.Join(err, cmd.Start())
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "\n--- PASS: ") {
		t.Errorf("%v\n%s", err, out.String())
		return
	}
	t.Log(out.String())
}

// TestIntruder puts a program into the sandbox kernel's place that no seccomp filter holds: it gets nothing of the host,
// of other sandboxes or of the engine.
func TestIntruder(t *testing.T) {
	path := buildIntruder(t)
	if os.Getenv(intruderVariable) == "" {
		t.Run("whoever tests", func(t *testing.T) { again(t, path, nil) })
		t.Run("ordinary user", func(t *testing.T) { again(t, path, &syscall.Credential{Uid: ordinary, Gid: ordinary}) })
		return
	}
	host := hostTargets(t)
	// Another sandbox runs beside it: its processes and sockets are none of the intruder's.
	d, s := intruding(t, path, map[string]any{"Stay": "orphan"})
	other, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		other.Kill(driver.KillNow)
		if _, err := other.Wait(); err != nil {
			t.Error(err)
		}
	}()
	text, err := json.Marshal(host.targets)
	if err != nil {
		t.Fatal(err)
	}
	s.Env = []string{"INTRUDER=" + string(text)}
	out, exit := output(t, d, s)
	if exit.Code != 0 || exit.Signal != 0 {
		t.Errorf("the intruder ended with %+v", exit)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		t.Logf("%-28s %s", name, got[name])
	}
	if diff := cmp.Diff(intruderGets(), got); diff != "" {
		t.Errorf("what an intruder gets (-want +got):\n%s", diff)
	}
	host.check(t)
}

// intruderGets is what comes of the tries of testdata/intruder.
func intruderGets() map[string]string {
	const eperm, enoent, esrch, erofs, ebadf = "operation not permitted", "no such file or directory", "no such process", "read-only file system", "bad file descriptor"
	userNamespace := "no space left on device"
	var sys unix.Statfs_t
	if err := unix.Statfs("/proc/sys/user", &sys); err == nil && sys.Flags&unix.ST_RDONLY != 0 { // package stage says why
		userNamespace = "done"
	}
	return map[string]string{
		"files: the root has": "/proc /proc/cpuinfo /proc/self /proc/self/maps /proc/sys /proc/sys/vm /proc/sys/vm/mmap_min_addr",
		"files: of the host":  enoent, "files: above the root": "the root", "files: create": erofs, "files: by handle": eperm,
		"files: into the executable": ebadf, "files: into the image": ebadf,
		"files: descriptors": "0 device, 1 device, 2 pipe, 3 socket, 4 file, 254 file, 255 device",

		"processes: that exist": "[1]", "processes: trace": esrch, "processes: memory": esrch, "processes: a handle": esrch, "processes: signal": esrch,
		"processes: signal to all": esrch, "processes: limits": esrch, "processes: parent": "0",

		"ipc: an abstract socket": "connection refused", "ipc: shared memory": enoent, "ipc: the engine's keys": "required key not available",

		"network: devices": "lo loopback", "network: to lo": "network is unreachable", "network: out": "network is unreachable",
		"network: raw": eperm, "network: packets": eperm, "network: raise lo": eperm,

		"mounts: tmpfs": eperm, "mounts: a new tree": eperm, "mounts: a copy": eperm, "mounts: writable": eperm, "mounts: take away": eperm,
		"mounts: another": eperm, "mounts: chroot": eperm, "control groups": enoent, "settings of the host": enoent,

		"privilege: capabilities": "true 0", "privilege: gain them": eperm, "privilege: ambient": eperm, "privilege: root": "invalid argument", "privilege: root's group": "invalid argument",
		"privilege: groups": eperm, "privilege: who it is": "65534 65534", "privilege: new privileges": "invalid argument",
		"privilege: user namespace": userNamespace, "privilege: other namespace": eperm, "privilege: host name": eperm, "privilege: more files": eperm,
		"privilege: priority": "permission denied", "privilege: BPF": eperm, "privilege: reboot": eperm, "privilege: swap": eperm,

		"told: environment": "[]", "told: arguments": "silk-sentry and 3 numbers", "told: host name": "silk, <nil>",
	}
}

// onHost is what a test has put on the host for an intruder to find.
type onHost struct {
	targets map[string]any
	victim  *exec.Cmd
	file    string
}

const content = "what an intruder must not change\n"

func hostTargets(t *testing.T) onHost {
	t.Helper()
	dir := t.TempDir()
	open(t, dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	victim := exec.CommandContext(t.Context(), "sleep", "600")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	abstract := "silk-intruder-" + strconv.Itoa(os.Getpid())
	unixSocket, err := net.Listen("unix", "@"+abstract)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	key := 0x51000000 | os.Getpid()
	shm, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
		unixSocket.Close()
		tcp.Close()
		if _, err := unix.SysvShmCtl(shm, unix.IPC_RMID, nil); err != nil {
			t.Error(err)
		}
	})
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	portNumber, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return onHost{
		victim: victim, file: file,
		targets: map[string]any{
			"Files": []string{file, dir, "/etc/passwd", "/bin", "/dev/null", "/tmp", "/sys", "/proc/1", "/proc/version", "/proc/self/fd", "/proc/self/exe", testenv.Home(), "/root"},
			"Pid":   victim.Process.Pid, "Abstract": abstract, "TCP": portNumber, "Shm": key, "Key": keyName,
		},
	}
}

// check says what an intruder has changed.
func (h onHost) check(t *testing.T) {
	t.Helper()
	if !testenv.Alive(h.victim.Process.Pid) {
		t.Error("a process of the host was ended")
	}
	if b, err := os.ReadFile(h.file); err != nil || string(b) != content {
		t.Errorf("a file of the host: %q, %v", b, err)
	}
	if id, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", keyName, 0); err != nil && !errors.Is(err, unix.ENOSYS) {
		t.Errorf("the engine's own key: %d, %v", id, err) // else that it was not found would show nothing
	}
}
