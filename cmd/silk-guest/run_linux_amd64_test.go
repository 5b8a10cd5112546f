package main

import (
	"testing"

	"github.com/silk-sandbox/silk/internal/pty"
)

// A new size that comes when the program has just ended ends nothing else.
func TestResizeAfterTheEnd(t *testing.T) {
	terminal, replica, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	replica.Close()
	a := &agent{terminal: terminal}
	if err := a.resize([]byte{0, 80, 0, 25}); err != nil {
		t.Errorf("while it is open: %v", err)
	}
	terminal.Close()
	if err := a.resize([]byte{0, 80, 0, 25}); err != nil {
		t.Errorf("when it is closed: %v", err)
	}
	if err := a.resize([]byte{0}); err == nil {
		t.Error("half a size was taken")
	}
}
