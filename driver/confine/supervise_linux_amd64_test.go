package confine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// envRole makes this test's executable the process that becomes a program, and then the program.
const envRole = "SILK_TEST_CONFINE"

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "stage":
		fmt.Fprintln(os.Stderr, becomeProgram())
		os.Exit(1)
	case "program":
		program()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Descriptors of the first role.
const (
	stageListener = 3 // to which it writes the number of the listener
	stageGo       = 4 // from which it reads that somebody answers
)

func becomeProgram() error {
	runtime.LockOSThread()
	filter, err := Policy{Network: driver.NetworkDeny, NoSpawn: true}.Asking()
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	listener, err := Listen(filter)
	if err != nil {
		return err
	}
	if _, err := unix.Write(stageListener, binary.NativeEndian.AppendUint32(nil, uint32(listener))); err != nil {
		return err
	}
	if n, err := unix.Read(stageGo, make([]byte, 1)); n != 1 {
		return errors.Join(err, errors.New("nobody answers"))
	}
	return syscall.Exec("/proc/self/exe", []string{"program"}, []string{envRole + "=program"})
}

// program does what the test is about, and says what came of it.
func program() {
	self, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return
	}
	say := func(what string, err error) { fmt.Printf("%s: %v\n", what, err) }
	open := func(name string, flags int) error {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Read(fd, make([]byte, 16))
			_ = unix.Close(fd)
		}
		return err
	}
	say("own status", open("/proc/self/status", unix.O_RDONLY))
	say("own program", open(self, unix.O_RDONLY))
	say("a file in no tree", open("/etc/debian_version", unix.O_RDONLY))
	say("executing again", unix.Exec(self, []string{"x"}, nil))
	fd, err := unix.Open(self, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		empty, none := []byte{0}, uintptr(0)
		_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(&empty[0])), uintptr(unsafe.Pointer(&none)), uintptr(unsafe.Pointer(&none)), unix.AT_EMPTY_PATH, 0)
		err = errno
	}
	say("executing a descriptor", err)
	_, _, errno := unix.RawSyscall(unix.SYS_EXECVE, 1, 0, 0) // a path that cannot be read: yet
	say("executing nothing", errno)
	_, err = unix.MemfdCreate("x", 0)
	say("a file without a name", err)
	say("accounts", open("/etc/passwd", unix.O_RDONLY))
}

// TestSupervisor: a program on this kernel, and who answers for it.
func TestSupervisor(t *testing.T) {
	testenv.Require(t, testenv.Root) // as which files of /proc are opened for somebody else
	testenv.NoLeaks(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	listenerR, listenerW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer listenerR.Close()
	goR, goW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer goW.Close()
	cmd := exec.CommandContext(t.Context(), self)
	var out bytes.Buffer
	cmd.Env, cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []string{envRole + "=stage"}, []*os.File{listenerW, goR}, &out, &out
	err = cmd.Start()
	listenerW.Close()
	goR.Close()
	if err != nil {
		t.Fatal(err)
	}
	number := make([]byte, 4)
	if _, err := listenerR.Read(number); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	process, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	listener, err := unix.PidfdGetfd(process, int(binary.NativeEndian.Uint32(number)), 0)
	if err != nil {
		t.Fatal(err)
	}
	root, err := OpenRoot("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var refused Refusals
	calls := map[string]int{}
	s := Supervise(Supervision{
		Listener: listener, Root: root, Policy: Policy{Network: driver.NetworkDeny, NoSpawn: true, Trees: []string{filepath.Dir(self), "/usr", "/lib", "/lib64", "/etc/ld.so.cache"}}, First: cmd.Process.Pid,
		Forbidden: sight, End: func() { t.Error("nobody answers") }, Seen: func(s Seen) { calls[s.Call]++ }, Refused: &refused,
	})
	if _, err := goW.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if err := errors.Join(err, s.Close()); err != nil {
		t.Error(err)
	}
	want := strings.Join([]string{
		"own status: <nil>", "own program: <nil>", "a file in no tree: permission denied", "executing again: operation not permitted",
		"executing a descriptor: operation not permitted", "executing nothing: operation not permitted", "a file without a name: function not implemented", "accounts: errno 4090", "",
	}, "\n")
	if out.String() != want {
		t.Errorf("the program says\n%s\nwant\n%s", out.String(), want)
	}
	if v := s.Violation(); v == nil || v.Rule != "file.accounts" || v.Argument != "/etc/passwd" {
		t.Errorf("violation %+v", v)
	}
	counts := map[string]int64{}
	for _, r := range refused.List() {
		counts[r.Rule] = r.Count
	}
	if counts["process.spawn"] != 3 || counts["file.unlisted"] < 1 {
		t.Errorf("refused %v", counts)
	}
	if calls["execve"] != 3 || calls["openat"] < 4 {
		t.Errorf("seen %v", calls)
	}
}
