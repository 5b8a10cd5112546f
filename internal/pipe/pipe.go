// Package pipe makes the pipes that output and input of a sandbox go through, and reads from descriptors that somebody
// else made in a way that can be interrupted.
package pipe

import (
	"fmt"
	"os"
)

// New makes a pipe that holds at least size bytes if the host allows it, and what the host's default is otherwise. Both
// ends are closed by the caller.
func New(size int) (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	grow(w, size)
	return r, w, nil
}
