package gvisor_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// TestThreatModelNamesTests holds docs/threat-model.md, whose table names the test of each layer, to the tests there are.
func TestThreatModelNamesTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(), "docs", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`").FindAllStringSubmatch(string(text), -1)
	if len(names) < 10 {
		t.Fatalf("the threat model names %d tests", len(names))
	}
	var all strings.Builder
	err = fs.WalkDir(os.DirFS(testenv.RepoRoot()), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (path == "bin" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(filepath.Join(testenv.RepoRoot(), path))
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.Contains(all.String(), "\nfunc "+name[1]+"(") {
			t.Errorf("there is no test %s", name[1])
		}
	}
}
