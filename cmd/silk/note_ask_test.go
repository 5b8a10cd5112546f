//go:build server && linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/pty"
)

// TestNoteAsks: a block that takes an approval is run if the user says so on the terminal, and its result is in the note either way. A vault that is
// watched has nobody to ask, even where it runs blocks by itself. The fake driver has no sh: 127 says that it was asked for.
func TestNoteAsks(t *testing.T) {
	const asked, ran, denied = "run it?", "silk-sandbox output · failed · exit 127", "silk-sandbox output · denied · approval"
	for name, c := range map[string]struct {
		command, answer, want string
		asked                 bool
	}{
		"yes":   {"run", "y\n", ran, true},
		"no":    {"run", "n\n", denied, true},
		"watch": {"watch", "y\n", denied, false},
	} {
		t.Run(name, func(t *testing.T) {
			vault := askingVault(t)
			user, terminal, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer user.Close()
			if _, err := io.WriteString(user, c.answer); err != nil {
				t.Fatal(err)
			}
			args := []string{"note", c.command, vault.note}
			if c.command == "watch" {
				args = []string{"note", "watch", "--every", "20ms", filepath.Dir(vault.note)}
			}
			cmd := vault.silk(args...)
			cmd.Stdin, cmd.Stderr = terminal, terminal
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait(); _ = terminal.Close() }()
			var shown strings.Builder
			for lines := bufio.NewScanner(user); lines.Scan(); {
				fmt.Fprintln(&shown, lines.Text())
				if c.command == "watch" && strings.Contains(lines.Text(), "note.md:1: ") { // the block's end
					if err := cmd.Process.Signal(os.Interrupt); err != nil {
						t.Error(err)
					}
				}
			}
			runErr := <-ended
			text, err := os.ReadFile(vault.note)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), c.want) || strings.Contains(shown.String(), asked) != c.asked || strings.Contains(shown.String(), "line 1: approval needed for timeout 1h40m") != c.asked {
				t.Errorf("%v\n%s\n%s", runErr, shown.String(), text)
			}
		})
	}
}

// asking is a vault, whose one note has a block that goes beyond its profile.
type asking struct {
	note string
	silk func(args ...string) *exec.Cmd // in a home of its own, with an image of nothing
}

func askingVault(t *testing.T) asking {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config, name, root := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "vault", "note.md"), filepath.Join(dir, "root")
	for file, text := range map[string]string{
		config:                           "profiles: {fake: {from: lab:text, image: fake, network: deny, summary: for tests}}\nnotes: {auto: [" + filepath.Dir(name) + "]}\n",
		name:                             "```sh {silk profile=fake timeout=100m auto}\nexit\n```\n",
		filepath.Join(root, "bin", "sh"): "not really",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	a := asking{name, func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, exe)
		cmd.Args, cmd.WaitDelay = append([]string{"silk"}, args...), time.Second
		cmd.Env = append(os.Environ(), "SILK_HOME="+filepath.Join(dir, "home"), "SILK_CONFIG="+config)
		return cmd
	}}
	if out, err := a.silk("image", "import", root, "fake").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return a
}
