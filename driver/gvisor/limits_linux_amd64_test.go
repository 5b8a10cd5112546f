package gvisor

import (
	"os"
	"testing"

	"github.com/silk-sandbox/silk/internal/cgroup"
)

func TestPlatformCPUs(t *testing.T) {
	for _, test := range []struct {
		name string
		k    *kernel
		want int
	}{
		{"a control group holds CPU time", &kernel{cpus: 1, groups: &cgroup.Root{}}, 2},
		{"more than two", &kernel{cpus: 4, groups: &cgroup.Root{}}, 4},
		{"processors themselves are the limit", &kernel{cpus: 1}, 1},
	} {
		if got := test.k.platformCPUs(); got != test.want {
			t.Errorf("%s: platformCPUs() = %d, want %d", test.name, got, test.want)
		}
	}
}

func TestPageTables(t *testing.T) {
	if n := pageTables(os.Getpid()); n < 4<<10 || n > 1<<30 {
		t.Errorf("this process has %d bytes of page tables", n)
	}
	if n := pageTables(1 << 30); n != 0 {
		t.Errorf("a process that does not exist has %d", n)
	}
}
