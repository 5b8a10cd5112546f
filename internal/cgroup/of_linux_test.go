package cgroup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	r := find(t)
	g, err := r.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	o, err := Of(cmd.Process.Pid)
	if errors.Is(err, ErrUnavailable) { // version 1 without cpuacct
		unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	own, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !o.Alone() || own.Alone() {
		t.Errorf("a group of its own is one: %v, %v", o.dirs, own.dirs)
	}
	for name, count := range map[string]func() (int64, error){"kills": o.OOMKills, "refused forks": o.ForksRefused} {
		if n, err := count(); n != 0 || err != nil {
			t.Errorf("%s: %d, %v, want none", name, n, err)
		}
	}
	if _, err := o.PeakMemoryBytes(); err != nil {
		t.Error(err)
	}
	if n, err := o.OwnMemoryBytes(); n < 0 || err != nil { // what it had before stays with the group that it came from
		t.Errorf("OwnMemoryBytes() = %d, %v", n, err)
	}
	if _, err := o.CPUTime(); err != nil {
		t.Error(err)
	}
	if empty, err := o.Empty(); empty || err != nil {
		t.Errorf("Empty() = %t, %v with a process in it", empty, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for began := time.Now(); ; {
		empty, err := o.Empty()
		if err != nil {
			t.Fatal(err)
		}
		if empty {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("its processes are gone, and it is not empty")
		}
	}
}

func TestOwner(t *testing.T) {
	own, err := Owner()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(own, "-")
	if len(parts) != 4 {
		t.Fatalf("Owner() = %q", own)
	}
	for _, test := range []struct {
		name, owner string
		want        bool
	}{
		{"this process", own, false},
		{"one whose number was given again", parts[0] + "-" + parts[1] + "-1-0", true},
		{"one that has ended", parts[0] + "-4194305-1-0", true}, // above the highest pid there can be, proc_sys_kernel(5)
		{"one of another PID namespace", "1-" + parts[1] + "-1-0", false},
		{"nothing of ours", "somebody", false},
		{"nothing", "", false},
	} {
		if got := OwnerGone(test.owner); got != test.want {
			t.Errorf("%s: OwnerGone(%q) = %t, want %t", test.name, test.owner, got, test.want)
		}
	}
}
