//go:build unix

package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/internal/lockfile"
)

func TestOneRotationAtATime(t *testing.T) {
	db := long(t, 50)
	if err := makeDir(Dir(db)); err != nil {
		t.Fatal(err)
	}
	other, err := lockfile.Take(filepath.Join(Dir(db), lockName))
	if err != nil {
		t.Fatal(err)
	}
	if did := rotate(t, db, small); len(did.Segments) > 0 || inTable(t, db) != 50 {
		t.Errorf("it worked beside another: %v", did)
	}
	if err := other.Leave(); err != nil {
		t.Fatal(err)
	}
	if did := rotate(t, db, small); len(did.Segments) != 4 {
		t.Errorf("after the other: %v", did)
	}
}

// A rotation that is cancelled between two steps leaves a whole trail, and the next one finishes it.
func TestRotateStopsWhenCanceled(t *testing.T) {
	db := long(t, 50)
	one := list(t, db, Filter{Limit: 1})[0]
	policy := Policy{MaxBytes: 10*one.size() + 1, Keep: 10} // not due for the ten that stay
	head := verified(t, db).Head
	ctx, cancel := context.WithCancel(t.Context())
	defer func(old func(string)) { atStep = old }(atStep)
	listed := 0
	atStep = func(step string) {
		if step == "file is listed" {
			if listed++; listed == 4 { // only its rows are left to be deleted
				cancel()
			}
		}
	}
	if _, err := Rotate(ctx, db, policy); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if got := verified(t, db).Head; got != head || inTable(t, db) != 17 {
		t.Errorf("head %+v, want %+v; %d events in the table", got, head, inTable(t, db))
	}
	if events := list(t, db, Filter{}); len(events) != 50 {
		t.Errorf("%d events are listed, want each once", len(events))
	}
	if events, err := After(t.Context(), db, 0, 100); err != nil || len(events) != 50 {
		t.Errorf("%d events are read, %v, want each once", len(events), err)
	}
	rotate(t, db, policy)
	if n := inTable(t, db); n != 10 || verified(t, db).Head != head {
		t.Errorf("%d events are left in the table, want 10", n)
	}
}

// A file that was not listed when its maker died is cleared away, also when the next rotation makes others.
func TestUnlistedFileIsRemoved(t *testing.T) {
	db := long(t, 50)
	ctx, cancel := context.WithCancel(t.Context())
	defer func(old func(string)) { atStep = old }(atStep)
	atStep = func(step string) {
		if step == "file is durable" {
			cancel()
		}
	}
	if _, err := Rotate(ctx, db, small); !errors.Is(err, context.Canceled) || len(files(t, db)) != 1 {
		t.Fatalf("got %v, files %v", err, files(t, db))
	}
	atStep = func(string) {}
	did := rotate(t, db, Policy{MaxBytes: 5000, Keep: 10})
	if names := files(t, db); !slices.Equal(names, did.Segments) || len(names) == 0 {
		t.Errorf("files %v, want %v", names, did.Segments)
	}
}

// What cannot be verified is not sealed: it stays where it can be looked at.
func TestRotateRefusesABrokenTrail(t *testing.T) {
	db := long(t, 50)
	if _, err := db.Exec("DROP TRIGGER audit_events_no_update; UPDATE audit_events SET data = '{}' WHERE seq = 7"); err != nil {
		t.Fatal(err)
	}
	var broken *BrokenError
	if _, err := Rotate(t.Context(), db, small); !errors.As(err, &broken) || broken.Seq != 7 {
		t.Errorf("got %v, want a break at 7", err)
	}
	if n := inTable(t, db); n != 50 || len(files(t, db)) > 0 {
		t.Errorf("%d events in the table, files %v", n, files(t, db))
	}
}

// What does not come back from the disk as it was written is no reason to delete an event.
func TestRotateReadsAgain(t *testing.T) {
	db := long(t, 50)
	defer func(old func(string)) { atStep = old }(atStep)
	atStep = func(step string) {
		if step != "file is written" {
			return
		}
		f, err := os.OpenFile(filepath.Join(Dir(db), ".new-segment"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xff}, 100); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if did, err := Rotate(t.Context(), db, small); !errors.Is(err, errSegment) {
		t.Errorf("it did %+v, %v", did, err)
	}
	if n := inTable(t, db); n != 50 || len(files(t, db)) > 0 {
		t.Errorf("%d events in the table, files %v", n, files(t, db))
	}
}

// TestKilledRotation kills the process after each step of a rotation with retention. Nothing is lost at any: the next
// rotation finishes.
func TestKilledRotation(t *testing.T) {
	const env, envStep, envCount = "SILK_AUDIT_TEST_ROTATE", "SILK_AUDIT_TEST_STEP", "SILK_AUDIT_TEST_COUNT"
	policy := small
	policy.Retention = time.Nanosecond
	if p := os.Getenv(env); p != "" {
		var count int
		if _, err := fmt.Sscan(os.Getenv(envCount), &count); err != nil {
			t.Fatal(err)
		}
		atStep = func(step string) {
			if step == os.Getenv(envStep) {
				if count--; count == 0 {
					if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
					select {}
				}
			}
		}
		rotate(t, openFile(t, p), policy)
		return
	}
	for _, kill := range []struct {
		step  string
		count int
		table int // events in the table then
	}{
		{"events are written", 1, 50},
		{"file is durable", 1, 50},
		{"file is listed", 1, 50},
		{"rows are deleted", 1, 40},
		{"events are written", 3, 30},
		{"file is durable", 3, 30},
		{"file is listed", 3, 30},
		{"rows are deleted", 4, 10},
		{"removal is recorded", 1, 11},
		{"file is removed", 1, 11},
		{"file is removed", 4, 11},
	} {
		t.Run(fmt.Sprint(kill.step, " ", kill.count), func(t *testing.T) {
			db := long(t, 50)
			before, head := list(t, db, Filter{}), verified(t, db).Head
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledRotation$")
			cmd.Env = append(os.Environ(), env+"="+db.Path(), envStep+"="+kill.step, envCount+"="+fmt.Sprint(kill.count))
			out, err := cmd.CombinedOutput()
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("it was not killed there: %v\n%s", err, out)
			}
			if n := inTable(t, db); n != kill.table {
				t.Errorf("%d events are in the table, want %d", n, kill.table)
			}
			report := verified(t, db, head)
			if retained := strings.Contains(kill.step, "remov"); retained {
				if report.Gap == nil || report.Gap.LastSeq != 40 || report.Seq != 51 {
					t.Errorf("the trail is %+v, %+v", report, report.Gap)
				}
			} else if diff := cmp.Diff(before, list(t, db, Filter{})); diff != "" || report.Head != head {
				t.Errorf("after the kill %+v, other events (-before +after):\n%s", report, diff)
			}

			rotate(t, db, policy)
			if report = verified(t, db, head); report.Gap == nil || report.Gap.LastSeq != 40 || inTable(t, db) != 11 {
				t.Errorf("after the next rotation %+v, %d events in the table", report, inTable(t, db))
			}
			if names := files(t, db); len(names) > 0 {
				t.Errorf("left: %v", names)
			}
		})
	}
}

// TestRotateAndAppendFromManyProcesses has processes that append and others that rotate, at once.
func TestRotateAndAppendFromManyProcesses(t *testing.T) {
	const env = "SILK_AUDIT_TEST_BOTH"
	const processes, each = 3, 40
	if p := os.Getenv(env); p != "" {
		db := openFile(t, p)
		for i := range each {
			add(t, db, fmt.Sprint(os.Getpid()), SandboxStarted, SandboxCompleted)
			if i%4 == 3 {
				rotate(t, db, small)
			}
			if i%10 == 9 {
				verified(t, db)
			}
		}
		return
	}
	p := path(t)
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRotateAndAppendFromManyProcesses$")
			cmd.Env = append(os.Environ(), env+"="+p)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	db := openFile(t, p)
	for rotate(t, db, small).More {
	}
	report := verified(t, db)
	if report.Seq != processes*each*2 || report.Segments < 10 || inTable(t, db) > 19 {
		t.Errorf("got %+v, %d events in the table", report, inTable(t, db))
	}
	for i, e := range list(t, db, Filter{Limit: 1000}) {
		if e.Seq != report.Seq-int64(i) {
			t.Fatalf("event %d is %d", i, e.Seq)
		}
	}
}
