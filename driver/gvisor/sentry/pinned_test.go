package sentry

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gvisor.dev/gvisor/pkg/timing"
	"gvisor.dev/gvisor/runsc/boot"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
)

// What this file pins is not promised by gVisor: unexported functions, variables and fields that we reach by linkname
// and reflection. A new version of the module that changes one of them fails here, not in somebody's sandbox.

var update = flag.Bool("update", false, "rewrite testdata")

// pinned are the declarations, as they stand in the module, by package folder.
var pinned = map[string][]string{
	"runsc/boot": {
		"func (l *Loader) run() error",
		"func createProcessArgs(id string, spec *specs.Spec, conf *config.Config, creds *auth.Credentials, k *kernel.Kernel, pidns *kernel.PIDNamespace) (kernel.CreateProcessArgs, error)",
		"func getRootCredentials(spec *specs.Spec, conf *config.Config, userNs *auth.UserNamespace) *auth.Credentials",
	},
	"runsc/boot/filter":         {"var precompiledPrograms map[string]precompiledseccomp.Program"},
	"pkg/sentry/seccheck":       {"var initOnce sync.Once"},
	"pkg/sentry/syscalls/linux": {"func write(t *kernel.Task, file *vfs.FileDescription, src usermem.IOSequence, opts vfs.WriteOptions) (int64, error)"},
}

// patched are the declarations that a patch of ours adds to the module.
var patched = map[string][]string{
	"0002-loader-judges-executables.patch": {
		"var judgeExecutable func(ctx context.Context, file *vfs.FileDescription) error",
		"var judgeExecutableName func(ctx context.Context, root, start vfs.VirtualDentry, name string, follow bool) error",
	},
	"0006-stub-filters-ahead.patch":      {"var stubFilters map[string]precompiledseccomp.Program"},
	"0007-clocks-that-stand-still.patch": {"var Due atomic.Pointer[func(clock SampledClock, at Time)]"},
}

func TestLinknamesArePinned(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "gvisor.dev/gvisor").Output()
	if err != nil {
		t.Fatal(err)
	}
	module := strings.TrimSpace(string(out))
	total := 0
	for folder, want := range pinned {
		got := declarations(t, filepath.Join(module, folder))
		for _, w := range want {
			total++
			if !slices.Contains(got, w) {
				t.Errorf("gVisor's %s no longer declares %s", folder, w)
			}
		}
	}
	for file, decls := range patched {
		text, err := os.ReadFile(filepath.Join("../patches", file))
		for _, want := range decls {
			total++
			if err != nil || !strings.Contains(string(text), "\n+"+want+"\n") {
				t.Errorf("%s does not declare %s: %v", file, want, err)
			}
		}
	}
	if n := linknames(t); n != total {
		t.Errorf("this package has %d linknames, %d are pinned", n, total)
	}
}

// declarations are the functions and variables of a folder, each on one line, without bodies and values.
func declarations(t *testing.T, dir string) (decls []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source in %s: %v", dir, err)
	}
	for _, file := range files {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		text := func(n ast.Node) {
			var b bytes.Buffer
			if err := printer.Fprint(&b, fset, n); err != nil {
				t.Fatal(err)
			}
			decls = append(decls, strings.Join(strings.Fields(b.String()), " "))
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				d.Body, d.Doc = nil, nil
				text(d)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR {
						v.Values, v.Doc, v.Comment = nil, nil, nil
						text(&ast.GenDecl{Tok: token.VAR, Specs: []ast.Spec{v}})
					}
				}
			}
		}
	}
	return decls
}

// linknames counts them in this package's own files.
func linknames(t *testing.T) (n int) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(b, []byte("\n//go:linkname "))
	}
	return n
}

func TestLoaderFieldsArePinned(t *testing.T) {
	if _, err := fieldsOf(new(boot.Loader)); err != nil {
		t.Error(err)
	}
}

func TestTimerFieldsArePinned(t *testing.T) {
	timer, at := timing.New("test", time.Unix(1, 0)), time.Unix(2, 3)
	timer.ReachedAt("a point", at)
	want := []wire.Step{{Name: "gvisor: a point", At: at.UnixNano()}}
	if d := cmp.Diff(want, stepsOf(timer)); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
}

// TestLinksArePinned keeps the Sentry's executable small: each package that it links is initialised at each cold start.
// A new line here needs a reason in the commit (go test ./driver/gvisor/sentry -run Links -update).
func TestLinksArePinned(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		"github.com/silk-sandbox/silk/cmd/silk-sentry").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	const golden = "testdata/links.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("what silk-sentry links has changed (-want +got):\n%s", d)
	}
}

// TestSeccompProgramsAreOurs checks that the embedded filters are for this gVisor and this platform, so that no start
// compiles one.
func TestSeccompProgramsAreOurs(t *testing.T) {
	loadSeccompPrograms()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", "gvisor.dev/gvisor").Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSpace(string(out)); want != seccompProgramsFrom {
		t.Errorf("the programs are from gVisor %s, go.mod has %s: run make generate", seccompProgramsFrom, want)
	}
	if len(precompiledPrograms) == 0 {
		t.Fatal("no programs are embedded: run make generate")
	}
	patch, err := os.ReadFile("../patches/0006-stub-filters-ahead.patch")
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile(`(?m)^\+\t"(.*)": +\{(\d), func`).FindAllSubmatch(patch, -1)
	if len(wanted) == 0 || len(wanted) != len(stubFilters) {
		t.Errorf("%d filters of stub processes are embedded, the patch has %d: remove the file and run make generate", len(stubFilters), len(wanted))
	}
	for _, w := range wanted {
		name, addresses := string(w[1]), int(w[2][0]-'0')
		if p := stubFilters[name]; len(p.Bytecode32) < 10 || len(p.VarOffsets) != 2*addresses { // 32 bits each
			t.Errorf("filter %q of stub processes has %d words and %d variables", name, len(p.Bytecode32), len(p.VarOffsets))
		}
	}
	systrap := 0
	for name, p := range precompiledPrograms {
		if len(p.Bytecode32) < 100 {
			t.Errorf("program %s has %d words", name, len(p.Bytecode32))
		}
		if strings.Contains(name, "systrap") {
			systrap++
		}
	}
	if systrap == 0 {
		t.Error("none of the embedded programs is for the systrap platform")
	}
}
