package bpf

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/watch"
)

// busy starts processes and threads, opens files, fails, sends signals, computes: what a sandbox does all day.
const busy = `
for i in $(seq 20); do ls -lR /usr/lib >/dev/null 2>&1; date | tr a-z A-Z | sort >/tmp/out.$i; done
(sleep 5 & kill -9 $! ; wait) 2>/dev/null
for i in $(seq 40); do (exit $i) & done; wait
cat /no/such/file 2>/dev/null; /bin/false; kill -0 1
head -c 20000000 /dev/zero >/dev/shm/zero; rm /dev/shm/zero; dd if=/dev/zero of=/tmp/t bs=64k count=100 2>/dev/null
find /usr -name '*.so*' 2>/dev/null | wc -l; seq 100000 | awk '{s+=$1} END {print s}'; sqlite3 :memory: 'select 1'
`

// TestAlarmIsSilentAboutSentries: the host process of a gVisor sandbox, armed when its program has said its first word,
// does nothing until its end that would be an alarm.
func TestAlarmIsSilentAboutSentries(t *testing.T) {
	w := opened(t, Config{}, 0)
	sandbox := startSandbox(t, "echo first; read go\n"+busy+"echo last")
	s, err := w.Watch(sandbox.sentry, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Arm(); err != nil {
		t.Fatal(err)
	}
	before, err := s.Processes()
	if err != nil || len(before) < 2 {
		t.Errorf("Processes() = %v, %v, want the kernel and its stubs", before, err)
	}
	if _, err := sandbox.stdin.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	last := ""
	for sandbox.stdout.Scan() {
		last = sandbox.stdout.Text()
	}
	if err := sandbox.Wait(); err != nil || last != "last" {
		t.Fatalf("it ended with %v and %q: %s", err, last, sandbox.stderr.String())
	}
	if n, first, err := s.Alarms(); n != 0 || err != nil {
		t.Errorf("Alarms() = %d, %+v, %v, want none", n, first, err)
	}
	if pids, err := s.Processes(); err != nil || len(pids) != 0 {
		t.Errorf("Processes() = %v, %v, want none", pids, err)
	}
}

// sandbox is a silk with a program in a gVisor sandbox that has said its first word.
type sandbox struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Scanner
	stderr bytes.Buffer
	sentry int // pid of the sandbox's kernel
}

func startSandbox(t *testing.T, script string) *sandbox {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.BPF, testenv.Silk, testenv.Image("lab:text"))
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "system_store: %q\n", filepath.Join(testenv.Home(), "images")), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &sandbox{Cmd: exec.CommandContext(t.Context(), testenv.SilkPath(), "run", "-i", "--driver", "gvisor", "-p", "lab:text", "--", "bash", "-c", script)}
	s.Env = append(os.Environ(), "SILK_HOME="+filepath.Join(dir, "home"), "SILK_CONFIG="+config)
	s.Stderr = &s.stderr
	var err error
	if s.stdin, err = s.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdout = bufio.NewScanner(stdout)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Process.Kill()
		_ = s.Wait()
	})
	if !s.stdout.Scan() || s.stdout.Text() != "first" {
		_ = s.Process.Kill()
		t.Fatalf("it said %q: %v: %s", s.stdout.Text(), s.Wait(), s.stderr.String())
	}
	s.sentry = sentryOf(t, s.Process.Pid)
	return s
}

// sentryOf finds the sandbox kernel that a silk has started.
func sentryOf(t *testing.T, silk int) int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(silk) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if gone(err) { // a thread that has ended
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Fields(string(b)) {
			comm, err := os.ReadFile("/proc/" + field + "/comm")
			if err != nil || strings.TrimSpace(string(comm)) != "silk-sentry" {
				continue
			}
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("silk %d has no silk-sentry", silk)
	return 0
}

// TestAlarmOfBrokenOutSentry makes a running sandbox kernel do what code that has broken out of its guest would try
// first. Its own seccomp filter ends it for that, which is an alarm.
func TestAlarmOfBrokenOutSentry(t *testing.T) {
	w := opened(t, Config{}, 0)
	sandbox := startSandbox(t, "echo first; read go")
	s, err := w.Watch(sandbox.sentry, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Arm(); err != nil {
		t.Fatal(err)
	}
	inject(t, sandbox.sentry, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM)
	e := <-s.Events()
	if got := words([]watch.Event{e})[0]; got != "sigsys|socket" || e.Process != sandbox.sentry {
		t.Errorf("the alarm is %+v", e)
	}
	if n, first, err := s.Alarms(); n != 1 || err != nil || first != e {
		t.Errorf("Alarms() = %d, %+v, %v", n, first, err)
	}
	_ = sandbox.Wait()
}

// inject makes the first thread of a process make a system call, in place of the one that it waits in.
func inject(t *testing.T, pid int, number uint64, a, b uint64) {
	t.Helper()
	runtime.LockOSThread() // ptrace(2) is of one thread
	defer runtime.UnlockOSThread()
	var regs unix.PtraceRegs
	for {
		if err := unix.PtraceAttach(pid); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
			t.Fatal(err)
		}
		if err := unix.PtraceGetRegs(pid, &regs); err != nil {
			t.Fatal(err)
		}
		var code [2]byte
		if _, err := unix.PtracePeekText(pid, uintptr(regs.Rip)-2, code[:]); err != nil {
			t.Fatal(err)
		}
		if code == [2]byte{0x0f, 0x05} { // syscall: it is in one
			break
		}
		if err := unix.PtraceDetach(pid); err != nil {
			t.Fatal(err)
		}
	}
	regs.Rip -= 2
	regs.Rax, regs.Rdi, regs.Rsi, regs.Rdx = number, a, b, 0
	regs.Orig_rax = ^uint64(0) // no restart of the call that it was in
	if err := unix.PtraceSetRegs(pid, &regs); err != nil {
		t.Fatal(err)
	}
	if err := unix.PtraceDetach(pid); err != nil {
		t.Fatal(err)
	}
}
