//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"
)

const flowBytes = 100_000_000

// flowed is how fast a program's output arrives.
type flowed struct {
	contender string
	rate      float64 // bytes per second, start included; the median
	peak      int64   // largest resident set of the contender's own first process, in bytes
}

// flows lets every contender pass flowBytes through stdout. The start is part of the time: it is the same for all
// sizes, and small beside this one.
func flows(ctx context.Context, all []contender, root rootfs) ([]flowed, error) {
	rates, peaks := make([][]float64, len(all)), make([]int64, len(all))
	for round := range insideRounds {
		for turn := range all {
			i := (turn + round) % len(all)
			rate, high, err := flow(ctx, all[i], root)
			if err != nil {
				return nil, err
			}
			rates[i], peaks[i] = append(rates[i], rate), max(peaks[i], high)
		}
	}
	progress("output")
	var result []flowed
	for i, c := range all {
		result = append(result, flowed{c.name, median(rates[i]), peaks[i]})
	}
	return result, nil
}

func flow(ctx context.Context, c contender, root rootfs) (rate float64, high int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	process, _, err := c.command(ctx, root, []string{"head", "-c", fmt.Sprint(flowBytes), "/dev/zero"})
	if err != nil {
		return 0, 0, err
	}
	var stderr bytes.Buffer
	var got atomic.Int64
	process.Stderr = &stderr
	process.Stdout = counter{&got}
	start := time.Now()
	if err := process.Start(); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", c.name, err)
	}
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		again := time.NewTicker(5 * time.Millisecond)
		defer again.Stop()
		for {
			if now, err := peak(process.Process.Pid); err == nil {
				high = max(high, now)
			}
			select {
			case <-done:
				return
			case <-again.C:
			}
		}
	}()
	err = process.Wait()
	wall := time.Since(start)
	close(done)
	<-watched
	if err != nil {
		return 0, 0, fmt.Errorf("%s: pass output on: %w: %s", c.name, err, lastLines(stderr.String()))
	}
	if n := got.Load(); n != flowBytes {
		return 0, 0, fmt.Errorf("%s: passed %d bytes on, want %d", c.name, n, flowBytes)
	}
	return flowBytes / wall.Seconds(), high, nil
}

// counter counts what it is given. It is not an *os.File, so that os/exec drains a pipe into it, as anything that keeps
// output does.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// firstWord waits until r has printed want, and goes on draining it.
func firstWord(r io.Reader, want string, seen chan<- error) {
	var text strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := r.Read(buffer)
		text.Write(buffer[:n])
		if strings.Contains(text.String(), want) {
			seen <- nil
			io.Copy(io.Discard, r)
			return
		}
		if err != nil {
			seen <- fmt.Errorf("ended after %q: %w", text.String(), err)
			return
		}
	}
}
