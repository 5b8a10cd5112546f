package bpf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The programs that are watched are this test binary, started again. Each waits for one byte on its standard input, as the
// first process of a sandbox that shares the host's kernel does, and only then does what its name says.

const envProgram = "BPF_TEST_PROGRAM"

var programs = map[string]func(args []string){
	"seven":   seven,
	"refused": refused,
	"variants": func([]string) {
		call(unix.SYS_OPEN, str("/variants/open"), 0, 0)
		call(unix.SYS_CREAT, str("/variants/creat"), 0, 0)
		var how unix.OpenHow
		call(unix.SYS_OPENAT2, at, str("/variants/openat2"), ptr(&how), unsafe.Sizeof(how))
		call(unix.SYS_OPENAT, at, str("/variants/"+strings.Repeat("long", 200)), 0)
		call(unix.SYS_EXECVEAT, 12345, str(""), 0, 0, unix.AT_EMPTY_PATH)
		call(unix.SYS_SETRESUID, minus1, minus1, minus1)
		call(unix.SYS_SETREGID, minus1, minus1)
		call(unix.SYS_UMOUNT2, str("/variants/umount"), 0)
		call(unix.SYS_PIVOT_ROOT, str("/variants/pivot"), str("/variants/old"))
		call(unix.SYS_FSOPEN, str("variantfs"), 0)
		call(unix.SYS_IO_URING_SETUP, 0, 0)
	},
	"killed-by-seccomp": func([]string) {
		filter(unix.SYS_PERSONALITY, unix.SECCOMP_RET_KILL_PROCESS)
		call(unix.SYS_PERSONALITY, 0)
	},
	"trapped-by-seccomp": func([]string) { // Go's runtime has a handler for SIGSYS, as gVisor's stub processes have
		filter(unix.SYS_PERSONALITY, unix.SECCOMP_RET_TRAP)
		call(unix.SYS_PERSONALITY, 0)
	},
	"thread-killed-by-seccomp": func([]string) {
		go func() {
			runtime.LockOSThread()
			filter(unix.SYS_PERSONALITY, unix.SECCOMP_RET_KILL_THREAD)
			call(unix.SYS_PERSONALITY, 0)
		}()
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test has seen it
	},
	"leave": func(args []string) { // args: cgroup.procs to write to, path to open
		if err := os.WriteFile(args[0], []byte("0"), 0); err != nil {
			fmt.Println(err)
		}
		cmd := exec.Command(os.Args[0], args[1]) //nolint:forbidigo // ends by itself
		cmd.Env = []string{envProgram + "=open"}
		cmd.Stdin = os.Stdin
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP}
		if err := cmd.Run(); err != nil {
			fmt.Println(err)
		}
	},
	"open": func(args []string) {
		for _, path := range args {
			call(unix.SYS_OPENAT, at, str(path), 0)
		}
	},
	"noise": func(args []string) {
		path := str(args[0])
		for range noise {
			call(unix.SYS_OPENAT, at, path, 0)
		}
	},
	"thread": func([]string) { // one that there was before it was watched
		early <- struct{}{}
		<-early
	},
	"signal": func([]string) { // SIGSYS that does not come from seccomp
		var action [4]uint64 // struct sigaction: SIG_DFL
		call(unix.SYS_RT_SIGACTION, uintptr(unix.SIGSYS), ptr(&action), 0, 8)
		call(unix.SYS_KILL, uintptr(unix.Getpid()), uintptr(unix.SIGSYS))
	},
	"wait": func([]string) { _, _ = io.ReadAll(os.Stdin) },
	"sockets": func([]string) { // for each line; "in another namespace" is of the network
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if in.Text() != "here" {
				runtime.LockOSThread()
				call(unix.SYS_UNSHARE, unix.CLONE_NEWNET)
			}
			e := socketErrors()
			fmt.Printf("inet: %d, inet6: %d, packet: %d, unix: %d\n", e[0], e[1], e[2], e[3])
		}
	},
	"calls": func([]string) { // one kind for each line
		for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("did", in.Text()) {
			switch in.Text() {
			case "unix":
				call(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0)
			case "openat":
				call(unix.SYS_OPENAT, at, str("/calls"), 0)
			case "socket":
				call(unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 17)
			case "packet":
				call(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0)
			case "connect":
				call(unix.SYS_CONNECT, minus1, ptr(&inet), unsafe.Sizeof(inet))
			case "execve":
				call(unix.SYS_EXECVE, str("/calls/execve"), 0, 0)
			case "setuid":
				call(unix.SYS_SETUID, minus1)
			case "capset":
				call(unix.SYS_CAPSET, 0, 0)
			case "mount":
				call(unix.SYS_MOUNT, 0, str("/calls/mount"), 0, 0, 0)
			case "blind":
				call(unix.SYS_IO_URING_SETUP, 0, 0)
			}
		}
	},
	"many": func([]string) {
		for range noise {
			call(unix.SYS_CAPSET, 0, 0)
		}
	},
	"compat": func([]string) {
		fd, err := unix.MemfdCreate("compat", 0)
		if err == nil {
			_, err = unix.Write(fd, compatELF())
		}
		if err == nil {
			err = unix.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), []string{"compat"}, nil)
		}
		fmt.Println(err)
	},
	"bomb": func(args []string) { // leaves its control group, then forks for ever
		if err := os.WriteFile(args[0], []byte("0"), 0); err != nil {
			fmt.Println(err)
		}
		for n := 0; ; n++ { // at most some hundreds live at once
			if n == 20 {
				fmt.Println("go")
			}
			length := "0.3"
			if n < 20 { // makes no system call by itself until it is found
				length = "60"
			}
			cmd := exec.Command("/bin/sleep", length) //nolint:forbidigo // ends by itself
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			_ = cmd.Start()
			if n%100 == 99 {
				_, _ = unix.Wait4(-1, nil, 0, nil)
			}
		}
	},
	"forbidden": func([]string) { // makes a call that it must not even try, beside a child that goes on
		child := exec.Command("/bin/sh", "-c", "while :; do echo; done") //nolint:forbidigo // ends by the test, or fails it
		if err := child.Start(); err != nil {
			fmt.Println(err)
		}
		filter(unix.SYS_SETHOSTNAME, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS))
		filter(unix.SYS_SOCKET, unix.SECCOMP_RET_ERRNO|uint32(Forbidden))
		call(unix.SYS_SETHOSTNAME, 0, 0)
		call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 6)
		fmt.Println("went on")
	},
	"watch": watchAndWait,
	"probe": func([]string) {
		_, err := Open(context.Background(), Config{})
		fmt.Printf("%+v %v\n", Probe(), err)
	},
	"exit 3": func([]string) { os.Exit(3) },
}

// noise is how many calls the noisy programs make.
const noise = 20_000

const minus1 = ^uintptr(0)

var at = minus1 - 99 // AT_FDCWD, openat(2)

// inet is a struct sockaddr_in, ip(7): 192.0.2.1:443.
var inet = [16]byte{unix.AF_INET, 0, 443 >> 8, 443 & 0xff, 192, 0, 2, 1}

// init keeps a program's main goroutine on the process's first thread, where it is until init has ended: what the programs call
// there and what they call from another thread are told apart by it.
func init() {
	if os.Getenv(envProgram) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if program := programs[os.Getenv(envProgram)]; program != nil {
		ready := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(ready)
			<-early
			call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0)
			early <- struct{}{}
		}()
		<-ready
		fmt.Println("ready")
		if _, err := os.Stdin.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
			fmt.Println(err)
			os.Exit(1)
		}
		program(os.Args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// early lets a thread go on that every program has before it waits for its byte.
var early = make(chan struct{})

// keep holds what system calls point to.
var keep []any

func str(s string) uintptr {
	b := append([]byte(s), 0)
	keep = append(keep, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

func ptr[T any](v *T) uintptr {
	keep = append(keep, v)
	return uintptr(unsafe.Pointer(v))
}

func call(number uintptr, args ...uintptr) unix.Errno {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	return errno
}

// seven makes one call of each of the seven kinds, all without effect.
func seven([]string) {
	unixAddress := append([]byte{unix.AF_UNIX, 0}, "/run/seven\x00"...)
	abstract := append([]byte{unix.AF_UNIX, 0, 0}, "seven"...)
	inet6 := [28]byte{0: unix.AF_INET6, 2: 443 >> 8, 3: 443 & 0xff, 8: 0x20, 9: 0x01, 10: 0x0d, 11: 0xb8, 23: 1}
	call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 6)
	call(unix.SYS_CONNECT, minus1, ptr(&inet), unsafe.Sizeof(inet))
	call(unix.SYS_CONNECT, minus1, ptr(&inet6), unsafe.Sizeof(inet6))
	call(unix.SYS_CONNECT, minus1, ptr(&unixAddress[0]), uintptr(len(unixAddress)))
	call(unix.SYS_CONNECT, minus1, ptr(&abstract[0]), uintptr(len(abstract)))
	call(unix.SYS_OPENAT, at, str("/seven/\x1b[31mpath"), unix.O_RDONLY)
	call(unix.SYS_EXECVE, str("/seven/program"), 0, 0)
	call(unix.SYS_SETUID, minus1)
	call(unix.SYS_CAPSET, 0, 0)
	call(unix.SYS_MOUNT, str("from"), str("/seven/target"), str("tmpfs"), 0, 0)
}

// refused makes calls that seccomp refuses before the kernel has looked at them, and one that the kernel itself refuses.
func refused([]string) {
	filter(unix.SYS_OPENAT, unix.SECCOMP_RET_ERRNO|uint32(unix.EACCES))
	filter(unix.SYS_PERSONALITY, unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM))
	filter(unix.SYS_SETHOSTNAME, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS))
	call(unix.SYS_OPENAT, at, str("/refused"), 0)
	call(unix.SYS_PERSONALITY, 0)
	call(unix.SYS_SETHOSTNAME, 0, 0) // not a refusal: libraries ask whether a call exists
	call(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(unix.Getpid()))
}

// filter makes seccomp answer a call of this thread with an action.
func filter(number uint32, action uint32) {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: action},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if errno := call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, ptr(&prog)); err != nil || errno != 0 {
		fmt.Println("seccomp:", err, errno)
		os.Exit(1)
	}
}

// compatELF is a 64-bit program that makes two calls the 32-bit way: getpid, and exit with status 0.
func compatELF() []byte {
	code := []byte{
		0xb8, 20, 0, 0, 0, // mov $20, %eax
		0xcd, 0x80, // int $0x80
		0xb8, 1, 0, 0, 0, // mov $1, %eax
		0x31, 0xdb, // xor %ebx, %ebx
		0xcd, 0x80,
	}
	const base, head = 0x400000, 64 + 56
	elf := make([]byte, head, head+len(code))
	copy(elf, "\x7fELF\x02\x01\x01")
	put := func(at int, size int, v uint64) {
		for i := range size {
			elf[at+i] = byte(v >> (8 * i))
		}
	}
	put(16, 2, 2)         // ET_EXEC
	put(18, 2, 62)        // EM_X86_64
	put(20, 4, 1)         // EV_CURRENT
	put(24, 8, base+head) // entry
	put(32, 8, 64)        // program headers
	put(52, 2, 64)        // size of this header
	put(54, 2, 56)        // size of a program header
	put(56, 2, 1)         // how many
	put(64, 4, 1)         // PT_LOAD
	put(68, 4, 5)         // readable, executable
	put(80, 8, base)      // virtual address
	put(88, 8, base)      // physical address
	put(96, 8, uint64(head+len(code)))
	put(104, 8, uint64(head+len(code)))
	put(112, 8, 4096) // alignment
	return append(elf, code...)
}

// standIn is a process that waits for its byte.
type standIn struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

func start(t *testing.T, program string, args ...string) *standIn {
	t.Helper()
	s := &standIn{Cmd: exec.CommandContext(t.Context(), os.Args[0], args...)}
	// Go's runtime looks for changed limits of its control group now and then.
	s.Env = append(os.Environ(), envProgram+"="+program, "GODEBUG=containermaxprocs=0,updatemaxprocs=0")
	s.Stderr = os.Stderr
	if program == "trapped-by-seccomp" { // Go's runtime says what it dies of
		s.Stderr = nil
	}
	var err error
	if s.stdin, err = s.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdout = bufio.NewReader(stdout)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Process.Kill()
		_ = s.Wait()
	})
	if line, err := s.stdout.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%s said %q: %v", program, line, err)
	}
	return s
}

// end lets a program that reads go on, and waits for its end.
func (s *standIn) end(t *testing.T) *os.ProcessState {
	t.Helper()
	s.stdin.Close()
	said, err := io.ReadAll(s.stdout)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Wait()
	if len(said) > 0 {
		t.Logf("%s said %q", s.Args, said)
	}
	return s.ProcessState
}

// tell sends a line and waits for the answer.
func (s *standIn) tell(t *testing.T, line string) string {
	t.Helper()
	if _, err := io.WriteString(s.stdin, line+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := s.stdout.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

// topProcs is cgroup.procs of the topmost group of version 2.
func topProcs(t *testing.T) string {
	t.Helper()
	c := checkCgroup2()
	dir, ok := strings.CutPrefix(c.Reason, "mounted at ")
	if c.Answer != Yes || !ok {
		t.Fatalf("no cgroup2: %+v", c)
	}
	return filepath.Join(dir, "cgroup.procs")
}
