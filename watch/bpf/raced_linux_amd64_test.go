package bpf

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRaced: who comes second with a task's storage comes again, and not for ever.
func TestRaced(t *testing.T) {
	other := errors.New("other")
	for _, test := range []struct {
		name  string
		fails []error // of the first tries; the last one again and again
		want  error
		tries int
	}{
		{"at once", []error{nil}, nil, 1},
		{"second", []error{fmt.Errorf("update: %w", unix.EAGAIN), nil}, nil, 2},
		{"in use", []error{unix.EBUSY, unix.EAGAIN, unix.EBUSY, nil}, nil, 4},
		{"refused", []error{unix.EAGAIN, other}, other, 2},
		{"for ever", []error{unix.EAGAIN}, unix.EAGAIN, raceTries},
	} {
		tries := 0
		err := raced(func() error {
			err := test.fails[min(tries, len(test.fails)-1)]
			tries++
			return err
		})
		if !errors.Is(err, test.want) || tries != test.tries {
			t.Errorf("%s: %v after %d tries, want %v after %d", test.name, err, tries, test.want, test.tries)
		}
	}
}
