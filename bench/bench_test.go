//go:build linux

package main

import (
	"errors"
	"flag"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files")

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"nothing", nil, 0},
		{"one", []float64{7}, 7},
		{"odd, unsorted", []float64{9, 1, 5}, 5},
		{"even: the mean of the two in the middle", []float64{4, 1, 3, 100}, 3.5},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := median(test.values); got != test.want {
				t.Errorf("median(%v) = %v, want %v", test.values, got, test.want)
			}
		})
	}
}

// TestSameGvisor: a comparison with another gVisor than the one that silk pins would say nothing.
func TestSameGvisor(t *testing.T) {
	version := regexp.MustCompile(`(?m)^\s*(?:require )?gvisor\.dev/gvisor (\S+)`)
	var versions []string
	for _, path := range []string{"../go.mod", "runsc/go.mod"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := version.FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s does not require gvisor.dev/gvisor", path)
		}
		versions = append(versions, string(m[1]))
	}
	if versions[0] != versions[1] {
		t.Errorf("silk is built with gVisor %s, the runsc to compare with from %s: run go get in bench/runsc", versions[0], versions[1])
	}
}

func TestDescendants(t *testing.T) {
	child := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo; wait")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // sleep has been forked
		t.Fatal(err)
	}
	all, err := descendants(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	below, err := descendants(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(all, child.Process.Pid) || len(below) != 1 || !slices.Contains(all, below[0]) {
		t.Errorf("descendants = %v, of the child %d: %v", all, child.Process.Pid, below)
	}
	if bytes, err := pss(all); err != nil || bytes < 4096 {
		t.Errorf("pss = %d, %v", bytes, err)
	}
	for _, pid := range append(below, child.Process.Pid) {
		p, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		p.Kill()
	}
	child.Wait()
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, fstest.MapFS{"usr/bin/python3": {Data: []byte("x"), Mode: 0o755}}); err != nil {
		t.Fatal(err)
	}
	img := rootfs{"lab:test", dir}
	if got, err := img.find("python3"); got != "/usr/bin/python3" || err != nil {
		t.Errorf("find(python3) = %q, %v", got, err)
	}
	if _, err := img.find("perl"); err == nil || !strings.Contains(err.Error(), "perl") {
		t.Errorf("find(perl) = %v, want an error that names it", err)
	}
}

// TestReport holds the page to a golden file: which figure stands where, what is met and what is missed.
func TestReport(t *testing.T) {
	row := func(name string, wall, cpu int) figures {
		at := time.Duration(wall) * time.Millisecond
		return figures{name, at, at - time.Millisecond, at + time.Millisecond, time.Duration(cpu) * time.Millisecond}
	}
	r := report{
		date: "2026-01-02", n: 15,
		machine: machine{
			cores: 2, model: "A CPU", memory: 4 << 30, virtual: true, kernel: "6.1.0", cgroup: "v2", load: "0.01",
			versions: []string{"Go 1.26", "runc 1.1"},
		},
		all: []contender{
			{name: "runc", what: "containers"},
			{name: "docker", missing: exec.ErrNotFound},
		},
		starts:   []comparison{{startPrograms[0], []figures{row("runc", 80, 100), row("runsc", 300, 500), row("silk", 100, 150), row("docker", 900, 0)}}},
		warm:     []comparison{{startPrograms[0], []figures{row("runc", 80, 100), row("silk, warm", 28, 60)}}},
		networks: []networked{{"plain", 200e6, 800e6, 200 * time.Microsecond, 0}, {"runsc", 100e6, 120e6, 1500 * time.Microsecond, 0}, {"silk", 60e6, 50e6, 3 * time.Millisecond, 1}}, idleWay: 200 << 10,
		flows:  []flowed{{"runsc", 60e6, 24 << 20}, {"silk", 90e6, 40 << 20}},
		single: []crowded{{"silk", 1, 100 * time.Millisecond, 30 << 20}},
		crowds: []crowded{{"silk", 50, 5 * time.Second, 21 << 20}},
		inside: []comparison{{insidePrograms[0], []figures{row("runc", 300, 0), row("silk", 330, 0)}}},
		trace:  "exec 1 ms\n",
		machines: machines{
			notes: []string{"emulated"}, agent: 3 << 20, flowVMM: 20 * time.Second, flowOwn: time.Second, flowWall: 25 * time.Second,
			kernels: []booted{
				{"kernel", 60 << 20, 4 * time.Second, 3 * time.Second, 5 * time.Second, 9 * time.Second, 25 * time.Millisecond},
				{"kernel:minimal", 12 << 20, time.Second, 900 * time.Millisecond, 1100 * time.Millisecond, 6 * time.Second, 31 * time.Millisecond},
			},
		},
	}
	var page strings.Builder
	if err := r.write(&page); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/report.md"
	if *update {
		if err := os.WriteFile(golden, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), page.String()); diff != "" {
		t.Errorf("page differs (-want +got):\n%s", diff)
	}
}

// One section of a page is measured anew, and the others stay as they are.
func TestReplaceSection(t *testing.T) {
	const section = "## Two\n\nnew\n\n"
	for _, test := range []struct{ name, page, want string }{
		{"in the middle", "# All\n\n## One\n\n1\n\n## Two\n\nold\n\n## Three\n\n3\n", "# All\n\n## One\n\n1\n\n## Two\n\nnew\n\n## Three\n\n3\n"},
		{"at the end", "# All\n\n## Two\n\nold\n", "# All\n\n## Two\n\nnew\n"},
		{"none yet", "# All\n\n## One\n", "# All\n\n## One\n\n## Two\n\nnew\n"},
		{"one whose heading begins alike", "## Two more\n\nx\n", "## Two more\n\nx\n\n## Two\n\nnew\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := replaceSection(test.page, section); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestMeter: both ways see a child that burns CPU time, and nothing is left of the cgroup.
func TestMeter(t *testing.T) {
	m, err := newMeter()
	if err != nil {
		t.Fatal(err)
	}
	before, err := m.read()
	if err != nil {
		t.Fatal(err)
	}
	burn := "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", burn).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	after, err := m.read()
	if err != nil {
		t.Fatal(err)
	}
	if got := after.rusage - before.rusage; got < 10*time.Millisecond {
		t.Errorf("getrusage saw %v", got)
	}
	if got := after.cgroup - before.cgroup; m.dir != "" && got < 10*time.Millisecond {
		t.Errorf("the cgroup saw %v", got)
	}
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(m.dir); m.dir != "" && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", m.dir, err)
	}
}

// The interval is that of tables of the sign test: of 30 values the 10th and the 21st.
func TestInterval(t *testing.T) {
	for _, test := range []struct {
		n         int
		low, high float64
	}{{6, 1, 6}, {10, 2, 9}, {15, 4, 12}, {30, 10, 21}, {40, 14, 27}} {
		var values []float64
		for i := range test.n {
			values = append(values, float64((i*7)%test.n+1))
		}
		slices.Sort(values)
		values = slices.Compact(values)
		if len(values) != test.n { // 7 divides n: any order will do
			t.Fatalf("n = %d has no such order", test.n)
		}
		if low, high := interval(values); low != test.low || high != test.high {
			t.Errorf("of %d values: %v - %v, want %v - %v", test.n, low, high, test.low, test.high)
		}
	}
	if low, high := interval([]float64{1, 2, 3, 4, 5}); !math.IsInf(low, -1) || !math.IsInf(high, 1) {
		t.Errorf("five values have an interval: %v - %v", low, high)
	}
}
