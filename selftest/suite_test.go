package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

// newSuite makes a suite whose runs are what run says.
func newSuite(t *testing.T, run func(req policy.Request, artifacts string, d *Decoys) (Result, error)) *Suite {
	t.Helper()
	dir, err := os.MkdirTemp("", "selftest") // short: it holds a socket, unix(7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	decoys, err := OpenDecoys(dir, "SELFTEST_DECOY")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := decoys.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Suite{
		Run: func(_ context.Context, req policy.Request, artifacts string) (Result, error) {
			return run(req, artifacts, decoys)
		},
		Attack: filepath.Join(dir, "silk-attack"), Decoys: decoys, Dir: dir, Jobs: 3,
	}
}

// holding is a row that holds if its run says so.
func holding(name string) Row {
	return Row{Class: "c", Name: name, Attack: do(name), Want: Want{Errno: "EPERM"}}
}

var fine = Result{Outcome: "ok", Output: said("reached", "errno EPERM")}

func TestDo(t *testing.T) {
	var atOnce, most, runs atomic.Int64
	s := newSuite(t, func(req policy.Request, _ string, _ *Decoys) (Result, error) {
		runs.Add(1)
		if n := atOnce.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer atOnce.Add(-1)
		switch req.Args[1] {
		case "broken":
			return Result{}, errors.New("no more room")
		case "hole":
			return Result{Outcome: "ok", Output: said("reached", "EFFECT: it happened")}, nil
		}
		return fine, nil
	})
	var seen []int
	s.Progress = func(done, total int, _ RowReport) { seen = append(seen, done*100+total) }
	rows := []Row{holding("a"), holding("hole"), holding("broken"), holding("b")}
	rows[3].Times = 2
	reports, err := s.Do(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range reports {
		got = append(got, r.Name+" "+string(r.Verdict))
	}
	if want := "a holds, hole hole, broken error, b holds"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if runs.Load() != 5 || most.Load() > 3 {
		t.Errorf("%d runs, %d at once; want 5, and 3 at most", runs.Load(), most.Load())
	}
	if want := []int{104, 204, 304, 404}; !slices.Equal(seen, want) {
		t.Errorf("progress %v, want %v", seen, want)
	}
	report := Report{Rows: reports}
	report.Sum()
	if report.OK() || report.Totals[Holds] != 2 || report.Totals[Hole] != 1 || report.Totals[Broken] != 1 || report.Classes[0] != (ClassReport{"c", 4, 2}) {
		t.Errorf("summed up as %+v, %+v", report.Totals, report.Classes)
	}
	if all := (&Report{Rows: reports[:1]}); func() bool { all.Sum(); return !all.OK() }() {
		t.Error("rows that all hold are not OK")
	}
}

// TestIdleRowsWaitBesides: rows that only wait take no place of others.
func TestIdleRowsWaitBesides(t *testing.T) {
	busy := make(chan struct{})
	s := newSuite(t, func(req policy.Request, _ string, _ *Decoys) (Result, error) {
		if req.Args[1] == "busy" {
			close(busy)
		} else {
			<-busy
		}
		return fine, nil
	})
	s.Jobs = 1
	idle := holding("idle")
	idle.Idle = true
	reports, err := s.Do(t.Context(), []Row{idle, holding("busy")})
	if err != nil || reports[0].Verdict != Holds || reports[1].Verdict != Holds {
		t.Errorf("%v, %v", reports, err)
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var runs atomic.Int64
	s := newSuite(t, func(policy.Request, string, *Decoys) (Result, error) {
		if runs.Add(1) == 2 {
			cancel()
		}
		return fine, nil
	})
	s.Jobs = 1
	if _, err := s.Do(ctx, []Row{holding("a"), holding("b"), holding("c"), holding("d")}); !errors.Is(err, context.Canceled) || runs.Load() != 2 {
		t.Errorf("%d runs, %v; want 2 and that it was canceled", runs.Load(), err)
	}
}

// TestHostIsLookedAt: what a run did to the host is found, whatever its output says.
func TestHostIsLookedAt(t *testing.T) {
	dial := func(network, address string) error {
		c, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Read(make([]byte, 1)); err == nil { // it ends when the service has counted
			return errors.New("a decoy said something")
		}
		return nil
	}
	for _, test := range []struct {
		name string
		do   func(d *Decoys, artifacts string) error
		want string
	}{
		{"nothing", func(*Decoys, string) error { return nil }, ""},
		{"a connection to the loopback", func(d *Decoys, _ string) error { return dial("tcp", "127.0.0.1:"+d.Port) }, "service"},
		{"a connection to the socket", func(d *Decoys, _ string) error { return dial("unix", d.Dir+"/socket") }, "service"},
		{"a connection to the abstract socket", func(d *Decoys, _ string) error { return dial("unix", "@"+d.Dir+"/socket") }, "service"},
		{"a change of what was copied in", func(d *Decoys, _ string) error { return os.WriteFile(d.Dir+"/copied", []byte("x"), 0o600) }, "changed"},
		{"a link among the artifacts", func(_ *Decoys, dir string) error { return os.Symlink("/etc/passwd", dir+"/l") }, "copied as a"},
		{"a large artifact", func(_ *Decoys, dir string) error {
			return os.WriteFile(dir+"/f", make([]byte, mostArtifactBytes+1), 0o600)
		}, "bytes were copied"},
		{"many artifacts", func(_ *Decoys, dir string) error {
			for i := range mostArtifacts + 1 {
				if err := os.WriteFile(fmt.Sprintf("%s/%d", dir, i), nil, 0o600); err != nil {
					return err
				}
			}
			return nil
		}, "artifacts with"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSuite(t, func(_ policy.Request, artifacts string, d *Decoys) (Result, error) {
				return fine, test.do(d, artifacts)
			})
			r := holding("a")
			r.Artifact = true
			reports, err := s.Do(t.Context(), []Row{r})
			if err != nil {
				t.Fatal(err)
			}
			problems := strings.Join(reports[0].Problems, "\n")
			if test.want == "" && reports[0].Verdict != Holds || test.want != "" && (reports[0].Verdict != Hole || !strings.Contains(problems, test.want)) {
				t.Errorf("%s: %q, want %q", reports[0].Verdict, problems, test.want)
			}
			if left, _ := filepath.Glob(s.Dir + "/artifacts-*"); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestProcessesThatStay: the test is a process with such an argument itself.
func TestProcessesThatStay(t *testing.T) {
	s := newSuite(t, func(policy.Request, string, *Decoys) (Result, error) { return fine, nil })
	r := holding("a")
	r.Attack = append(r.Attack, "{variable}"+stays)
	if reports, _ := s.Do(t.Context(), []Row{r}); reports[0].Verdict != Holds {
		t.Errorf("no process stays, but %q", reports[0].Problems)
	}
	if found := processesWith(os.Args[0]); len(found) == 0 {
		t.Error("a process that is there is not found")
	}
}

func TestRequest(t *testing.T) {
	h := Host{Name: "h", Variable: "V", Dir: "/d", Port: "7"}
	r := Row{
		Attack: do("x", "{host-name}{variable}{dir}{port}"), Network: profile.NetworkLoopback, NoSpawn: true, Mounted: true,
		Limits: profile.Limits{MemoryBytes: 5},
	}
	req := r.Request("/tmp/silk-attack", h)
	if got := strings.Join(req.Args, " "); got != program+" x hV/d7" {
		t.Errorf("arguments %q", got)
	}
	if got := strings.Join(req.Files, " "); got != "/tmp/silk-attack /d/copied" {
		t.Errorf("files %q", got)
	}
	if req.Network != r.Network || !req.NoSpawn || req.Limits.MemoryBytes != 5 || req.Limits.Timeout != timeout {
		t.Errorf("request %+v", req)
	}
	if want := []policy.Mount{{Source: "/d/mounted", Target: "/workspace/mounted"}}; !slices.Equal(req.Mounts, want) {
		t.Errorf("mounts %v, want %v", req.Mounts, want)
	}
	if r.Limits.Timeout = 3; r.Request("", h).Limits.Timeout != 3 {
		t.Error("a row's own time limit is not kept")
	}
}

// TestAttack holds for a silk with its attack program inside and for one without.
func TestAttack(t *testing.T) {
	content, err := Attack()
	if errors.Is(err, ErrNotBuilt) {
		return
	}
	if err != nil || !bytes.HasPrefix(content, []byte("\x7fELF")) {
		t.Errorf("the attack program begins with %.4q, %v", content, err)
	}
}
