package promise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

var drivers = []string{"gvisor", "docker", "docker/silk", "firecracker", "qemu"}

// Each driver has a cell for each promise, whoever starts it, and each cell a test that there is.
func TestTable(t *testing.T) {
	for _, p := range All() {
		if p.Name == "" || p.Text == "" {
			t.Errorf("a promise without words: %+v", p)
		}
		for name := range p.Cells {
			if driver := strings.TrimSuffix(name, " as user"); !strings.Contains(" "+strings.Join(drivers, " ")+" ", " "+driver+" ") {
				t.Errorf("%s: there is no driver %s", p.Name, name)
			}
		}
		for _, driver := range drivers {
			for _, root := range []bool{true, false} {
				c, ok := p.of(driver, root)
				switch {
				case !ok:
					t.Errorf("%s: no cell of %s", p.Name, driver)
				case c.Held != Yes && c.Held != Otherwise && c.Held != Refused:
					t.Errorf("%s, %s: %q", p.Name, driver, c.Held)
				case (c.How == "") != (c.Held == Yes):
					t.Errorf("%s, %s is %s, and how is %q", p.Name, driver, c.Held, c.How)
				default:
					if why := missing(t, c.Test); why != "" {
						t.Errorf("%s, %s: %s", p.Name, driver, why)
					}
				}
			}
		}
	}
}

// missing says why a test that a cell names is not there.
func missing(t *testing.T, name string) string {
	t.Helper()
	dir, test, _ := strings.Cut(name, " ")
	function, part, hasPart := strings.Cut(test, "/")
	if tests := sources(t, dir, "_test.go"); !strings.Contains(tests, "func "+function+"(") {
		return "there is no " + function + " in " + dir
	} else if hasPart && !strings.Contains(tests+sources(t, "driver/drivertest", ".go"), `"`+part+`"`) {
		return "there is no case " + part
	}
	return ""
}

func sources(t *testing.T, dir, suffix string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(testenv.RepoRoot(), dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

func TestKept(t *testing.T) {
	for _, test := range []struct {
		driver string
		root   bool
		want   string
	}{
		{"firecracker", true, "a second watcher: refused, the host's kernel sees nothing of what happens in a machine"},
		{"gvisor", false, "a second watcher: refused, eBPF needs root"},
		{"docker", true, "a kernel of its own: otherwise, the host's kernel"},
	} {
		if got, known := Summary(test.driver, test.root); !known || !strings.Contains(got, test.want) || !strings.Contains(got, " held") {
			t.Errorf("%s: %q", test.driver, got)
		}
	}
	if got, _ := Summary("gvisor", true); strings.Contains(got, "eBPF needs root") {
		t.Errorf("of root: %q", got)
	}
	if lines, held, known := Kept("another", true); known || held != 0 || lines != nil {
		t.Errorf("a driver that is not in the table: %q, %d, %t", lines, held, known)
	}
}
