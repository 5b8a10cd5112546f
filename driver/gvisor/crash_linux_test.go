package gvisor_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// spec is an ordinary run of args.
func spec(root *os.File, args ...string) driver.Spec {
	return driver.Spec{
		ID: "test", Image: root, Trees: []string{"/usr", "/bin", "/lib", "/lib64", "/etc"}, Args: args, Env: []string{"PATH=/usr/bin:/bin", "HOME=/workspace"}, Dir: "/workspace", Hostname: "silk",
		Network: driver.NetworkDeny, MemoryBytes: 256 << 20, WorkspaceBytes: 64 << 20, TmpBytes: 16 << 20, ShmBytes: 16 << 20, Processes: 64, CPUs: 1,
		Stdout: null, Stderr: null,
	}
}

// null is where output goes that no test looks at. It stays open.
var null = func() *os.File {
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	return f
}()

// output runs a spec to its end and returns what it printed.
func output(t *testing.T, d driver.Driver, s driver.Spec) (string, driver.Exit) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.Stdout, s.Stderr = w, w
	sandbox, err := d.Start(t.Context(), s)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := sandbox.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return string(out), exit
}

// TestEngineKilled kills an engine with SIGKILL while its sandbox runs: the sandbox must be gone within a second, and
// the next sweep takes the control groups away.
func TestEngineKilled(t *testing.T) {
	if os.Getenv("SILK_TEST_ENGINE") != "" {
		engine(t)
		return
	}
	newDriver(t)
	testenv.NoLeaks(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestEngineKilled$")
	cmd.Env = append(os.Environ(), "SILK_TEST_ENGINE=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	pid, perr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || perr != nil {
		t.Fatalf("the engine said %q: %v, %v", line, err, perr)
	}
	killed := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for running(pid) {
		if time.Since(killed) > time.Second {
			t.Fatal("the sandbox still lives a second after its engine was killed")
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the engine ended by itself")
	}
	if err := newDriver(t).Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

// running says whether a process still executes. One that waits for its parent to reap it does not.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}

// engine is the process that TestEngineKilled kills. It prints the pid of its sandbox kernel when the program runs.
func engine(t *testing.T) {
	d := newDriver(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := spec(openImage(t), "sh", "-c", "trap '' TERM INT HUP; echo up; while :; do :; done")
	s.Stdout = w
	if _, err := d.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := r.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	children, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range children {
		stat, err := os.ReadFile("/proc/" + c.Name() + "/stat")
		fields := strings.Fields(string(stat))
		if err == nil && len(fields) > 3 && fields[3] == strconv.Itoa(os.Getpid()) {
			if _, err := os.Stdout.WriteString(c.Name() + "\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {} // until killed
}

func TestManyAtOnce(t *testing.T) {
	d := newDriver(t)
	root := openImage(t)
	defer root.Close()
	testenv.NoLeaks(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			want := strconv.Itoa(i)
			if got, exit := output(t, d, spec(root, "sh", "-c", "echo $0; exit $0", want)); got != want+"\n" || exit.Code != i {
				t.Errorf("sandbox %d printed %q and exited with %+v", i, got, exit)
			}
		})
	}
	wg.Wait()
}

func TestPreparedKernelServesOneRun(t *testing.T) {
	d := newDriver(t)
	root := openImage(t)
	defer root.Close()
	testenv.NoLeaks(t)
	release := d.Prepare(t.Context())
	unused := d.Prepare(t.Context())
	for range 2 {
		if got, _ := output(t, d, spec(root, "echo", "hi")); got != "hi\n" {
			t.Errorf("printed %q", got)
		}
	}
	release()
	unused()
}

// TestMounts lays the image itself over a directory of the workspace: it is an EROFS file as good as any.
func TestMounts(t *testing.T) {
	d := newDriver(t)
	root := openImage(t)
	defer root.Close()
	testenv.NoLeaks(t)
	s := spec(root, "sh", "-c", "ls -d data/deep/usr; touch data/deep/x 2>&1; ls /workspace; cat /proc/self/mounts | grep -c host")
	s.Mounts = []driver.Mount{{Image: root, Target: "/workspace/data/deep"}}
	got, _ := output(t, d, s)
	want := "data/deep/usr\ntouch: cannot touch 'data/deep/x': Read-only file system\ndata\n0\n"
	if got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestLongCommandLine(t *testing.T) {
	d := newDriver(t)
	root := openImage(t)
	defer root.Close()
	long := strings.Repeat("x", 100_000)
	s := spec(root, append([]string{"sh", "-c", `printf %s "$@" | wc -c`, "sh"}, slices.Repeat([]string{long}, 10)...)...)
	if got, _ := output(t, d, s); got != "1000000\n" {
		t.Errorf("printed %q, want all of a megabyte", got)
	}
}

func TestStartRefusesWhatIsNoImage(t *testing.T) {
	d := newDriver(t)
	testenv.NoLeaks(t)
	file, err := os.Create(t.TempDir() + "/image")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := d.Start(t.Context(), spec(file, "true")); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a writable image: %v", err)
	}
	empty, err := os.Open(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if _, err := d.Start(t.Context(), spec(empty, "true")); err == nil {
		t.Error("an empty image was started")
	}
	if _, err := os.Stat(file.Name()); errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestKernelThatDiesAtOnce must end in an error, whenever it dies.
func TestKernelThatDiesAtOnce(t *testing.T) {
	testenv.Require(t, testenv.Image(labText))
	testenv.NoLeaks(t)
	root := openImage(t)
	defer root.Close()
	d, err := gvisor.New(gvisor.Config{Sentry: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 20 {
		release := d.Prepare(t.Context())
		if _, err := d.Start(t.Context(), spec(root, "true")); err == nil || !strings.Contains(err.Error(), "execute the sandbox kernel") { // what happened to it, not to us
			t.Errorf("start with a kernel that dies: %v", err)
		}
		release()
	}
}
