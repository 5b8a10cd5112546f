package firecracker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/driver/firecracker/api/schema"
)

// Firecracker takes what it is asked for, whatever a machine is like.
func TestFirecrackerMachine(t *testing.T) {
	for name, m := range map[string]struct {
		machine machine
		drives  []string
		want    string // in one of the requests
		not     string // in none
	}{
		"small":                    {machine{processors: 1, memoryBytes: 1 << 20}, []string{"root"}, `"vcpu_count":1,"mem_size_mib":1,`, "network"},
		"an odd number":            {machine{processors: 3, memoryBytes: 928 << 20}, []string{"root", "mount0", "mount1"}, `"vcpu_count":4,"mem_size_mib":928,`, "console="},
		"more than there can be":   {machine{processors: 100, memoryBytes: 1 << 40}, []string{"root"}, `"vcpu_count":32,`, "console="},
		"every drive is read-only": {machine{processors: 2, memoryBytes: 1 << 30}, []string{"root", "mount0"}, `"drive_id":"mount0","path_on_host":"/mount0","is_root_device":false,"is_read_only":true`, `"is_read_only":false`},
		"no serial port":           {machine{processors: 2, memoryBytes: 1 << 30}, []string{"root"}, "8250.nr_uarts=0", "console="},
	} {
		t.Run(name, func(t *testing.T) {
			var all strings.Builder
			for _, c := range firecrackerMachine(m.machine, m.drives, false).Calls() {
				b, err := json.Marshal(c.Body)
				if err == nil {
					err = schema.Check(c.Method, c.Path, b)
				}
				if err != nil {
					t.Error(err)
				}
				all.Write(b)
			}
			if !strings.Contains(all.String(), m.want) || strings.Contains(all.String(), m.not) {
				t.Errorf("it is asked for %s, want %s and not %s", all.String(), m.want, m.not)
			}
		})
	}
	if line := firecrackerCommandLine(true); !strings.Contains(line, "console=ttyS0") || strings.Contains(line, "nr_uarts") {
		t.Errorf("with a console: %s", line)
	}
}

func TestJailerArgs(t *testing.T) {
	got := strings.Join(jailerArgs("/usr/bin/firecracker", "/var/lib/silk/jails", "run-1", 1234567890, machine{memoryBytes: 1 << 20}, 2), " ")
	const want = "--id run-1 --exec-file /usr/bin/firecracker --uid 1234567890 --gid 1234567890 --chroot-base-dir /var/lib/silk/jails" +
		" --resource-limit no-file=128 --resource-limit fsize=1048576 --cgroup-version 2 -- --api-sock /run/firecracker.socket"
	if got != want {
		t.Errorf("got %s", got)
	}
	if got := jailerArgs("/f", "/b", "x", 1, machine{}, 0); slices.Contains(got, "--cgroup-version") {
		t.Errorf("where there are no control groups: %q", got)
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string][3]int{
		"Firecracker v1.16.1\n\nSupported snapshot data format versions: v9\n": {1, 16, 1},
		"Jailer v1.7.0-dev": {1, 7, 0},
	} {
		if a, b, c, err := parseVersion(text); err != nil || [3]int{a, b, c} != want {
			t.Errorf("%q: %d.%d.%d, %v", text, a, b, c, err)
		}
	}
	for _, text := range []string{"", "Firecracker", "Firecracker v1", "usage: firecracker v1.2.3"} {
		if _, _, _, err := parseVersion(text); err == nil {
			t.Errorf("%q is a version", text)
		}
	}
}

func TestDriveSerial(t *testing.T) {
	if got := driveSerial(2049, 0, 1234567); got != "204901234567" {
		t.Error(got)
	}
	if got := driveSerial(18446744073709551615, 0, 5); got != "18446744073709551615" { // 20 bytes, of which the last is the device's
		t.Error(got)
	}
}
