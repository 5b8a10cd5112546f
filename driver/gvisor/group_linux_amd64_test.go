package gvisor

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// TestNoChildBeforeItIsPlaced gives a kernel that nobody has placed time to make its first stub process: born before its
// parent is moved into the control group, that one and all after it would run the guest's code without limits.
func TestNoChildBeforeItIsPlaced(t *testing.T) {
	testenv.Require(t, testenv.Sentry)
	d, err := New(Config{Sentry: testenv.SentryPath()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	k, err := d.host.bear(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := k.discard(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := k.receive(); err != nil { // hello
		t.Fatal(err)
	}
	const enough = 300 * time.Millisecond // a start takes 30
	<-time.After(enough)
	if all := children(k.proc.Pid); len(all) > 0 {
		t.Errorf("the kernel has processes %v and was not placed", all)
	}
	if err := k.place(nil); err != nil {
		t.Fatal(err)
	}
	var all []int
	for deadline := time.Now().Add(time.Minute); len(all) < 3 && time.Now().Before(deadline); {
		all = children(k.proc.Pid) // the first stub and two for a run
	}
	if len(all) < 3 {
		t.Fatalf("a kernel that waits for a run has processes %v", all)
	}
	if k.group == nil {
		return
	}
	for _, pid := range all {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			limited := strings.Contains(line, ":memory:") || strings.Contains(line, ":pids:") || strings.HasPrefix(line, "0::/silk")
			if limited && !strings.Contains(line, "/silk-") {
				t.Errorf("process %d of a sandbox is in %s", pid, line)
			}
		}
	}
}
