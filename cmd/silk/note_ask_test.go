//go:build server && linux

package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/pty"
)

// TestNoteRunAsks: a block that takes an approval is run if the user says so on the terminal, and its result is in the note either way. The fake driver
// has no sh: 127 says that it was asked for.
func TestNoteRunAsks(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[string]string{"y\n": "silk-sandbox output · failed · exit 127", "n\n": "silk-sandbox output · denied · approval"} {
		t.Run(strings.TrimSpace(answer), func(t *testing.T) {
			dir := t.TempDir()
			config, name := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "note.md")
			for file, text := range map[string]string{
				config: "profiles: {fake: {from: lab:text, image: fake, network: deny, summary: for tests}}\n",
				name:   "```sh {silk profile=fake timeout=100m}\nexit\n```\n",
			} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			user, terminal, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer user.Close()
			if _, err := io.WriteString(user, answer); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			env := append(os.Environ(), "SILK_HOME="+filepath.Join(dir, "home"), "SILK_CONFIG="+config)
			silk := func(args ...string) *exec.Cmd {
				cmd := exec.CommandContext(ctx, exe)
				cmd.Args, cmd.Env, cmd.WaitDelay = append([]string{"silk"}, args...), env, time.Second
				return cmd
			}
			if err := os.MkdirAll(filepath.Join(dir, "root", "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "root", "bin", "sh"), []byte("not really"), 0o700); err != nil {
				t.Fatal(err)
			}
			if out, err := silk("image", "import", filepath.Join(dir, "root"), "fake").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			cmd := silk("note", "run", name)
			cmd.Stdin, cmd.Stderr = terminal, terminal
			runErr := cmd.Run()
			_ = terminal.Close()
			shown, _ := io.ReadAll(user)
			text, err := os.ReadFile(name)
			if err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(shown), "line 1: approval needed for timeout 1h40m") || !strings.Contains(string(shown), "run it?") {
				t.Errorf("%v, %v\n%s\n%s", runErr, err, shown, text)
			}
		})
	}
}
