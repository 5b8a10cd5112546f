package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Without a terminal: nothing within the first second, then one line for each kind of work and at most one in ten
// seconds.
func TestProgressLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a := &app{err: &out}
		report, done := a.progress()
		report(1, 100, "downloading")
		wait(1100 * time.Millisecond)
		report(50<<20, 100<<20, "downloading")
		report(51<<20, 100<<20, "downloading")
		wait(9 * time.Second)
		report(60<<20, 100<<20, "downloading")
		wait(2 * time.Second)
		report(90<<20, 100<<20, "downloading")
		report(0, -1, "writing")
		done()
		done()
		want := []string{"silk: downloading: 50.0 MiB of 100.0 MiB (50 %)", "silk: downloading: 90.0 MiB of 100.0 MiB (90 %)", "silk: writing"}
		if got := strings.TrimSpace(out.String()); got != strings.Join(want, "\n") {
			t.Errorf("got:\n%s", got)
		}
	})
}

// wait lets fake time pass.
func wait(d time.Duration) { <-time.After(d) }
