package embedded

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// turnWait is how long a silk waits for another that unpacks the same file: 34 MB take well under a second on any
// disk that is of use. One that was stopped half-way must not hold up the others for longer.
const turnWait = 10 * time.Second

// takeTurn waits until no other silk unpacks in dir. Fifty that start at once on a new home would otherwise
// need fifty times the space. The lock only saves space: without it (a file system that has none, a holder that does
// not end) each writes a file of its own, and no harm is done. The kernel releases it when its holder is killed.
func takeTurn(dir string, wait time.Duration) (release func()) {
	d, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(wait); ; <-look.C {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		busy := errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR)
		if !busy || time.Now().After(end) {
			return func() { d.Close() }
		}
	}
}
