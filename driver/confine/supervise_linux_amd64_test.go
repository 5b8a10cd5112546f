package confine

import (
	"bytes"
	"context"
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
	"time"
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
	case "opens":
		fmt.Println(opens())
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
	return syscall.Exec("/proc/self/exe", []string{"program"}, []string{envRole + "=" + os.Args[1]})
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

// supervised is a process that becomes a program when somebody answers.
type supervised struct {
	cmd      *exec.Cmd
	out      bytes.Buffer
	listener int
	root     Root
	answers  *os.File // what it waits for
}

// supervise starts one that becomes what a role does.
func supervise(t *testing.T, role string) *supervised {
	t.Helper()
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
	t.Cleanup(func() { goW.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // one that gets no answer waits for ever
	t.Cleanup(cancel)
	p := &supervised{cmd: exec.CommandContext(ctx, self, role), answers: goW}
	p.cmd.Env, p.cmd.ExtraFiles, p.cmd.Stdout, p.cmd.Stderr = []string{envRole + "=stage"}, []*os.File{listenerW, goR}, &p.out, &p.out
	err = p.cmd.Start()
	listenerW.Close()
	goR.Close()
	if err != nil {
		t.Fatal(err)
	}
	number := make([]byte, 4)
	if _, err := listenerR.Read(number); err != nil {
		t.Fatalf("%v: %s", err, p.out.String())
	}
	process, err := unix.PidfdOpen(p.cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	if p.listener, err = unix.PidfdGetfd(process, int(binary.NativeEndian.Uint32(number)), 0); err != nil {
		t.Fatal(err)
	}
	if p.root, err = OpenRoot("/"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.root.Close() })
	return p
}

// policy is that of the tests' programs.
func (p *supervised) policy() Policy {
	return Policy{Network: driver.NetworkDeny, NoSpawn: true, Trees: []string{filepath.Dir(p.cmd.Path), "/usr", "/lib", "/lib64", "/etc/ld.so.cache"}}
}

// TestSupervisor: a program on this kernel, and who answers for it.
func TestSupervisor(t *testing.T) {
	p := supervise(t, "program")
	var refused Refusals
	calls := map[string]int{}
	s := Supervise(Supervision{
		Listener: p.listener, Root: p.root, Policy: p.policy(), First: p.cmd.Process.Pid,
		Forbidden: sight, End: func() { t.Error("nobody answers") }, Seen: func(s Seen) { calls[s.Call]++ }, Refused: &refused,
	})
	if _, err := p.answers.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	err := p.cmd.Wait()
	if err := errors.Join(err, s.Close()); err != nil {
		t.Error(err)
	}
	want := strings.Join([]string{
		"own status: <nil>", "own program: <nil>", "a file in no tree: permission denied", "executing again: operation not permitted",
		"executing a descriptor: operation not permitted", "executing nothing: operation not permitted", "a file without a name: function not implemented", "accounts: errno 4090", "",
	}, "\n")
	if p.out.String() != want {
		t.Errorf("the program says\n%s\nwant\n%s", p.out.String(), want)
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

// often is how often opens opens a file that it is given.
const often = 2000

// opens opens a file that it is given, again and again, and says what was wrong with the first that was another.
func opens() string {
	first := make([]byte, 5)
	for i := range often {
		fd, err := unix.Open("/proc/self/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil && fd <= 2 {
			err = fmt.Errorf("it is descriptor %d", fd)
		}
		if err == nil {
			_, err = unix.Read(fd, first)
			_ = unix.Close(fd)
		}
		if err != nil || string(first) != "Name:" {
			return fmt.Sprintf("opening %d: %q, %v", i, first, err)
		}
	}
	return "all opened"
}

// TestSignalsDuringAnswers: signals to the thread that answers take no answer back. Go's runtime sends it some on a busy machine; here it is some for each
// question.
func TestSignalsDuringAnswers(t *testing.T) {
	p := supervise(t, "opens")
	asked, sent := make(chan struct{}, 1), make(chan struct{})
	var refused Refusals
	s := Supervise(Supervision{
		Listener: p.listener, Root: p.root, Policy: p.policy(), First: p.cmd.Process.Pid,
		Forbidden: sight, End: func() { t.Error("nobody answers") }, Refused: &refused,
		Seen: func(Seen) {
			select {
			case asked <- struct{}{}:
			default: // those of the last question are on their way
			}
		},
	})
	go func() {
		defer close(sent)
		for range asked {
			for range 20 {
				_ = unix.Tgkill(os.Getpid(), int(s.thread.Load()), unix.SIGURG) // the runtime's own
			}
		}
	}()
	if _, err := p.answers.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	err := p.cmd.Wait()
	err = errors.Join(err, s.Close())
	close(asked)
	<-sent
	if err != nil || p.out.String() != "all opened\n" {
		t.Errorf("the program says %q, %v", p.out.String(), err)
	}
}
