package tree

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"unsafe"
)

// Runner asks the kernel that it runs on. Its program must be at Probe and print what [Child] says when it is run with
// EnvChild in its environment.
type Runner struct {
	Probe string
	Names bool   // find the name that each question is about
	Mark  func() // called before each question, and after the last one
}

// EnvChild is in the environment of what a question executes.
const EnvChild = "SILK_FUZZ_CHILD=1"

// maxScripts is how many scripts may interpret one another; execve(2).
const maxScripts = 5

// answerFD is where a program that was executed writes.
const answerFD = 19

// Run builds the tree of a case, asks, and removes the tree. Not safe for concurrent use: the tree has fixed places, and
// the working directory and descriptors are the process's.
func (r Runner) Run(c Case) (Answers, error) {
	out := Answers{Steps: make([]int, len(c.Steps)), Answers: make([]Answer, len(c.Questions))}
	if r.Names {
		out.Opened = make([]Answer, len(c.Steps))
	}
	if err := r.clear(); err != nil {
		return out, err
	}
	for i, s := range c.Steps {
		if flags, ok := s.Opens(); ok && r.Names {
			out.Opened[i].Name, out.Opened[i].Way = nameOf(Question{DirFD: NoDir, Name: s.Name, Flags: flags})
		}
		out.Steps[i] = errnoOf(r.step(i, s))
	}
	for i, q := range c.Questions {
		if r.Names {
			out.Answers[i].Name, out.Answers[i].Way = nameOf(q)
			for way := out.Answers[i].Way; len(way.Interpreter) > 0 && len(out.Answers[i].Then) < maxScripts; {
				var name []byte
				name, way = nameOf(Question{Exec: true, DirFD: NoDir, Name: way.Interpreter})
				out.Answers[i].Then = append(out.Answers[i].Then, Named{name, way})
			}
		}
		r.Mark()
		if q.Exec {
			r.exec(q, &out.Answers[i])
		} else {
			open(q, &out.Answers[i])
		}
	}
	r.Mark()
	return out, r.clear()
}

// clear removes all that a case has made, and makes the program that its trees have links to.
func (r Runner) clear() error {
	for fd := firstFD; fd <= lastFD+1; fd++ {
		_ = syscall.Close(fd) // most are not open
	}
	if err := errors.Join(os.Chmod("/workspace", 0o755), os.Chdir("/workspace")); err != nil {
		return err
	}
	for _, dir := range []string{"/workspace", "/tmp"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); !slices.Contains(kept, path) {
				open := func(path string, e fs.DirEntry, _ error) error {
					if e != nil && e.IsDir() {
						return os.Chmod(path, 0o755)
					}
					return nil
				}
				if err := errors.Join(filepath.WalkDir(path, open), os.RemoveAll(path)); err != nil {
					return err
				}
			}
		}
	}
	// An open may have cut it: a sandbox kernel lets programs that run be written to.
	probe, err := os.Stat(r.Probe)
	if err != nil {
		return err
	}
	if program, err := os.Stat(copied); err == nil && program.Size() == probe.Size() {
		return os.Chmod(copied, 0o755)
	}
	data, err := os.ReadFile(r.Probe)
	if err != nil {
		return err
	}
	_ = os.Remove(copied)
	return os.WriteFile(copied, data, 0o755) //nolint:forbidigo // in a sandbox of its own
}

// copied is the program that trees have hard links to.
const copied = "/workspace/program"

var kept = []string{"/workspace/probe", "/workspace/cases.json", "/workspace/answers.json", copied}

func (r Runner) step(i int, s Step) error {
	name := string(s.Name)
	switch s.Kind {
	case Dir:
		return syscall.Mkdir(name, s.Mode)
	case File:
		return writeFile(name, fmt.Sprintf("%d %s", i, name), s.Mode)
	case Script:
		return writeFile(name, fmt.Sprintf("#!%s %d\n", cmp.Or(string(s.Target), r.Probe), i), s.Mode)
	case Program:
		return syscall.Link(copied, name)
	case Link:
		return syscall.Symlink(string(s.Target), name)
	case Hard:
		return syscall.Link(string(s.Target), name)
	case Fifo:
		return syscall.Mkfifo(name, s.Mode)
	case Chmod:
		return syscall.Chmod(name, s.Mode)
	case Remove:
		if err := syscall.Unlink(name); err != syscall.EISDIR && err != syscall.EPERM {
			return err
		}
		return syscall.Rmdir(name)
	case Open:
		fd, err := syscall.Open(name, s.Flags|syscall.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		return syscall.Dup3(fd, s.FD, 0)
	case Chdir:
		return syscall.Chdir(name)
	}
	return syscall.ENOSYS
}

func writeFile(name, text string, mode uint32) error {
	fd, err := syscall.Open(name, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	_, err = syscall.Write(fd, []byte(text))
	if err == nil {
		err = syscall.Fchmod(fd, mode)
	}
	syscall.Close(fd)
	return err
}

func errnoOf(err error) int {
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // the syscall package's own errors
		return int(errno)
	}
	return 0
}

func open(q Question, a *Answer) {
	fd, err := openAt(q.DirFD, string(q.Name), q.Flags, 0o644)
	if a.Errno = errnoOf(err); err != nil {
		return
	}
	defer syscall.Close(fd)
	a.Path = ownName(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err == nil {
		a.Type = st.Mode & syscall.S_IFMT
	}
	if a.Type == syscall.S_IFREG && q.Flags&(OPath|OWrite) == 0 {
		a.Text = make([]byte, 64)
		n, _ := syscall.Read(fd, a.Text)
		a.Text = a.Text[:max(0, n)]
	}
}

func openAt(dir int, name string, flags int, mode uint32) (int, error) {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	fd, _, errno := syscall.Syscall6(syscall.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags), uintptr(mode), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// ownName is the kernel's name of what a descriptor is open on.
func ownName(fd int) []byte {
	buf := make([]byte, 8192)
	n, err := syscall.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
	if err != nil {
		return []byte("? " + err.Error())
	}
	return Self(buf[:n], os.Getpid())
}

// Self writes a name below the directory of process pid in /proc as one below /proc/self, which it was.
func Self(name []byte, pid int) []byte {
	dir := []byte("/proc/" + strconv.Itoa(pid))
	if rest, ok := bytes.CutPrefix(bytes.Clone(name), dir); ok && (len(rest) == 0 || rest[0] == '/') {
		task := fmt.Appendf(nil, "/task/%d/", pid) // of the first thread
		return bytes.TrimSuffix(append([]byte("/proc/self"), bytes.Replace(append(rest, '/'), task, []byte("/task/self/"), 1)...), []byte("/"))
	}
	return bytes.Clone(name)
}

// exec executes in a process of its own. What was run writes to a pipe; if nothing was, the process says why.
func (r Runner) exec(q Question, a *Answer) {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		a.Text = []byte("pipe: " + err.Error())
		return
	}
	defer syscall.Close(pipe[0])
	name, _ := syscall.BytePtrFromString(string(q.Name))
	argv, _ := syscall.SlicePtrFromStrings([]string{"zero", "one"})
	env, _ := syscall.SlicePtrFromStrings([]string{EnvChild})
	pid, errno := start(q, name, &argv[0], &env[0], pipe[1])
	syscall.Close(pipe[1])
	if errno != 0 {
		a.Text = []byte("fork: " + errno.Error())
		return
	}
	said := make([]byte, 16<<10)
	total := 0
	for total < len(said) {
		n, err := syscall.Read(pipe[0], said[total:])
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 {
			break
		}
		total += n
	}
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	if status.Exited() && status.ExitStatus() == failed && total == 1 {
		a.Errno = int(said[0])
		return
	}
	exe, args, _ := bytes.Cut(said[:total], []byte{0})
	a.Path, a.Text = Self(exe, pid), args
	if !status.Exited() || status.ExitStatus() != 0 {
		a.Text = fmt.Appendf(a.Text, " status %#x", uint32(status))
	}
}

const failed = 77

// start forks and executes. The child makes raw calls only: it has one thread of what the runtime needs.
//
//go:noinline
//go:norace
func start(q Question, name *byte, argv, env **byte, out int) (int, syscall.Errno) {
	var code [1]byte
	pid, _, errno := syscall.RawSyscall(syscall.SYS_FORK, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return int(pid), errno
	}
	_, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, uintptr(out), answerFD, 0)
	if errno == 0 {
		if q.DirFD == NoDir && q.Flags == 0 {
			_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(argv)), uintptr(unsafe.Pointer(env)))
		} else {
			_, _, errno = syscall.RawSyscall6(sysExecveat, uintptr(q.DirFD), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(argv)), uintptr(unsafe.Pointer(env)), uintptr(q.Flags), 0)
		}
	}
	code[0] = byte(errno)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, answerFD, uintptr(unsafe.Pointer(&code)), 1)
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, failed, 0, 0)
	}
}

const sysExecveat = 322 // arch/x86/entry/syscalls/syscall_64.tbl

// Child says which program runs, and with which arguments.
func Child() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		exe = err.Error()
	}
	text := []byte(exe)
	for _, arg := range os.Args {
		text = append(append(text, 0), arg...)
	}
	_, _ = syscall.Write(answerFD, text)
}
