//go:build server && unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/lockfile"
	"github.com/silk-sandbox/silk/note"
	"github.com/silk-sandbox/silk/run"
)

// echoNotes is an engine whose runs print their code and take no time, so that all the time goes into writing notes.
type echoNotes struct{ runs int }

func (e *echoNotes) run(_ context.Context, b *note.Block, _ run.Note) (*noteEnd, error) {
	e.runs++
	code := 0
	return &noteEnd{
		outcome: run.Outcome{Run: fmt.Sprintf("01K%023d", e.runs), Kind: run.OK, ExitCode: &code, Stdout: run.Channel{Bytes: int64(len(b.Code))}},
		stdout:  []byte(b.Code),
		close:   func() error { return nil },
	}, nil
}

func (e *echoNotes) close() error { return nil }

// echoRunner is what runs blocks of a note with echoNotes.
func echoRunner(t *testing.T, name string) *noteRunner {
	t.Helper()
	file, err := openNote(name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := file.read()
	if err != nil {
		t.Fatal(err)
	}
	a := newApp(nil)
	a.ctx, a.out, a.err = t.Context(), os.Stdout, os.Stderr
	return &noteRunner{app: a, file: file, flags: &noteFlags{}, engine: &echoNotes{}, attachments: defaultAttachments, quiet: true, first: n, now: n}
}

const eachRuns = 20 // blocks that each of two processes runs

// numbered is a note with n blocks, in a vault of its own.
func numbered(t *testing.T, n int) string {
	t.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "Text %d.\n\n```sh\necho %d\n```\n\n", i, i)
	}
	name := filepath.Join(t.TempDir(), "Note.md")
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestNoteTwoSilks runs blocks of one note in two processes at once: each result is in the note in the end.
func TestNoteTwoSilks(t *testing.T) {
	if name := os.Getenv("SILK_NOTE_TEST"); name != "" {
		first, err := strconv.Atoi(os.Getenv("SILK_NOTE_TEST_FIRST"))
		if err != nil {
			t.Fatal(err)
		}
		list := make([]int, eachRuns)
		for i := range list {
			list[i] = first + i
		}
		r := echoRunner(t, name)
		if err := r.all(list); err != nil || r.status != 0 {
			t.Fatalf("%v, exit %d", err, r.status)
		}
		return
	}
	name := numbered(t, 2*eachRuns)
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	for i := range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoteTwoSilks$")
		cmd.Env = append(os.Environ(), "SILK_NOTE_TEST="+name, "SILK_NOTE_TEST_FIRST="+strconv.Itoa(i*eachRuns))
		go func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			ended <- err
		}()
	}
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	n := note.Parse(after)
	for i := range n.Blocks {
		if n.Blocks[i].Result == nil {
			t.Errorf("block %d has no result", i+1)
		}
	}
	for i := range n.Blocks {
		n = note.Parse(n.Clear(i))
	}
	if string(n.Text()) != string(before) {
		t.Errorf("without results it is another note:\n%s", n.Text())
	}
	if names, err := os.ReadDir(filepath.Dir(name)); len(names) != 1 || err != nil {
		t.Errorf("beside the note are %v, %v", names, err)
	}
}

// TestNoteHeld puts the result of a block beside its note if something holds the note's folder and does not let go of it.
func TestNoteHeld(t *testing.T) {
	name := numbered(t, 1)
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := lockfile.Directory(t.Context(), filepath.Dir(name))
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	r := echoRunner(t, name)
	r.err, r.file.patience = &said, time.Millisecond
	if err := errors.Join(r.all([]int{0}), lock.Leave()); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(name)
	if string(after) != string(before) || err != nil {
		t.Errorf("the note is %q, %v", after, err)
	}
	beside, err := os.ReadFile(r.answers[0].Beside)
	if n := note.Parse(beside); err != nil || len(n.Blocks) != 1 || n.Blocks[0].Result == nil {
		t.Errorf("beside it is %q, %v", beside, err)
	}
	if want := "has locked the note's folder; the note is as it was, and the result is in " + r.answers[0].Beside; !strings.Contains(said.String(), want) {
		t.Errorf("it says %q, not %q", said.String(), want)
	}
}

// TestNoteApproveTwice waits for another silk that approves blocks, and keeps what that one has approved.
func TestNoteApproveTwice(t *testing.T) {
	name, home := numbered(t, 8), filepath.Join(t.TempDir(), "state")
	approve := func(line int) error {
		a := newApp(nil)
		a.ctx, a.err, a.homeFlag, a.env = t.Context(), io.Discard, home, func(string) string { return "" }
		return a.noteApprove(&noteFlags{block: line}, name)
	}
	ended := make(chan error)
	for i := range 8 {
		go func() { ended <- approve(i + 1) }()
	}
	for range 8 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	approved, err := readApproved(filepath.Join(home, approvedFile))
	if err != nil || len(approved.Blocks) != 8 {
		t.Errorf("approved are %v, %v", approved, err)
	}
}
