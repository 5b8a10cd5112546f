package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/alert"
	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/store"
)

// disk is a small file system, with a state directory on it.
type disk struct {
	*testing.T
	dir, home string
	alerts    []alert.Alert
}

func newDisk(t *testing.T, size string) *disk {
	t.Helper()
	d := &disk{T: t, dir: testenv.SmallDisk(t, size)}
	d.home = filepath.Join(d.dir, "home")
	if err := os.Mkdir(d.home, 0o700); err != nil {
		t.Fatal(err)
	}
	return d
}

// fill leaves no room, empty makes it again.
func (d *disk) fill() {
	d.Helper()
	f, err := os.Create(filepath.Join(d.dir, "ballast"))
	if err != nil {
		d.Fatal(err)
	}
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			d.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		d.Fatal(err)
	}
}

func (d *disk) empty() {
	d.Helper()
	if err := os.Remove(filepath.Join(d.dir, "ballast")); err != nil {
		d.Fatal(err)
	}
}

// noImage is an image that the fake driver does not look into.
type noImage struct{}

func (noImage) Open(context.Context, string) (run.Image, error) {
	root, err := os.Open(os.DevNull)
	return run.Image{Digest: "sha256:" + strings.Repeat("0", 64), Root: root}, err
}

// use runs a fake program in an engine of its own.
func (d *disk) use(io run.IO, ops ...string) (run.Outcome, error) {
	d.Helper()
	fake := &drivertest.Fake{}
	engine, err := run.New(run.Config{
		Home: d.home, Drivers: []driver.Driver{fake}, Images: noImage{},
		Alert: func(_ context.Context, a alert.Alert) error { d.alerts = append(d.alerts, a); return nil },
		Decide: func(req policy.Request) (policy.Plan, error) {
			return policy.Decide(req, profile.Profile{Name: "test", Image: "test", Network: "deny", Limits: profile.Defaults}, policy.Grants{})
		},
	})
	if err != nil {
		d.Fatal(err)
	}
	out, err := engine.Run(d.Context(), policy.Request{Client: policy.ClientCLI, Profile: "test", Args: append([]string{"fake"}, ops...)}, io)
	if n := fake.Running(); n != 0 {
		d.Errorf("%d sandboxes are left", n)
	}
	if err := engine.Close(); err != nil {
		d.Log(err) // on a full disk
	}
	return out, err
}

// names are the names of the events in the trail, the oldest first, which must be whole.
func (d *disk) names() string {
	d.Helper()
	db, err := store.Open(d.Context(), filepath.Join(d.home, store.FileName))
	if err != nil {
		d.Fatal(err)
	}
	defer db.Close()
	if _, err := audit.Verify(d.Context(), db); err != nil {
		d.Error(err)
	}
	events, err := audit.After(d.Context(), db, 0, 1000)
	if err != nil {
		d.Fatal(err)
	}
	var names []string
	for _, e := range events {
		names = append(names, string(e.Name))
	}
	return strings.Join(names, " ")
}

// await waits until the trail has an event.
func (d *disk) await(name string) {
	d.Helper()
	for deadline := time.Now().Add(defaultMost); !strings.Contains(d.names(), name); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.Fatalf("the trail has no %s: %s", name, d.names())
		}
	}
}

// A run that cannot be audited is refused before its first instruction.
func TestFullDiskRefusesRuns(t *testing.T) {
	for _, before := range []string{"a disk that was never used", "a disk with a trail"} {
		t.Run(before, func(t *testing.T) {
			d := newDisk(t, "8m")
			want := "sandbox_started sandbox_completed"
			if before == "a disk with a trail" {
				if out, err := d.use(run.IO{}); err != nil || out.Kind != run.OK {
					t.Fatalf("with room: %+v, %v", out, err)
				}
				want += " " + want
			}
			d.fill()
			ran := false
			out, err := d.use(run.IO{OnStart: func(run.Started) { ran = true }, OnFrame: func(run.Frame) { ran = true }}, "print:unaudited")
			if out.Kind != run.Error || out.Reason != run.ReasonHost || !strings.Contains(out.Message, "disk") || err == nil {
				t.Errorf("got %+v, %v; want an error of the host that names the disk", out, err)
			}
			if ran || out.Stdout.Bytes > 0 {
				t.Error("the program ran")
			}
			d.empty()
			if out, err := d.use(run.IO{}); err != nil || out.Kind != run.OK {
				t.Errorf("with room again: %+v, %v", out, err)
			}
			if got := d.names(); got != want {
				t.Errorf("the trail has %q, want %q", got, want)
			}
		})
	}
}

// A disk that fills while a program runs takes the end of the run from the trail, so the run does not end well. With room
// again the next engine writes what happened.
func TestDiskThatFillsDuringARun(t *testing.T) {
	for _, test := range []struct {
		op     string
		kind   run.Kind
		reason run.Reason
	}{
		{"exit:0", run.Error, run.ReasonHost},
		{"exit:3", run.Error, run.ReasonHost},
		{"open:/etc/passwd", run.Violated, ""}, // is what it is
	} {
		t.Run(test.op, func(t *testing.T) {
			d := newDisk(t, "8m")
			out, err := d.use(run.IO{OnStart: func(run.Started) { d.fill() }}, test.op)
			if out.Kind != test.kind || out.Reason != test.reason || err == nil || !strings.Contains(err.Error(), "record run") {
				t.Errorf("got %+v, %v; want %s, and that it could not be recorded", out, err, test.kind)
			}
			if (test.kind == run.Violated) != (len(d.alerts) == 1) {
				t.Errorf("alerts: %v", d.alerts) // above all when the trail has none
			}
			if test.kind == run.Error && !strings.Contains(out.Message, "the program itself ended") {
				t.Errorf("it says %q", out.Message)
			}
			d.empty()
			recovered := run.IO{OnStart: func(run.Started) { d.await("host_recovered") }} // an engine that is closed before leaves it to the next one
			if out, err := d.use(recovered); err != nil || out.Kind != run.OK {
				t.Errorf("with room again: %+v, %v", out, err)
			}
			got := d.names()
			if !strings.HasPrefix(got, "sandbox_started ") || strings.Count(got, "host_recovered sandbox_error") != 1 || strings.Count(got, "sandbox_completed") != 1 {
				t.Errorf("the trail has %q", got)
			}
		})
	}
}

// The same with the silk that people use, and a real sandbox.
func TestFullDiskRefusesSilkRun(t *testing.T) {
	s := newSilk(t, "lab:text")
	d := newDisk(t, "160m") // the sandbox kernel is unpacked there
	s.Home = d.home
	for _, step := range []struct {
		full    bool
		outcome run.Kind
		status  int
	}{{false, run.OK, 0}, {true, run.Error, 125}, {false, run.OK, 0}} {
		if step.full {
			d.fill()
		}
		got, err := s.run(t.Context(), defaultMost, "-p", "lab:text", "--", "echo", "ran")
		if err != nil {
			t.Fatal(err)
		}
		if got.outcome.Kind != step.outcome || got.status != step.status || (got.outcome.Stdout.Bytes > 0) == step.full {
			t.Errorf("full %v: %+v, exit status %d", step.full, got.outcome, got.status)
		}
		if step.full {
			d.empty()
		}
	}
	if got, want := d.names(), "sandbox_started sandbox_completed"; got != want+" "+want {
		t.Errorf("the trail has %q", got)
	}
}

// A program finds nothing of the trail, by whatever way it names it: no host directory is in a sandbox.
func TestSandboxCannotReadTheTrail(t *testing.T) {
	s := newSilk(t, "lab:text")
	if got, err := s.run(t.Context(), defaultMost, "-p", "lab:text", "--", "true"); err != nil || got.outcome.Kind != run.OK {
		t.Fatalf("%+v, %v", got.outcome, err)
	}
	db, err := store.Open(t.Context(), filepath.Join(s.Home, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	_, err = audit.Rotate(t.Context(), db, audit.Policy{MaxAge: time.Nanosecond, Keep: 1})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(s.Home, audit.DirName, "*.zst"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("%v, %v: want one segment", segments, err)
	}
	for _, name := range []string{filepath.Join(s.Home, store.FileName), segments[0]} {
		if data, err := os.ReadFile(name); err != nil || len(data) == 0 {
			t.Fatalf("the host itself cannot read %s: %v", name, err)
		}
		program := fmt.Sprintf(`for way in "" /proc/self/root /proc/1/root /proc/self/cwd/.. /workspace/../../..; do
			if cat "$way%[1]s" >/dev/null 2>&1 || test -e "$way%[1]s"; then echo "ESCAPED by $way"; fi
		done; echo looked`, name)
		got, err := s.run(t.Context(), defaultMost, "-p", "lab:text", "--", "sh", "-c", program)
		if err != nil {
			t.Fatal(err)
		}
		if text := got.outcome.Stdout.Text; text == nil || *text != "looked\n" {
			t.Errorf("%s: outcome %s %s, stdout %v", name, got.outcome.Kind, got.outcome.Rule, text)
		}
	}
}
