package launch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

const sums = "launch.sums"

// TestLauncherBelongsToItsSource: whoever changes a C file makes the launcher anew.
func TestLauncherBelongsToItsSource(t *testing.T) {
	text, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for line := range strings.Lines(string(text)) {
		want, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		files++
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not what %s says: run make generate where clang is installed", name, sums)
		}
	}
	if files != 3 {
		t.Errorf("%s names %d files, want 3", sums, files)
	}
	if !bytes.HasPrefix(Program, []byte("\x7fELF")) || len(Program) > 8<<10 {
		t.Errorf("the launcher has %d bytes and begins with %q", len(Program), Program[:4])
	}
}

// TestLauncherIsReproducible: the same compiler makes the same bytes.
func TestLauncherIsReproducible(t *testing.T) {
	testenv.Require(t, testenv.Clang)
	dir := t.TempDir()
	for _, name := range []string{"launch.c", "launch.h"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-buildvcs=false", "./generate", "-out", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made, err := os.ReadFile(filepath.Join(dir, sums))
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	compiler := func(b []byte) string { _, c, _ := strings.Cut(string(b), "# "); return c }
	if compiler(made) != compiler(committed) { // another one may make other bytes
		t.Logf("made with %q, committed with %q: not compared", compiler(made), compiler(committed))
		return
	}
	if !bytes.Equal(made, committed) {
		t.Errorf("made again it is\n%s, committed is\n%s", made, committed)
	}
}

// TestPlanLayout holds the plan to struct plan of launch.h.
func TestPlanLayout(t *testing.T) {
	p := Plan{
		Terminal: true, Dir: "/d", Filter: make([]byte, 16), Limits: []Limit{{4, 5, 6}}, Regions: []Region{{At: 0x100000ff8, Bytes: []byte("twelve bytes")}},
		Path: 1, Argv: 2, Envp: 3, Message: 7, ListenerAt: 8,
	}
	b := p.Encode()
	word := func(at int) (n uint64) {
		for i := range 8 {
			n |= uint64(b[at+i]) << (8 * i)
		}
		return n
	}
	if word(0) != 1|2<<32 || word(24) != 1|1<<32 {
		t.Errorf("flags and counts are %#x, %#x", word(0), word(24))
	}
	if dir := word(8); string(b[dir:dir+3]) != "/d\x00" {
		t.Errorf("the directory is %q", b[dir:dir+3])
	}
	if l := word(32); word(int(l)) != 4 || word(int(l)+16) != 6 {
		t.Error("the limit is not there")
	}
	g := int(word(40))
	if word(g) != 0x100000000 || word(g+8) != 0x2000 || word(g+16) != 0xff8 || word(g+32) != 12 {
		t.Errorf("the region is at %#x, %#x bytes, offset %#x", word(g), word(g+8), word(g+16))
	}
	if from := word(g + 24); string(b[from:from+12]) != "twelve bytes" {
		t.Error("its bytes are not there")
	}
	for i, want := range []uint64{1, 2, 3, 7, 8} {
		if got := word(48 + 8*i); got != want {
			t.Errorf("address %d is %d", i, got)
		}
	}
}

func TestSaid(t *testing.T) {
	what, step, number, err := Said([]byte{4, 14, 0, 0, 2, 0, 0, 0})
	if what != Failed || step != StepExec || number != 2 || err != nil {
		t.Errorf("Said() = %d, %d, %d, %v", what, step, number, err)
	}
	if _, _, _, err := Said([]byte{1}); err == nil {
		t.Error("half a message was taken")
	}
}
