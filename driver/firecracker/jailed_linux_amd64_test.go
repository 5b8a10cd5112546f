package firecracker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/image/imagetest"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// doubles are what takes the place of Firecracker and its jailer (tests/fakefirecracker, tests/fakejailer), built once.
var doubles = sync.OnceValues(func() (dir string, err error) {
	if dir, err = home(); err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "doubles")
	if _, err := os.Stat(dir); err == nil { // a child's parent has made them
		return dir, nil
	}
	for name, pkg := range map[string]string{"firecracker": "fakefirecracker", "jailer": "fakejailer"} {
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(dir, name), "../../tests/"+pkg) //nolint:forbidigo // it ends by itself
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, buildErr := build.CombinedOutput(); buildErr != nil {
			err = errors.Join(err, errors.New(string(out)), buildErr)
		}
	}
	return dir, err
})

// newJailedDriver makes a driver with the Firecracker of this host where SILK_FIRECRACKER and SILK_JAILER name one, which needs KVM, and with its
// doubles else.
func newJailedDriver(t *testing.T, change func(*Config)) *Driver {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.Image("lab:text"), testenv.Image(image.KernelTag))
	dir, err := home()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Home: dir, Images: imagetest.Store(t), Agent: testenv.AgentPath()}
	c.Firecracker, c.Jailer = testenv.FirecrackerPaths()
	double := c.Firecracker == ""
	if !double {
		testenv.Require(t, testenv.KVM)
	} else {
		testenv.Require(t, testenv.QEMU)
		programs, err := doubles()
		if err != nil {
			t.Fatal(err)
		}
		c.Firecracker, c.Jailer = filepath.Join(programs, "firecracker"), filepath.Join(programs, "jailer")
	}
	if change != nil {
		change(&c)
	}
	d := NewJailed(c)
	if f := d.host.vmm.(*jailed); double {
		f.double, f.limit = true, bootLimit(false)
	}
	if err := d.Usable(); err != nil {
		t.Fatal(err)
	}
	b, err := d.prepared(t.Context()) // it is kept
	if err != nil {
		t.Fatal(err)
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	return d
}

func onlyDouble(t *testing.T, d *Driver) {
	t.Helper()
	if !d.host.vmm.(*jailed).double {
		t.Skip("a real Firecracker does not go wrong on demand") // testenv knows no such need
	}
}

func TestJailedConformance(t *testing.T) {
	if !newJailedDriver(t, nil).host.vmm.kvm() {
		drivertest.Guard = 5 * time.Minute
	}
	programs := drivertest.Shell
	if !everything() {
		programs = drivertest.Programs{"workspace in and out": drivertest.Shell["workspace in and out"]}
	}
	drivertest.Run(t, func(t *testing.T) driver.Driver { return newJailedDriver(t, nil) }, openLabText, programs)
}

// jailedSpec is a run that waits. Its output is thrown away.
func jailedSpec(t *testing.T, id string) driver.Spec {
	t.Helper()
	root := openLabText(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close(); r.Close(); w.Close() })
	return driver.Spec{
		ID: id, Image: root, Stdout: w, Stderr: w, Args: []string{"sleep", "1000"}, Env: []string{"PATH=/usr/bin"}, Dir: "/", Network: driver.NetworkDeny, Trees: []string{"/usr"},
		MemoryBytes: 128 << 20, WorkspaceBytes: 1 << 20, TmpBytes: 1 << 20, ShmBytes: 1 << 20, Processes: 10, CPUs: 1,
	}
}

// nothingLeft fails t if there is a jail.
func nothingLeft(t *testing.T, d *Driver) {
	t.Helper()
	f := d.host.vmm.(*jailed)
	for _, name := range []string{filepath.Base(f.executable), jailLocks} {
		if entries, err := os.ReadDir(filepath.Join(f.base, name)); err != nil || len(entries) != 0 {
			t.Errorf("in %s are %v, %v", name, entries, err)
		}
	}
}

// A start that fails says why, in the words of who refused, and leaves nothing.
func TestJailedFailures(t *testing.T) {
	for _, test := range []struct {
		id     string // tests/fakefirecracker has the first word
		change func(*Config)
		limit  time.Duration
		want   string
		panics bool
	}{
		{id: "refuses-entropy", want: "firecracker, PUT /entropy: 400: could not create Entropy device: it is refused"},
		{id: "silent-machine", limit: 2 * time.Second, want: "the agent did not call within 2s; its console says nothing"},
		{id: "panics-early", change: func(c *Config) { c.Console = true }, want: "the machine has ended before its time (firecracker: exit status 0); its console ends with:", panics: true},
	} {
		t.Run(test.id, func(t *testing.T) {
			d := newJailedDriver(t, test.change)
			onlyDouble(t, d)
			testenv.NoLeaks(t)
			if test.limit > 0 {
				d.host.vmm.(*jailed).limit = test.limit
			}
			_, err := d.Start(t.Context(), jailedSpec(t, test.id))
			if err == nil || !strings.Contains(err.Error(), test.want) || test.panics && !strings.Contains(err.Error(), "panic") {
				t.Errorf("got %v, want %q", err, test.want)
			}
			nothingLeft(t, d)
		})
	}
}

// A VMM that its own filter has ended is a violation, and not the program's end.
func TestJailedBreakout(t *testing.T) {
	d := newJailedDriver(t, nil)
	onlyDouble(t, d)
	testenv.NoLeaks(t)
	run, err := d.Start(t.Context(), jailedSpec(t, "breakout"))
	if err != nil {
		t.Fatal(err)
	}
	if err := run.(*sandbox).vmm.proc.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	exit, err := run.Wait()
	if v := exit.Violation; err != nil || v == nil || v.Rule != "host.breakout" || !strings.Contains(v.Argument, "status 148") {
		t.Errorf("exit %+v, %v", exit, err)
	}
	nothingLeft(t, d)
}

// A VMM that somebody else ends is an error, not the program's end, and nothing of it is left.
func TestJailedVMMKilled(t *testing.T) {
	d := newJailedDriver(t, nil)
	testenv.NoLeaks(t)
	trials := 1
	if everything() {
		trials = 10
	}
	for range trials {
		run, err := d.Start(t.Context(), jailedSpec(t, "killed"))
		if err != nil {
			t.Fatal(err)
		}
		if err := run.(*sandbox).vmm.proc.Kill(); err != nil {
			t.Fatal(err)
		}
		if exit, err := run.Wait(); err == nil || !strings.Contains(err.Error(), "signal: killed") {
			t.Errorf("exit %+v, %v", exit, err)
		}
		nothingLeft(t, d)
		noInmates(t, d)
	}
}

// What is missing has a name, and a way to get it.
func TestJailedRefusals(t *testing.T) {
	testenv.Require(t, testenv.Root)
	says := func(text string) string { return fakeVMM(t, "echo "+text) }
	store := imagetest.Store(t)
	for _, test := range []struct {
		name   string
		config Config
		want   string
	}{
		{"no firecracker", Config{}, "firecracker is not installed; a release of Firecracker has both"},
		{"no jailer", Config{Firecracker: says("Firecracker v1.16.1")}, "jailer is not installed"},
		{"something else", Config{Firecracker: says("hello"), Jailer: says("Jailer v1.16.1")}, `it says "hello" for its version`},
		{"of two releases", Config{Firecracker: says("Firecracker v1.16.1"), Jailer: says("Jailer v1.15.0")}, "install both from one release"},
		{"an old one", Config{Firecracker: says("Firecracker v1.7.0"), Jailer: says("Jailer v1.7.0")}, "silk needs 1.8 or newer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.config.Home, test.config.Images = t.TempDir(), store
			err := NewJailed(test.config).Usable()
			if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
