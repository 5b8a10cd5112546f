package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompileScript runs the script with the host's sh, its paths turned to a temporary directory, and with programs
// whose names and arguments a careless script would take apart.
func TestCompileScript(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err) // POSIX: there is one
	}
	tests := []struct {
		name, compiler, arg, stdin string
		out, stderr                string
		code                       int
		marker                     bool
	}{
		{name: "compiles and runs", compiler: "echo compiling; exit 0", arg: `a "$(echo b)" 'c`, stdin: "in", out: `[a "$(echo b)" 'c] in`, stderr: "compiling\n"},
		{name: "compile failure", compiler: "echo 'x.c:1: error' >&2; exit 7", arg: "a", stderr: "x.c:1: error\n", code: 7, marker: true},
		{name: "the compiler gets no stdin", compiler: "cat; exit 0", arg: "", stdin: "in", out: "[] in"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			script := strings.ReplaceAll(compileScript, Workspace, dir)
			args := []string{
				"-c", script, "compile", "11", sh, "-c", tt.compiler, "4", "5", "6", "7", "8", "9", "10", "11 x",
				sh, "-c", `printf '[%s] ' "$1"; cat`, "prog", tt.arg,
			}
			cmd := exec.CommandContext(t.Context(), sh, args...)
			cmd.Stdin = strings.NewReader(tt.stdin)
			var out, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &stderr
			_ = cmd.Run() // the exit status is looked at below
			if got := cmd.ProcessState.ExitCode(); got != tt.code || strings.TrimSpace(out.String()) != tt.out || stderr.String() != tt.stderr {
				t.Errorf("exit %d, stdout %q, stderr %q", got, out.String(), stderr.String())
			}
			if _, err := os.Stat(filepath.Join(dir, CompileFailed)); (err == nil) != tt.marker {
				t.Errorf("marker: %v, want %v", err, tt.marker)
			}
		})
	}
}
