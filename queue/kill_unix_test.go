//go:build unix

package queue_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/queue"
)

const killEnv, killRound, killSubmit = "SILK_QUEUE_TEST_DIR", "SILK_QUEUE_TEST_ROUND", "SILK_QUEUE_TEST_SUBMIT"

// logged appends lines to a file that outlives the process: what the world has seen.
type logged struct {
	mu sync.Mutex
	f  *os.File
}

func (l *logged) add(line string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.f.WriteString(line + "\n")
	return err
}

func appendTo(path string) (*logged, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &logged{f: f}, err
}

// serveUntilKilled is a server as the child process runs it: it ends what was lost, and takes and runs runs. Without
// submissions it ends when nothing is left.
func serveUntilKilled(t *testing.T, dir string) error {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	h, q, err := startHost(ctx, dir, queue.Config{Worker: "worker-" + os.Getenv(killRound), Running: 3, TokenQueued: 20, Logger: slog.New(slog.DiscardHandler)}.
		WithStep(func(step, _ string) { os.Stdout.WriteString(step + "\n") }))
	if err != nil {
		return err
	}
	accepted, err := appendTo(filepath.Join(dir, "accepted"))
	if err != nil {
		return err
	}
	executed, err := appendTo(filepath.Join(dir, "executed"))
	if err != nil {
		return err
	}
	lost, err := q.Lost(ctx)
	if err != nil {
		return err
	}
	for _, e := range lost {
		if err := end(ctx, q, e.Run, "lost"); err != nil {
			return err
		}
	}
	if err := releaseAll(ctx, h, q); err != nil { // what was killed between its acceptance and its approval
		return err
	}
	if os.Getenv(killSubmit) == "" && open(t, h) == 0 {
		stop()
	}
	var clients sync.WaitGroup
	for c := range 3 {
		if os.Getenv(killSubmit) == "" {
			break
		}
		clients.Go(func() {
			token := fmt.Sprintf("t%d", c)
			for i := 0; ; i++ {
				run := fmt.Sprintf("%s-%s-%d", token, os.Getenv(killRound), i)
				_, _, err := q.Submit(ctx, queue.Submission{Run: run, Token: token, Key: run, Pending: i%5 == 4}, nil)
				if _, full := errors.AsType[*queue.FullError](err); full {
					continue
				}
				if err == nil {
					err = accepted.add(run)
				}
				switch {
				case err != nil:
				case i%5 == 4:
					err = q.Release(ctx, run, nil)
				case i%5 == 2:
					var waiting bool
					if waiting, err = q.Cancel(ctx, run); waiting {
						err = end(ctx, q, run, "canceled")
					} else if errors.Is(err, queue.ErrEnded) {
						err = nil
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return errors.Join(q.Work(ctx, func(ctx context.Context, e queue.Entry) error {
		if err := q.OnDisk(e.Run); err != nil {
			return err
		}
		if err := executed.add(e.Run); err != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond):
		case <-ctx.Done():
		}
		if err := end(context.WithoutCancel(ctx), q, e.Run, "ran"); err != nil {
			return err
		}
		if os.Getenv(killSubmit) == "" && open(t, h) == 0 {
			stop()
		}
		return nil
	}), h.close(q))
}

func releaseAll(ctx context.Context, h *host, q *queue.Queue) error {
	rows, err := h.db.QueryContext(ctx, "SELECT run FROM requests WHERE state = 'pending'")
	if err != nil {
		return err
	}
	defer rows.Close()
	var runs []string
	for rows.Next() {
		var run string
		if err := rows.Scan(&run); err != nil {
			return err
		}
		runs = append(runs, run)
	}
	for _, run := range runs {
		if err := q.Release(ctx, run, nil); err != nil {
			return err
		}
	}
	return rows.Err()
}

// TestKilled kills a server that takes, runs, releases and cancels runs, thirty times at any moment, and lets the last
// one finish: every run that was accepted has ended, and none was executed twice.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(killEnv); dir != "" {
		if err := serveUntilKilled(t, dir); err != nil {
			t.Fatal(err)
		}
		return
	}
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	dir := t.TempDir()
	for round := range rounds + 1 {
		last := round == rounds
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), killEnv+"="+dir, fmt.Sprint(killRound, "=", round))
		if !last {
			cmd.Env = append(cmd.Env, killSubmit+"=1")
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		steps := bufio.NewScanner(out)
		for range rand.IntN(200) { // some twenty of them are one run's
			if !steps.Scan() {
				break
			}
		}
		if !last {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		rest := ""
		for steps.Scan() {
			rest = steps.Text()
		}
		err = cmd.Wait()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if last && err != nil || !last && status.Signal() != syscall.SIGKILL {
			t.Fatalf("round %d ended with %v: %s%s", round, err, rest, stderr.String())
		}
	}
	checkKilled(t, dir)
}

func lines(t *testing.T, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

func checkKilled(t *testing.T, dir string) {
	h, q, err := startHost(t.Context(), dir, queue.Config{Worker: "reader"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.close(q); err != nil {
			t.Error(err)
		}
	}()
	if n := open(t, h); n > 0 {
		t.Errorf("%d runs have not ended", n)
	}
	accepted := lines(t, filepath.Join(dir, "accepted"))
	for _, run := range accepted {
		if e, err := q.Get(t.Context(), run); err != nil || e.State != queue.Ended {
			t.Errorf("%s was accepted: %v, %s", run, err, e.State)
		}
	}
	times := map[string]int{}
	executed := lines(t, filepath.Join(dir, "executed"))
	for _, run := range executed {
		if times[run]++; times[run] == 2 {
			t.Errorf("%s was executed twice", run)
		}
	}
	how := map[string]int{}
	rows, err := h.db.Query("SELECT s.id, s.name FROM sessions s JOIN requests r ON r.run = s.id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var run, name string
		if err := rows.Scan(&run, &name); err != nil {
			t.Fatal(err)
		}
		how[name]++
		if name == "ran" && times[run] != 1 {
			t.Errorf("%s ran, and was executed %d times", run, times[run])
		}
		if name == "canceled" && times[run] != 0 {
			t.Errorf("%s was canceled while it waited, and was executed", run)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if all, err := h.stream.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("the stream still has %v, %v", all, err)
	}
	t.Logf("%d accepted, %d executed, ends: %v", len(accepted), len(executed), how)
	if how["ran"] == 0 || how["lost"] == 0 || how["canceled"] == 0 {
		t.Errorf("the ends were only %v", how)
	}
}
