//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/pty"
	"github.com/silk-sandbox/silk/run"
)

// TestAwaited: a start that takes long is shown on a terminal, and what was shown is gone when the program runs.
func TestAwaited(t *testing.T) {
	for _, end := range []string{"runs", "output", "failed"} {
		t.Run(end, func(t *testing.T) {
			user, terminal, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer user.Close()
			var frames []string
			closed := 0
			s := &streams{close: func() { closed++ }, io: run.IO{OnFrame: func(f run.Frame) { frames = append(frames, string(f.Data)) }}}
			s.awaited(&app{err: terminal})
			var shown strings.Builder
			for buf := make([]byte, 256); !strings.Contains(shown.String(), "starting the sandbox"); {
				n, err := user.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				shown.Write(buf[:n])
			}
			s.io.Trace("driver starts", time.Now())
			switch end {
			case "runs":
				s.io.Trace(run.StepRuns, time.Now())
			case "output":
				s.io.OnFrame(run.Frame{Data: []byte("out")})
			}
			s.close()
			if err := terminal.Close(); err != nil {
				t.Fatal(err)
			}
			for buf := make([]byte, 256); ; {
				n, err := user.Read(buf)
				shown.Write(buf[:n])
				if err != nil {
					break
				}
			}
			if _, last, _ := strings.Cut(shown.String(), "starting"); strings.TrimRight(last[strings.LastIndex(last, "\r"):], " \r") != "" || closed != 1 || (end == "output") != (len(frames) == 1) {
				t.Errorf("shown %q, closed %d times, frames %q", shown.String(), closed, frames)
			}
		})
	}
}
