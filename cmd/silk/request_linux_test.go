package main

import (
	"context"
	"errors"
	"os"
	"testing"
)

// Somebody who changes their mind while they type code need not press Ctrl-C twice.
func TestCanceledInput(t *testing.T) {
	in, typing, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer typing.Close()
	if _, err := typing.WriteString("print("); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errSignal)
	a := &app{in: in, ctx: ctx}
	if code, err := a.readInput(); !errors.Is(err, errSignal) || code != nil {
		t.Errorf("read %q, %v", code, err)
	}
}
