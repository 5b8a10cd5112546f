package firecracker

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/image/imagetest"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// home is where what machines boot is made: of a child that will be killed, its parent's.
var home = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(envChild); dir != "" {
		return dir, nil
	}
	return os.MkdirTemp("", "silk-microvm-")
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := home(); err == nil && os.Getenv(envChild) == "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func newDriver(t *testing.T) *Driver {
	t.Helper()
	return newDriverWith(t, image.KernelTag)
}

// minimalKernel is the image of `make kernel`.
const minimalKernel = "kernel:minimal"

// newDriverWith makes a driver whose machines boot a kernel.
func newDriverWith(t *testing.T, kernel string) *Driver {
	t.Helper()
	testenv.Require(t, testenv.QEMU, testenv.Image("lab:text"), testenv.Image(kernel))
	dir, err := home()
	if err != nil {
		t.Fatal(err)
	}
	d := New(Config{Home: dir, Images: imagetest.Store(t), Kernel: kernel, QEMU: testenv.QEMUPath(), Agent: testenv.AgentPath()})
	b, err := d.prepared(t.Context()) // it is kept
	if err != nil {
		t.Fatal(err)
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	return d
}

func openLabText(t *testing.T) *os.File {
	t.Helper()
	return imagetest.Root(t, "lab:text")
}

// sample are the cases that are always tried: an emulated machine takes half a minute for each. `make test-microvm` tries all.
var sample = []string{"workspace in and out", "forbidden file", "no spawn", "packets over a link"}

func everything() bool { return os.Getenv("SILK_TEST_MICROVM") == "all" }

func TestConformance(t *testing.T) {
	if !newDriver(t).host.vmm.kvm() {
		drivertest.Guard = 5 * time.Minute
	}
	programs := drivertest.Shell
	if !everything() {
		programs = drivertest.Programs{}
		for _, name := range sample {
			programs[name] = drivertest.Shell[name]
		}
	}
	drivertest.Run(t, func(t *testing.T) driver.Driver { return newDriver(t) }, openLabText, programs)
	if everything() {
		t.Run(minimalKernel, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) driver.Driver { return newDriverWith(t, minimalKernel) }, openLabText, programs)
		})
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	image, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	spec := driver.Spec{
		ID: "refused", Image: image, Stdout: image, Args: []string{"true"}, Network: driver.NetworkDeny,
		MemoryBytes: 1, WorkspaceBytes: 1, TmpBytes: 1, ShmBytes: 1, Processes: 1, CPUs: 1,
	}
	store := imagetest.Store(t)
	for _, test := range []struct {
		name   string
		config Config
		change func(*driver.Spec)
		want   string
	}{
		{"no QEMU", Config{Images: store}, func(*driver.Spec) {}, "install Debian's package qemu-system-x86"},
		{"no kernel", Config{QEMU: "/bin/true", Images: emptyStore(t)}, func(*driver.Spec) {}, "silk image build kernel"},
		{"a way out that leads nowhere", Config{QEMU: "/bin/true", Images: store}, func(s *driver.Spec) { s.Network = driver.NetworkLink }, "without a link"},
		{"a watch by the host", Config{QEMU: "/bin/true", Images: store}, func(s *driver.Spec) { s.RequireWatch = true }, "require_watch"},
		{"no memory", Config{QEMU: "/bin/true", Images: store}, func(s *driver.Spec) { s.MemoryBytes = 0 }, "above zero"},
		{"an unknown network", Config{QEMU: "/bin/true", Images: store}, func(s *driver.Spec) { s.Network = "allow" }, `"allow"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.config.Home = dir
			s := spec
			test.change(&s)
			if _, err := New(test.config).Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func emptyStore(t *testing.T) *image.Store {
	t.Helper()
	store, err := image.Open(image.Config{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// A VMM that never comes to its agent is an error with what its console said, and nothing of it is left.
func TestNoAgent(t *testing.T) {
	testenv.NoLeaks(t)
	d := New(Config{Home: t.TempDir(), QEMU: fakeVMM(t, "echo Kernel panic: no init found; exit 3"), Images: imagetest.Store(t), Agent: testenv.AgentPath()})
	testenv.Require(t, testenv.QEMU, testenv.Image(image.KernelTag), testenv.Image("lab:text"))
	root := openLabText(t)
	defer root.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	_, err = d.Start(t.Context(), driver.Spec{
		ID: "no-agent", Image: root, Stdout: w, Stderr: w, Args: []string{"true"}, Network: driver.NetworkDeny,
		MemoryBytes: 1 << 20, WorkspaceBytes: 1 << 20, TmpBytes: 1 << 20, ShmBytes: 1 << 20, Processes: 1, CPUs: 1,
	})
	if err == nil || !strings.Contains(err.Error(), "no init found") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
}

// fakeVMM is a program in QEMU's place.
func fakeVMM(t *testing.T, script string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "silk-vmm-") // which the VMM's user may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := dir + "/vmm"
	if err := errors.Join(os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755), os.Chmod(dir, 0o755), os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}
