package escape

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// cache is where what the tests build stays, so that go build finds it up to date the next time.
func cache(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(testenv.RepoRoot(), "bin", "escape")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// attackProgram is the attack program of this source, not the one that the built silk has.
func attackProgram(t *testing.T) string {
	t.Helper()
	path := cache(t, "silk-attack")
	build(t, path, "./cmd/silk-attack")
	return path
}

// controlSilk builds a silk whose rules can be switched off. Nothing of the product is changed: an overlay puts a sandbox
// kernel and a gateway with the switch where the ordinary ones are embedded.
func controlSilk(t *testing.T) string {
	t.Helper()
	replace := map[string]string{}
	for name, dir := range map[string]string{"silk-sentry": "driver/gvisor/sentrybin/files", "silk-gateway": "egress/process/files"} {
		path := cache(t, name)
		build(t, path, "./cmd/"+name, "-modfile=bin/gvisor.mod", "-tags", "silkcontrol")
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		digest := cache(t, name+".sha256")
		if err := os.WriteFile(digest, []byte(hex.EncodeToString(sum[:])+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		embedded := filepath.Join(testenv.RepoRoot(), dir, name)
		replace[embedded], replace[embedded+".sha256"] = path, digest
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := cache(t, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	path := cache(t, "silk")
	build(t, path, "./cmd/silk", "-overlay", file)
	return path
}

// build builds a package of this module as `make build` does, so that the build cache serves both.
func build(t *testing.T, to, pkg string, flags ...string) {
	t.Helper()
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", to}, flags...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, pkg)...)
	cmd.Dir, cmd.Env = testenv.RepoRoot(), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-p=2")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}
