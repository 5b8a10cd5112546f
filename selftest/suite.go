package selftest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/silk-sandbox/silk/policy"
)

// Suite runs rows. Every field but Progress is needed.
type Suite struct {
	// Run takes one request through its life, as every run of silk. Copies of artifacts go to the directory
	// artifacts, if it is not empty. It is called by several goroutines.
	Run func(ctx context.Context, req policy.Request, artifacts string) (Result, error)

	Attack string  // host path of the attack program, named silk-attack
	Decoys *Decoys // what must not be found or changed
	Dir    string  // for artifacts; its content is removed row by row
	Jobs   int     // rows at once, besides those that only wait

	Progress func(done, total int, row RowReport) // one call at a time; nil: none
}

// Do runs rows and reports them in their order. An error means that no more rows could be run: the context has ended.
func (s *Suite) Do(ctx context.Context, rows []Row) ([]RowReport, error) {
	reports := make([]RowReport, len(rows))
	var mu sync.Mutex
	done := 0
	var busy, idle errgroup.Group
	busy.SetLimit(max(s.Jobs, 1))
	for i, row := range rows {
		group := &busy
		if row.Idle {
			group = &idle
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			reports[i] = s.row(ctx, row)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			if s.Progress != nil {
				s.Progress(done, len(rows), reports[i])
			}
			return nil
		})
	}
	err := busy.Wait()
	if idleErr := idle.Wait(); err == nil {
		err = idleErr
	}
	return reports, err
}

// row runs one row as often as it says, and keeps the first verdict that is not Holds.
func (s *Suite) row(ctx context.Context, r Row) RowReport {
	report := r.Report()
	report.Verdict = Holds
	began := time.Now()
	for range max(r.Times, 1) {
		got, err := s.Once(ctx, r, nil)
		report.Outcome, report.DecidedBy, report.Syscall, report.Refused = got.Outcome, got.Rule, got.Syscall, got.Refused
		report.Errno = listen(got.Output).errno
		if err != nil {
			report.Verdict, report.Problems = Broken, []string{err.Error()}
		} else {
			report.Verdict, report.Problems = r.Judge(got)
		}
		if report.Verdict != Holds {
			break
		}
	}
	report.WallMs = time.Since(began).Milliseconds()
	return report
}

// Once runs r once and looks at what came of it on the host. change changes its request; nil does not.
func (s *Suite) Once(ctx context.Context, r Row, change func(*policy.Request)) (got Result, err error) {
	h := s.Decoys.Host
	if len(r.Hosts) > 0 {
		var pair *service
		if pair, h, err = s.Decoys.take(ctx); err != nil {
			return got, err
		}
		defer s.Decoys.giveBack(pair)
		defer func() {
			err = errors.Join(err, pair.settle(ctx))
			got.Reached, got.Served = pair.hits.Load() > 0, pair.served.Load() > 0
			if !r.Serves {
				got.Reached, got.Served = got.Reached || got.Served, false
			}
			got.countEgress()
		}()
	}
	req := r.Request(s.Attack, h)
	if change != nil {
		change(&req)
	}
	artifacts := ""
	if r.Artifact {
		if artifacts, err = os.MkdirTemp(s.Dir, "artifacts-"); err != nil {
			return got, fmt.Errorf("make directory for artifacts: %w", err)
		}
		defer os.RemoveAll(artifacts)
	}
	before := s.Decoys.visits.Load()
	if got, err = s.Run(ctx, req, artifacts); err != nil {
		return got, err
	}
	if s.Decoys.visits.Load() != before {
		got.Problems = append(got.Problems, "a service of the host was reached")
	}
	got.Problems = append(got.Problems, s.Decoys.changed()...)
	for _, arg := range r.Attack {
		if strings.HasSuffix(arg, stays) {
			got.Problems = append(got.Problems, processesWith(s.Decoys.fill(arg))...)
		}
	}
	if artifacts != "" {
		got.Problems = append(got.Problems, odd(artifacts)...)
	}
	return got, nil
}

// What is copied out of a run at most: as many files as workspace.DefaultArtifacts says, and fewer bytes than any row pretends to have.
const (
	mostArtifacts     = 1000
	mostArtifactBytes = 8 << 20
)

// stays ends an argument that marks the processes of a row: none of the host may have it afterwards.
const stays = "-stays"

// odd looks for what no copy of an artifact may be: a link, a device, a file of a size that only seems so.
func odd(dir string) (found []string) {
	var files, bytes int64
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			found = append(found, fmt.Sprintf("the artifact %q was copied as a %v", path, info.Mode().Type()))
		}
		files, bytes = files+1, bytes+info.Size()
		return nil
	})
	if err != nil {
		found = append(found, fmt.Sprintf("look at artifacts: %v", err))
	}
	if files > mostArtifacts || bytes > mostArtifactBytes {
		found = append(found, fmt.Sprintf("%d artifacts with %d bytes were copied", files, bytes))
	}
	return found
}

// String says in a few words what must come of a row.
func (w want) String() string {
	var parts []string
	switch {
	case w.killed:
		return "violated by " + w.rule
	case w.Outcome != "" && w.Outcome != "ok":
		parts = append(parts, strings.ReplaceAll(w.Outcome, "|", " or "))
	}
	if w.Effect {
		parts = append(parts, "happens")
	}
	if w.Errno != "" {
		parts = append(parts, strings.ReplaceAll(w.Errno, "|", " or "))
	}
	if w.rule != "" {
		parts = append(parts, "by "+w.rule)
	}
	if w.Flag != "" {
		parts = append(parts, "with "+w.Flag)
	}
	if len(parts) == 0 {
		return "no effect"
	}
	return strings.Join(parts, " ")
}
