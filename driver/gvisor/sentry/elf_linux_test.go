package sentry

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// start runs one of our hand-written executables on the host's kernel, which knows best whether it is one.
func start(t *testing.T, elf []byte, attr *os.ProcAttr) *os.Process {
	t.Helper()
	fd, err := memfdOf("test", elf)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	p, err := os.StartProcess(fmt.Sprintf("/proc/self/fd/%d", fd), []string{"test"}, attr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestInitSleepsAndIgnoresSignals(t *testing.T) {
	p := start(t, initELF(), &os.ProcAttr{})
	defer func() { // it never ends by itself
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
	}()
	status := func() string {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/status")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for !strings.Contains(status(), "State:\tS") { // until pause(2)
	}
	const all = "SigIgn:\tfffffffffffbfeff\n" // but SIGKILL, bit 8, and SIGSTOP, bit 18; signal(7)
	if s := status(); !strings.Contains(s, all) {
		t.Errorf("process 1 does not ignore all signals:\n%s", s)
	}
}

func TestUmountTakesProcAway(t *testing.T) {
	testenv.Require(t, testenv.Root)
	// A child in a mount namespace of its own, with its own /proc, runs the helper and looks.
	if os.Getenv("SILK_TEST_UMOUNT") != "" {
		umountInNamespace()
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestUmountTakesProcAway$")
	cmd.Env = append(os.Environ(), "SILK_TEST_UMOUNT=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func umountInNamespace() {
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fail(unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
	fail(unix.Mount("silk-test", "/proc", "tmpfs", 0, ""))
	fail(os.Mkdir("/proc/mine", 0o700))
	fd, err := unix.MemfdCreate("umount", 0)
	fail(err)
	_, err = unix.Write(fd, umountELF())
	fail(err)
	path := "/tmp/silk-umount-" + strconv.Itoa(os.Getpid()) // /proc is hidden, so no /proc/self/fd
	fail(os.WriteFile(path, umountELF(), 0o700))
	defer os.Remove(path)
	run := func(wake bool) bool {
		r, w, err := os.Pipe()
		fail(err)
		p, err := os.StartProcess(path, []string{"umount"}, &os.ProcAttr{Files: []*os.File{nil, nil, nil, r}})
		fail(err)
		fail(r.Close())
		if wake {
			_, err = w.Write([]byte{0})
			fail(err)
		}
		fail(w.Close())
		state, err := p.Wait()
		fail(err)
		return state.Success()
	}
	if run(false) {
		fail(fmt.Errorf("the helper succeeded without having been woken"))
	}
	if _, err := os.Stat("/proc/mine"); err != nil {
		fail(fmt.Errorf("the helper unmounted /proc without having been woken"))
	}
	if !run(true) {
		fail(fmt.Errorf("the helper reported a failure"))
	}
	if _, err := os.Stat("/proc/mine"); err == nil {
		fail(fmt.Errorf("/proc is still mounted"))
	}
	failed := false
	for range 3 {
		failed = failed || !run(true) // no more mounts than the real one: it must say so
	}
	if !failed {
		fail(fmt.Errorf("the helper never reports a failed umount"))
	}
	_ = os.Remove(path)
	os.Exit(0)
}
