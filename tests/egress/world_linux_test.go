package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// inside says that this process has namespaces of its own.
const inside = "SILK_TEST_EGRESS_INSIDE"

// init keeps the first thread, whose namespaces are those of the process for others, from being the one that makes another.
func init() { runtime.LockOSThread() }

// TestMain starts the tests again in a network and a mount namespace of their own, by a process that is the parent of every orphan of theirs. They have no
// PID namespace: in one, silk would not know which processes the host's kernel means, and would start no container.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(inside) != "":
		if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)); err != nil {
			fmt.Fprintln(os.Stderr, "keep mounts and orphans to ourselves:", err)
			os.Exit(1)
		}
	case testenv.Probe(testenv.Root) == nil:
		os.Exit(enter())
	}
	status := m.Run()
	_ = theEngine.stop()
	if built != nil {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(status)
}

func enter() int {
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL} // of this thread, see init
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "enter namespaces:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// Addresses of the host that silk runs on, and of the resolver that it asks.
const (
	host4, host6 = "93.184.216.10", "2606:4700:1::10"
	resolverAddr = "9.9.9.9"
)

// internet are the addresses of the other namespace, all of them of the same servers.
var internet = []string{
	resolverAddr, "93.184.215.14", "93.184.215.15", "93.184.215.16", "2606:4700::14", "2606:4700::15",
	"10.0.0.5", "172.16.0.5", "192.168.1.5", "100.64.0.5", "169.254.1.5", "169.254.169.254", "198.51.100.5", "240.0.0.5",
	"fd00::5", "64:ff9b::a00:5", "2002:a00:5::1", "fd00:ec2::254",
}

// world is the internet of the tests.
type world struct {
	dir string // of its files; closed to nobody
	ca  authority
	*journal
	resolver *resolver
	err      error
}

var (
	built    *world
	building sync.Once
)

// enterWorld returns the world, which all tests share.
func enterWorld(t testing.TB) *world {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.Iproute, testenv.Silk)
	building.Do(func() { built = newWorld() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built
}

func newWorld() (w *world) {
	w = &world{journal: &journal{seen: map[string][]string{}}}
	if w.dir, w.err = os.MkdirTemp("", "silk-egress-"); w.err != nil {
		return w
	}
	if w.err = os.Chmod(w.dir, 0o755); w.err != nil {
		return w
	}
	if w.ca, w.err = newAuthority(); w.err != nil {
		return w
	}
	w.resolver = newResolver(w.journal)
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is in the other namespace
		ready <- w.settle()
	}()
	w.err = errors.Join(<-ready, w.atHome())
	return w
}

// settle makes the other namespace, and its servers.
func (w *world) settle() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	commands := []string{
		"link set lo up",
		fmt.Sprintf("link add net0 type veth peer name host0 netns %d", os.Getpid()),
		"addr add 93.184.216.1/24 dev net0", "-6 addr add 2606:4700:1::1/64 dev net0 nodad", "link set net0 up",
	}
	for _, text := range internet {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return err
		}
		commands = append(commands, fmt.Sprintf("addr add %s/%d dev lo nodad", addr, addr.BitLen()))
	}
	if err := ip(commands...); err != nil {
		return err
	}
	return w.serve()
}

// atHome sets up the namespaces that silk runs in.
func (w *world) atHome() error {
	for name, content := range map[string]string{
		"/etc/resolv.conf": "nameserver " + resolverAddr + "\noptions timeout:2 attempts:1\n",
		"/etc/hosts":       "127.0.0.1 localhost\n",
	} {
		file := filepath.Join(w.dir, filepath.Base(name))
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("put another %s in place: %w", name, err)
		}
	}
	err := ip("link set lo up", "addr add "+host4+"/24 dev host0", "-6 addr add "+host6+"/64 dev host0 nodad", "link set host0 up",
		"route add default via 93.184.216.1", "-6 route add default via 2606:4700:1::1")
	if err != nil {
		return err
	}
	return w.serveAtHome()
}

// ip gives commands to ip(8), in the namespace of this thread.
func ip(commands ...string) error {
	for _, command := range commands {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		out, err := exec.CommandContext(ctx, "ip", strings.Fields(command)...).CombinedOutput()
		cancel()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, out)
		}
	}
	return nil
}
