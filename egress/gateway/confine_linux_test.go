//go:build !cgo

package gateway

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/egress/process"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// envIntrude makes this executable somebody who has taken a gateway over: it has the layers that the variable names, and tries.
const envIntrude = "SILK_TEST_INTRUDE"

// intrusion is what a test asks of the other process.
type intrusion struct {
	Layers string // "none", "landlock", "filter" or "all"
	File   string // that everybody may read and write
	Port   int    // on 127.0.0.1, which listens
	Pid    int    // of another process
	Fatal  string // a name of fatalTries: it tries this one only
}

func TestMain(m *testing.M) {
	if os.Args[0] == process.Name { // a gateway process of TestMemory's
		os.Exit(Main())
	}
	if text := os.Getenv(envIntrude); text != "" {
		var what intrusion
		if err := json.Unmarshal([]byte(text), &what); err != nil {
			panic(err)
		}
		intrude(what)
		return
	}
	os.Exit(m.Run())
}

func intrude(what intrusion) {
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0) // without it there is neither layer
	if errno != 0 {
		panic(errno)
	}
	err := map[string]func() error{
		"none": func() error { return nil }, "landlock": func() error { return landlock(readable()) }, "filter": filter, "all": Confine,
	}[what.Layers]()
	if err != nil {
		panic(err)
	}
	if what.Fatal != "" {
		_, _, errno := unix.Syscall6(fatalTries[what.Fatal], 0, 0, 0, 0, 0, 0)
		fmt.Println(errno)
		return
	}
	seen := map[string]string{}
	for name, try := range tries(what) {
		seen[name] = "done"
		if err := try(); err != nil {
			seen[name] = err.Error()
			if errno, ok := errors.AsType[syscall.Errno](err); ok {
				seen[name] = errno.Error()
			}
		}
	}
	text, _ := json.Marshal(seen)
	fmt.Println(string(text))
	_, _ = unix.Read(0, make([]byte, 1)) // until the test has looked at this process
}

var fatalTries = map[string]uintptr{
	"execve": unix.SYS_EXECVE, "ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV, "unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "mount": unix.SYS_MOUNT,
	"bpf": unix.SYS_BPF, "io_uring_setup": unix.SYS_IO_URING_SETUP, "keyctl": unix.SYS_KEYCTL, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
}

func tries(what intrusion) map[string]func() error {
	open := func(name string, flags int) error {
		fd, err := unix.Open(name, flags, 0o600)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	socket := func(domain, typ, protocol int) error {
		fd, err := unix.Socket(domain, typ, protocol)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	ctx := context.Background()
	return map[string]func() error{
		"read /etc/resolv.conf": func() error { return open("/etc/resolv.conf", unix.O_RDONLY) },
		"read a file":           func() error { return open(what.File, unix.O_RDONLY) },
		"list its folder":       func() error { return open(filepath.Dir(what.File), unix.O_RDONLY|unix.O_DIRECTORY) },
		"write a file":          func() error { return open(what.File, unix.O_WRONLY) },
		"write /etc":            func() error { return open("/etc/silk-intruder", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) },
		"remove a file":         func() error { return unix.Unlink(what.File + ".2") },
		"connect": func() error {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", what.Port))
			if err == nil {
				err = errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close())
			}
			return err
		},
		"send a datagram": func() error {
			c, err := new(net.Dialer).DialContext(ctx, "udp", fmt.Sprintf("127.0.0.1:%d", what.Port))
			if err == nil {
				_, err = c.Write([]byte("x"))
				_ = c.Close()
			}
			return err
		},
		"look a name up": func() error {
			_, err := resolver.LookupNetIP(ctx, "ip", "localhost")
			return err
		},
		"know whom to trust": func() error {
			pool, err := x509.SystemCertPool()
			if err == nil && pool.Equal(x509.NewCertPool()) {
				return errors.New("nobody")
			}
			return err
		},
		"list the host's addresses": func() error {
			_, err := ownAddresses()
			return err
		},
		"listen": func() error {
			var c net.ListenConfig
			c.SetMultipathTCP(false) // which Landlock does not know; the filter has no such sockets
			l, err := c.Listen(ctx, "tcp4", "127.0.0.1:0")
			if err == nil {
				_ = l.Close()
			}
			return err
		},
		"a UNIX socket":     func() error { return socket(unix.AF_UNIX, unix.SOCK_STREAM, 0) },
		"a raw socket":      func() error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
		"another protocol":  func() error { return socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP) },
		"netlink of audit":  func() error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT) },
		"signal another":    func() error { return unix.Kill(what.Pid, 0) },
		"change its limits": func() error { return unix.Prlimit(0, unix.RLIMIT_CORE, nil, &unix.Rlimit{}) },
		"a file in memory": func() error {
			_, err := unix.MemfdCreate("x", 0)
			return err
		},
		"memory to execute": func() error {
			b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err == nil {
				_ = unix.Munmap(b)
			}
			return err
		},
	}
}

// intruder starts one, as an ordinary user. The caller closes stdin for it to end.
func intruder(t *testing.T, what intrusion) (cmd *exec.Cmd, out string, end func() error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(exe) // the user may not enter its folder
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), "/proc/self/fd/3")
	cmd.ExtraFiles, cmd.Env, cmd.Dir, cmd.WaitDelay = []*os.File{file}, []string{envIntrude + "=" + string(text)}, "/", time.Second
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64<<10)
	n, _ := stdout.Read(b)
	if n == 0 && what.Fatal == "" {
		_ = cmd.Wait()
		t.Fatalf("it says nothing:\n%s", stderr.String())
	}
	return cmd, string(b[:n]), func() error {
		_ = stdin.Close()
		return cmd.Wait()
	}
}

const nobodyID = 65534

func TestIntruder(t *testing.T) {
	target := func(t *testing.T) (what intrusion, other *exec.Cmd) {
		dir, err := os.MkdirTemp("/tmp", "silk-intruder") // t.TempDir's parents are not for everybody
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		what.File = filepath.Join(dir, "file")
		if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(what.File, nil, 0o600), os.WriteFile(what.File+".2", nil, 0o600), os.Chmod(what.File, 0o666)); err != nil { //nolint:gosec // that is what is tried
			t.Fatal(err)
		}
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		what.Port = int(netip.MustParseAddrPort(l.Addr().String()).Port())
		what.Layers = "none"
		other, _, end := intruder(t, intrusion{Layers: "none", File: "/none"}) // the same user's
		t.Cleanup(func() { _ = end() })
		what.Pid = other.Process.Pid
		return what, other
	}
	const done, eperm, eacces = "done", "operation not permitted", "permission denied"
	for _, layers := range []string{"none", "landlock", "filter", "all"} {
		t.Run(layers, func(t *testing.T) {
			if layers == "landlock" || layers == "all" {
				testenv.Require(t, testenv.Landlock)
			}
			what, _ := target(t)
			what.Layers = layers
			cmd, out, end := intruder(t, what)
			var seen map[string]string
			if err := json.Unmarshal([]byte(out), &seen); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			want := map[string]string{}
			for name := range seen {
				want[name] = done
			}
			want["write /etc"], want["a raw socket"] = eacces, eperm // no layer of ours: he is an ordinary user
			if layers == "landlock" {
				for _, name := range []string{"read a file", "list its folder", "write a file", "remove a file", "listen"} {
					want[name] = eacces
				}
				want["signal another"] = eperm
			}
			if layers == "filter" || layers == "all" {
				for _, name := range []string{
					"write a file", "write /etc", "remove a file", "listen", "a UNIX socket", "another protocol", "netlink of audit", "signal another", "change its limits",
					"a file in memory", "memory to execute",
				} {
					want[name] = eperm
				}
			}
			if layers == "all" {
				want["read a file"], want["list its folder"] = eacces, eacces
			}
			if d := cmp.Diff(want, seen); d != "" {
				t.Error(d)
			}
			if layers == "all" {
				confined(t, cmd.Process.Pid)
			}
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestIntruderDies: what only somebody does who has taken the process over ends it.
func TestIntruderDies(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(fatalTries)) {
		if _, out, end := intruder(t, intrusion{Layers: "none", Fatal: name}); end() != nil {
			t.Errorf("%s without a filter: %s", name, out)
		}
		_, out, end := intruder(t, intrusion{Layers: "filter", Fatal: name})
		exit, ok := errors.AsType[*exec.ExitError](end())
		if !ok || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGSYS {
			t.Errorf("%s: %v, %s", name, exit, out)
		}
	}
}

// confined looks from outside whether a process is.
func confined(t *testing.T, pid int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("threads: %q, %v", tasks, err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n"} {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s has not %q", task, line)
			}
		}
	}
	var mem unix.Stat_t
	if err := unix.Stat("/proc/"+strconv.Itoa(pid)+"/mem", &mem); err != nil || mem.Uid != 0 { // proc(5): root's, if it is not dumpable
		t.Errorf("its memory is user %d's, %v", mem.Uid, err)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]uint64{"Max core file size": 0, "Max file size": 0, "Max data size": hardMemoryBytes, "Max locked memory": 0} {
		i := strings.Index(string(limits), name)
		if i < 0 || strings.Fields(string(limits)[i+len(name):])[0] != strconv.FormatUint(value, 10) {
			t.Errorf("%s is not %d:\n%s", name, value, limits)
		}
	}
}

func TestReadable(t *testing.T) {
	for _, dir := range readable() {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || dir == "/" || strings.HasPrefix(dir, "/home") || strings.HasPrefix(dir, "/root") || dir == "/tmp" {
			t.Errorf("%s, %v", dir, err)
		}
	}
	testenv.NoLeaks(t)
	own, err := ownAddresses()
	if err != nil || !slices.Contains(own, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("%v, %v", own, err)
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !slices.Contains(own, p.Addr()) {
			t.Errorf("%s is not among %v", p.Addr(), own)
		}
	}
}
