package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/image/recipe"
)

// compileIn runs an image's compilers inside a sandbox: what an image holds is not trusted on the host, not even while it
// is made.
func compileIn(d driver.Driver) recipe.CompileFunc {
	return func(ctx context.Context, root *os.File, job recipe.CompileJob, read func(io.Reader) error) error {
		said, output, err := os.Pipe()
		if err != nil {
			return err
		}
		defer said.Close()
		defer output.Close()
		sandbox, err := d.Start(ctx, driver.Spec{
			ID:             fmt.Sprintf("compile-%d-%d", os.Getpid(), time.Now().UnixNano()),
			Image:          root,
			Trees:          job.Trees,
			Args:           job.Args,
			Env:            job.Env,
			Dir:            "/workspace",
			Hostname:       "silk",
			Network:        driver.NetworkDeny,
			MemoryBytes:    job.MemoryBytes + job.WorkspaceBytes,
			WorkspaceBytes: job.WorkspaceBytes,
			TmpBytes:       64 << 20,
			ShmBytes:       1 << 20,
			Processes:      256,
			CPUs:           4,
			Stdout:         output,
			Stderr:         output,
			Drain:          read,
		})
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { sandbox.Kill(driver.KillNow) })
		defer stop()
		if err := output.Close(); err != nil { // the sandbox has its own; ours would keep the pipe open
			return errors.Join(err, kill(sandbox))
		}
		tail := make(chan string, 1)
		go func() { tail <- lastBytes(said, 2000) }()
		exit, err := sandbox.Wait()
		text := <-tail
		switch {
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case exit.OOM:
			return errors.New("out of memory")
		case exit.Violation != nil:
			return fmt.Errorf("%s", exit.Violation)
		case exit.Code != 0 || exit.Signal != 0:
			return fmt.Errorf("exit status %d, signal %d: %q", exit.Code, exit.Signal, text)
		case err != nil:
			return err
		case exit.DrainErr != nil:
			return fmt.Errorf("take what was made out of the sandbox: %w", exit.DrainErr)
		}
		return nil
	}
}

func kill(s driver.Sandbox) error {
	s.Kill(driver.KillNow)
	_, err := s.Wait()
	return err
}

// lastBytes reads r to its end and returns the last n bytes.
func lastBytes(r io.Reader, n int) string {
	var kept []byte
	buf := make([]byte, 4096)
	for {
		m, err := r.Read(buf)
		kept = append(kept, buf[:m]...)
		if len(kept) > n {
			kept = kept[len(kept)-n:]
		}
		if err != nil {
			return string(kept)
		}
	}
}
