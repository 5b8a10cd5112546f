//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/api"
)

// viewers is how many clients watch one run at once.
const viewers = 1000

// What a run prints for all viewers, and what for one.
var (
	manyLines = []string{"sh", "-c", "for i in $(seq 100); do echo line $i; sleep 0.05; done"}
	muchText  = []string{"sh", "-c", fmt.Sprintf("yes 0123456789012345678901234567890123456789 | head -c %d", flowBytes)}
)

// viewed is what many viewers of one run cost, and how fast one is.
type viewed struct {
	memory        int64         // largest resident set of the service meanwhile, in bytes
	cat, streamed time.Duration // how long flowBytes take into `cat`, and to a client of the service
}

// measureViewers has many clients watch one run, and one client a run that prints much.
func (r *report) measureViewers(ctx context.Context, s *service, cfg config) error {
	id, err := s.ask(ctx, "lab:text", manyLines)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	faults := make([]error, viewers)
	for i := range viewers {
		all.Go(func() {
			lines := 0
			faults[i] = s.watch(ctx, id, func(f api.Frame) { lines += strings.Count(f.Data, "\n") })
			if faults[i] == nil && lines != 100 {
				faults[i] = fmt.Errorf("viewer %d saw %d lines", i, lines)
			}
		})
	}
	all.Wait()
	if err := errors.Join(faults...); err != nil {
		return err
	}
	if r.viewers.memory, err = peak(s.process.Process.Pid); err != nil {
		return err
	}
	var cat, streamed []time.Duration
	for range listRounds {
		for took, server := range map[*[]time.Duration]string{&cat: "", &streamed: "unix://" + filepath.Join(s.home, "silk.sock")} {
			start := time.Now()
			if err := intoCat(ctx, cfg, server); err != nil {
				return err
			}
			*took = append(*took, time.Since(start))
		}
	}
	r.viewers.cat, r.viewers.streamed = median(cat), median(streamed)
	progress("viewers")
	return nil
}

// intoCat has `cat` get what a run prints: by this machine's silk, or by a server.
func intoCat(ctx context.Context, cfg config, server string) error {
	process := exec.CommandContext(ctx, "sh", append([]string{"-c", `"$0" run -p lab:text -- "$@" | cat | wc -c`, cfg.silk}, muchText...)...) //nolint:gosec // our own
	process.Env = append(os.Environ(), "SILK_HOME="+cfg.home)
	if server != "" {
		process.Env = append(process.Env, "SILK_SERVER_URL="+server)
	}
	out, err := process.Output()
	if n, _ := strconv.Atoi(strings.TrimSpace(string(out))); err != nil || n != flowBytes {
		return fmt.Errorf("%d bytes came into cat, want %d: %w", n, flowBytes, err)
	}
	return nil
}

func (r report) writeViewers(b *strings.Builder) {
	fmt.Fprintf(b, "%d viewers of one run that prints a line every 50 ms, each by a WebSocket: the service's resident set is at most %.0f MiB, each has seen every line.\n"+
		"%d MB of lines into `cat`: %.2f s by `silk run`, %.2f s by `silk --server URL run`; median of %d.\n\n",
		viewers, mib(r.viewers.memory), flowBytes/1_000_000, r.viewers.cat.Seconds(), r.viewers.streamed.Seconds(), listRounds)
}
