//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// crowded is what many sandboxes at once cost.
type crowded struct {
	contender string
	count     int
	ready     time.Duration // from the first start until the last program has printed its first word
	pss       int64         // of all their processes together, per sandbox, in bytes
}

// crowd starts count sandboxes at the same moment, waits until each one's program is up, adds up their memory while
// they are idle, and ends them.
func crowd(ctx context.Context, c contender, root rootfs, count int) (_ crowded, err error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	result := crowded{contender: c.name, count: count}
	var started []running
	defer func() {
		for _, r := range started {
			err = errors.Join(err, r.end())
		}
	}()
	seen := make(chan error, count)
	stderr := make([]bytes.Buffer, count)
	start := time.Now()
	for i := range count {
		process, stop, err := c.command(ctx, root, []string{"sh", "-c", "echo up; exec sleep 300"})
		if err != nil {
			return result, err
		}
		read, write, err := os.Pipe()
		if err != nil {
			return result, fmt.Errorf("make pipe: %w", err)
		}
		process.Stdout, process.Stderr = write, &stderr[i]
		err = process.Start()
		write.Close()
		if err != nil {
			read.Close()
			return result, fmt.Errorf("%s: %w", c.name, err)
		}
		started = append(started, running{process, stop})
		go func() {
			defer read.Close()
			firstWord(read, "up\n", seen)
		}()
	}
	for range count {
		if err := <-seen; err != nil {
			var said string
			for i := range stderr {
				said += lastLines(stderr[i].String())
			}
			return result, fmt.Errorf("%s: one of %d: %w: %s", c.name, count, err, lastLines(said))
		}
	}
	result.ready = time.Since(start)
	pids, err := descendants(os.Getpid())
	if err != nil {
		return result, err
	}
	sum, err := pss(pids)
	if err != nil {
		return result, err
	}
	result.pss = sum / int64(count)
	progress("%s: %d at once", c.name, count)
	return result, nil
}
