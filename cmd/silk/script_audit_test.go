//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// headOf puts the head of an export into a variable, as --head takes it: head-of file variable
func headOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: head-of file variable")
	}
	lines := bytes.Split(bytes.TrimSpace([]byte(ts.ReadFile(args[0]))), []byte("\n"))
	var end struct {
		Head struct {
			Seq  int64
			Hash string
		}
	}
	ts.Check(json.Unmarshal(lines[len(lines)-1], &end))
	ts.Setenv(args[1], fmt.Sprintf("%d:%s", end.Head.Seq, end.Head.Hash))
}

// rmSegments removes the files of old audit events behind silk's back: rm-segments
func rmSegments(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: rm-segments")
	}
	names, err := filepath.Glob(ts.MkAbs("state/audit/*.zst"))
	ts.Check(err)
	if len(names) == 0 {
		ts.Fatalf("there are none")
	}
	for _, name := range names {
		ts.Check(os.Remove(name))
	}
}

// follow follows the audit trail, runs a command once the first line is there, waits for a line with a text, and then ends
// the following as Ctrl-C does: follow text command [args...]
func follow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: follow text command [args...]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var silk string
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "silk")); err == nil && silk == "" {
			silk = filepath.Join(dir, "silk")
		}
	}
	cmd := exec.CommandContext(ctx, silk, "audit", "tail", "-n", "1", "-f")
	cmd.Env = os.Environ()
	for _, name := range []string{"PATH", "HOME", "SILK_HOME", "SILK_CONFIG"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	lines, acted, found := bufio.NewScanner(out), false, false
	for !found && lines.Scan() {
		if !acted {
			acted = true
			ts.Check(ts.Exec(args[1], args[2:]...))
			continue
		}
		found = strings.Contains(lines.Text(), args[0])
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // its status is looked at
	if !found || cmd.ProcessState.ExitCode() != 130 || stderr.Len() > 0 {
		ts.Fatalf("found %v, exit status %d, stderr %q", found, cmd.ProcessState.ExitCode(), stderr.String())
	}
}
