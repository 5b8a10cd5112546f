package main

import (
	"bufio"
	"os"
	"path/filepath"
	"testing"

	"github.com/silk-sandbox/silk/internal/pty"
)

// TestNarrowTable: a terminal shows each row on a line of its own, and a file has all of it.
func TestNarrowTable(t *testing.T) {
	rows := [][]string{{"SEQ", "DATA"}, {"1", "short"}, {"2", "äöüäöüäöüäöüäöüäöü"}}
	user, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	defer terminal.Close()
	if err := pty.Resize(user, 16, 5); err != nil {
		t.Fatal(err)
	}
	a := newApp(nil)
	a.out = terminal
	if err := a.narrowTable(rows); err != nil {
		t.Fatal(err)
	}
	shown := bufio.NewReader(user)
	for _, want := range []string{"SEQ  DATA\r\n", "1    short\r\n", "2    äöüäöüäö...\r\n"} {
		if line, err := shown.ReadString('\n'); line != want {
			t.Errorf("the terminal shows %q, %v, want %q", line, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "out")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	a.out = out
	if err := a.narrowTable(rows); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "SEQ  DATA\n1    short\n2    äöüäöüäöüäöüäöüäöü\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
}
