package docker

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
	watchbpf "github.com/silk-sandbox/silk/watch/bpf"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares what is written as JSON with a file.
func golden(t *testing.T, name string, value any) {
	t.Helper()
	got, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", path, diff)
	}
}

func TestSeccompProfile(t *testing.T) {
	golden(t, "seccomp-deny.json", seccompProfile(driver.NetworkDeny))
	golden(t, "seccomp-loopback.json", seccompProfile(driver.NetworkLoopback))
}

func spec() driver.Spec {
	return driver.Spec{
		ID: "01RUN", Args: []string{"true"}, Dir: "/workspace", Hostname: "silk", Network: driver.NetworkDeny, Trees: []string{"/usr"},
		MemoryBytes: 128 << 20, WorkspaceBytes: 256 << 20, TmpBytes: 64 << 20, ShmBytes: 64 << 20, Processes: 64, CPUs: 0.5,
	}
}

func TestContainer(t *testing.T) {
	of := host{image: "sha256:1", owner: "1-2-3-0", gate: "/run/silk/docker/x", processors: 2, cpuset: "1", files: 1024, over: map[string]string{"/etc/b": "/g/file1", "/etc/a": "/g/file0"}}
	lab := spec()
	skill := spec()
	skill.ReadOnly, skill.ShmBytes, skill.MemoryBytes, skill.Deterministic, skill.CPUs = true, 0, 1<<20, true, 8
	for name, s := range map[string]driver.Spec{"container-lab.json": lab, "container-skill.json": skill} {
		c, err := containerOf(s, of)
		if err != nil {
			t.Fatal(err)
		}
		c.HostConfig.SecurityOpt[1] = "seccomp=(a file of its own)"
		golden(t, name, c)
	}
}

// answers runs a filter as the kernel does.
func answers(t *testing.T, program []instruction) func(name string, args ...uint64) uint32 {
	t.Helper()
	var raw []bpf.RawInstruction
	for _, i := range program {
		raw = append(raw, bpf.RawInstruction{Op: i.code, Jt: i.jt, Jf: i.jf, K: i.k})
	}
	code, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter has instructions that nobody knows")
	}
	vm, err := bpf.NewVM(code)
	if err != nil {
		t.Fatal(err)
	}
	return func(name string, args ...uint64) uint32 {
		t.Helper()
		number, ok := watchbpf.CallNumber(name)
		if !ok {
			t.Fatalf("there is no call %q", name)
		}
		words := []uint32{uint32(number), auditX8664, 0, 0}
		for i := range 6 {
			var a uint64
			if i < len(args) {
				a = args[i]
			}
			words = append(words, uint32(a), uint32(a>>32))
		}
		var data []byte
		for _, w := range words {
			data = binary.BigEndian.AppendUint32(data, w) // as that machine loads; the kernel's loads what is native
		}
		answer, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(answer)
	}
}

func TestFilter(t *testing.T) {
	s := secrets{path: 0x123456789000, argv: 0x223456789008, envp: 0x323456789010, message: 0x423456789018}
	const (
		minus1  = 1<<64 - 1
		process = unix.CLONE_CHILD_SETTID | uint64(unix.SIGCHLD)
		thread  = unix.CLONE_VM | unix.CLONE_THREAD
	)
	for _, test := range []struct {
		name    string
		network driver.Network
		noSpawn bool
		call    string
		args    []uint64
		want    uint32
	}{
		{"an ordinary call", "deny", false, "read", nil, permitted},
		{"opening is asked about", "deny", false, "openat", nil, ask},
		{"opening with a struct", "deny", false, "openat2", nil, answer(unix.ENOSYS)},
		{"a socket of this machine", "deny", false, "socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, permitted},
		{"a socket that is forbidden", "deny", false, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, forbidden},
		{"the same, with rubbish in the upper half", "deny", false, "socket", []uint64{unix.AF_INET6 | 7<<32, unix.SOCK_DGRAM}, forbidden},
		{"a socket that is not", "loopback", false, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM}, permitted},
		{"a raw socket", "loopback", false, "socket", []uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_NONBLOCK}, forbidden},
		{"frames", "loopback", false, "socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW}, forbidden},
		{"the way to a hypervisor", "loopback", false, "socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, forbidden},
		{"a family that nobody needs", "loopback", false, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW}, answer(unix.EAFNOSUPPORT)},
		{"connect without a network", "deny", false, "connect", nil, permitted},
		{"connect is asked about", "loopback", false, "connect", nil, ask},
		{"sending to nobody new", "loopback", false, "sendto", []uint64{3, 1, 1, 0, 0}, permitted},
		{"sending to somebody", "loopback", false, "sendto", []uint64{3, 1, 1, 0, 1 << 40}, ask},
		{"the launcher's own message", "loopback", false, "sendmsg", []uint64{3, s.message}, permitted},
		{"a message that is nearly that", "loopback", false, "sendmsg", []uint64{3, s.message ^ 1<<40}, ask},
		{"a process", "deny", false, "clone", []uint64{process}, permitted},
		{"a process in a namespace of its own", "deny", false, "clone", []uint64{process | unix.CLONE_NEWUSER}, forbidden},
		{"a new kind of clone", "deny", false, "clone3", nil, answer(unix.ENOSYS)},
		{"a thread without spawn", "deny", true, "clone", []uint64{thread}, permitted},
		{"a process without spawn", "deny", true, "clone", []uint64{process}, answer(unix.EPERM)},
		{"a namespace without spawn", "deny", true, "clone", []uint64{thread | unix.CLONE_NEWNET}, forbidden},
		{"fork without spawn", "deny", true, "fork", nil, answer(unix.EPERM)},
		{"fork", "deny", false, "fork", nil, permitted},
		{"the one exec", "deny", true, "execve", []uint64{s.path, s.argv, s.envp}, permitted},
		{"another program", "deny", true, "execve", []uint64{s.path + 1, s.argv, s.envp}, answer(unix.EPERM)},
		{"other arguments", "deny", true, "execve", []uint64{s.path, s.argv ^ 1<<33, s.envp}, answer(unix.EPERM)},
		{"another environment", "deny", true, "execve", []uint64{s.path, s.argv, 0}, answer(unix.EPERM)},
		{"an exec by descriptor", "deny", true, "execveat", nil, answer(unix.EPERM)},
		{"exec is asked about", "deny", false, "execve", nil, ask},
		{"the run's own command", "deny", false, "execve", []uint64{s.path, s.argv, s.envp}, permitted},
		{"ending process 1", "deny", false, "kill", []uint64{1, 9}, answer(unix.EPERM)},
		{"ending another", "deny", false, "kill", []uint64{2, 9}, permitted},
		{"a call that nobody needs", "deny", false, "uselib", nil, answer(unix.ENOSYS)},
		{"a better nice value", "deny", false, "setpriority", []uint64{0, 0, 1<<64 - 5}, answer(unix.EPERM)},
		{"a worse one", "deny", false, "setpriority", []uint64{0, 0, 5}, permitted},
		{"unshare of what is no namespace", "deny", false, "unshare", []uint64{unix.CLONE_FILES}, permitted},
		{"unshare", "deny", false, "unshare", []uint64{unix.CLONE_NEWTIME}, forbidden},
		{"joining a namespace", "deny", true, "setns", nil, forbidden},
		{"staying who one is", "deny", false, "setuid", []uint64{user}, permitted},
		{"becoming somebody", "deny", false, "setuid", []uint64{0}, forbidden},
		{"staying, in three parts", "deny", false, "setresuid", []uint64{user, minus1, user}, permitted},
		{"becoming somebody in one of them", "deny", false, "setresuid", []uint64{user, minus1, 0}, forbidden},
		{"dropping groups", "deny", false, "setgroups", []uint64{0}, answer(unix.EPERM)},
		{"joining one", "deny", false, "setgroups", []uint64{1}, forbidden},
		{"capabilities are asked about", "deny", false, "capset", nil, ask},
		{"tracing a process", "deny", false, "ptrace", []uint64{unix.PTRACE_ATTACH, 5}, forbidden},
		{"being traced", "deny", false, "ptrace", []uint64{unix.PTRACE_TRACEME}, answer(unix.EPERM)},
		{"mount", "deny", false, "mount", nil, forbidden},
		{"bpf", "deny", false, "bpf", nil, forbidden},
		{"io_uring", "deny", false, "io_uring_setup", nil, answer(unix.ENOSYS)},
		{"a file in memory", "deny", false, "memfd_create", nil, answer(unix.ENOSYS)},
		{"a fifo", "deny", false, "mknodat", []uint64{0, 0, unix.S_IFIFO | 0o644}, permitted},
		{"a device", "deny", false, "mknodat", []uint64{0, 0, unix.S_IFCHR | 0o644}, answer(unix.EPERM)},
		{"a real-time policy", "deny", false, "sched_setscheduler", []uint64{0, unix.SCHED_FIFO | unix.SCHED_RESET_ON_FORK}, answer(unix.EPERM)},
		{"an ordinary policy", "deny", false, "sched_setscheduler", []uint64{0, unix.SCHED_BATCH}, permitted},
		{"limits of process 1", "deny", false, "prlimit64", []uint64{1}, answer(unix.EPERM)},
		{"one's own limits", "deny", false, "prlimit64", []uint64{0}, permitted},
		{"typing into a terminal", "deny", false, "ioctl", []uint64{0, unix.TIOCSTI}, answer(unix.EPERM)},
		{"reading the clock's state", "deny", false, "adjtimex", nil, permitted},
		{"setting the clock", "deny", false, "clock_settime", nil, answer(unix.EPERM)},
	} {
		t.Run(test.name, func(t *testing.T) {
			program, err := filter(test.network, test.noSpawn, s)
			if err != nil {
				t.Fatal(err)
			}
			if got := answers(t, program)(test.call, test.args...); got != test.want {
				t.Errorf("%s%v: %#x, want %#x", test.call, test.args, got, test.want)
			}
		})
	}
}

// TestEveryRuleIsHeld: no rule about calls is forgotten by both layers.
func TestEveryRuleIsHeld(t *testing.T) {
	program, err := filter(driver.NetworkLoopback, true, secrets{})
	if err != nil {
		t.Fatal(err)
	}
	run := answers(t, program)
	// What no argument here makes the filter answer: the kernel refuses it, or has no need to.
	kernels := []string{"adjtimex", "clock_adjtime", "sched_setattr", "fallocate", "mincore"}
	for _, r := range rules.All() {
		for _, name := range r.Calls {
			held := run(name) != permitted
			for _, args := range [][]uint64{{unix.CLONE_NEWUSER}, {unix.AF_PACKET}, {5, 1, 1, 1, 1}, {0, unix.SCHED_FIFO}, {0, unix.S_IFCHR, unix.S_IFCHR}, {0, 0, 1<<32 - 5}} {
				held = held || run(name, args...) != permitted
			}
			isKernels := false
			for _, k := range kernels {
				isKernels = isKernels || k == name
			}
			if held == isKernels {
				t.Errorf("rule %s, %s: held by the filter: %t", r.Name, name, held)
			}
		}
	}
}

func TestJudged(t *testing.T) {
	trees := []string{"/usr", "/bin", "/etc/one"}
	for _, test := range []struct {
		name string
		o    object
		want string
	}{
		{"accounts", object{path: "/etc/passwd"}, rules.FileAccounts},
		{"below accounts", object{path: "/etc/sudoers/x"}, rules.FileAccounts},
		{"a name that only begins alike", object{path: "/etc/passwdx"}, rules.FileUnlisted},
		{"root's home", object{path: "/root", directory: true}, rules.FileRootHome},
		{"symbols of the kernel", object{path: "/proc/kallsyms"}, rules.FileKernel},
		{"the own environment", object{path: "/proc/7/environ"}, rules.FileStartup},
		{"another's environment", object{path: "/proc/8/environ"}, rules.FileEnviron},
		{"another's, of a thread", object{path: "/proc/8/task/9/environ"}, rules.FileEnviron},
		{"the own memory", object{path: "/proc/7/mem"}, rules.FileStartup},
		{"another's memory", object{path: "/proc/8/mem"}, rules.FileMemory},
		{"a disk", object{path: "/dev/sda"}, rules.FileDevice},
		{"nothing", object{path: "/dev/null"}, rules.FileStartup},
		{"limits", object{path: "/sys/fs/cgroup/memory.max"}, rules.FileProbe},
		{"processors", object{path: "/sys/devices/system/cpu/online"}, rules.FileStartup},
		{"on the way to them", object{path: "/sys/devices/system", directory: true}, rules.FileDirectory},
		{"the host's hardware", object{path: "/sys/class/net", directory: true}, rules.FileSys},
		{"the workspace", object{path: "/workspace/a"}, rules.FileWorkspace},
		{"a lookalike of it", object{path: "/workspace-evil"}, rules.FileUnlisted},
		{"temporary", object{path: "/dev/shm/a"}, rules.FileTemporary},
		{"the image", object{path: "/usr/lib/x"}, rules.FileImage},
		{"one file of it", object{path: "/etc/one"}, rules.FileImage},
		{"a directory", object{path: "/etc", directory: true}, rules.FileDirectory},
		{"a pipe", object{anonymous: true}, rules.FileAnonymous},
		{"anything else", object{path: "/proc/cgroups"}, rules.FileUnlisted},
	} {
		if got := judged(test.o, 7, trees); got.Name != test.want {
			t.Errorf("%s: judged(%+v) by %s, want %s", test.name, test.o, got.Name, test.want)
		}
	}
	if got := quick([]string{"/usr", "/bin", "/etc/x", "/dev", "/var"}); !cmp.Equal(got, []string{"/usr", "/bin"}) {
		t.Errorf("quick trees are %q", got)
	}
}
