package sentry

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/kernel"

	"github.com/silk-sandbox/silk/driver/rules"
)

func TestJudge(t *testing.T) {
	g := &guard{trees: []string{"/usr", "/etc/fonts", "/lib64"}}
	directories := []string{"/", "/etc", "/proc", "/sys", "/sys/devices", "/sys/kernel", "/dev", "/dev/net", "/srv", "/root", "/boot", "/sys/class"}
	for name, want := range map[string]string{
		"":                                   "",
		"/":                                  rules.FileDirectory,
		"/etc":                               rules.FileDirectory,
		"/etc/passwd":                        rules.FileAccounts,
		"/etc/passwd-":                       rules.FileUnlisted,
		"/etc/passwd/x":                      rules.FileAccounts,
		"/etc/shadow":                        rules.FileAccounts,
		"/etc/sudoers.d/x":                   rules.FileUnlisted,
		"/etc/fonts/conf.d/1":                rules.FileImage,
		"/etc/fontsx":                        rules.FileUnlisted,
		"/etc/nsswitch.conf":                 rules.FileStartup,
		"/usr/lib/x.so":                      rules.FileImage,
		"/usr":                               rules.FileImage,
		"/lib64":                             rules.FileImage,
		"/srv":                               rules.FileDirectory,
		"/srv/planted":                       rules.FileUnlisted,
		"/root":                              rules.FileRootHome,
		"/root/.ssh/id":                      rules.FileRootHome,
		"/rootfs":                            rules.FileUnlisted,
		"/boot/vmlinuz":                      rules.FileBoot,
		"/workspace/etc/passwd":              rules.FileWorkspace,
		"/tmp/x":                             rules.FileTemporary,
		"/proc":                              rules.FileDirectory,
		"/proc/kcore":                        rules.FileKernel,
		"/proc/meminfo":                      rules.FileStartup,
		"/proc/7/status":                     rules.FileStartup,
		"/proc/7/environ":                    rules.FileEnviron,
		"/proc/7/task/8/environ":             rules.FileEnviron,
		"/proc/7/mem":                        rules.FileMemory,
		"/proc/interrupts":                   rules.FileUnlisted,
		"/proc/sys/kernel/core_pattern":      rules.FileKernel,
		"/sys":                               rules.FileDirectory,
		"/sys/devices":                       rules.FileDirectory,
		"/sys/devices/system/cpu":            rules.FileProbe,
		"/sys/devices/system/cpu/online":     rules.FileStartup,
		"/sys/devices/system/cpu/cpu0/cache": rules.FileProbe,
		"/sys/fs/cgroup/memory.max":          rules.FileProbe,
		"/sys/firmware/acpi/tables":          rules.FileSys,
		"/sys/kernel":                        rules.FileDirectory,
		"/sys/kernel/debug/tracing/trace":    rules.FileSys,
		"/sys/class":                         rules.FileSys,
		"/dev/null":                          rules.FileStartup,
		"/dev/shm/sem.x":                     rules.FileTemporary,
		"/dev/.probe":                        rules.FileUnlisted,
		"/dev/net":                           rules.FileDirectory,
		"/dev/net/tun":                       rules.FileDevice,
		"/dev/mem":                           rules.FileDevice,
		"/dev/vda":                           rules.FileDevice,
		"/dev/vda1":                          rules.FileDevice,
		"/dev/nvme0n1":                       rules.FileDevice,
		"/dev/kvm":                           rules.FileDevice,
		"/dev/cpu/0/msr":                     rules.FileDevice,
		"/dev/ttyS0":                         rules.FileDevice,
		"/dev/tty":                           rules.FileStartup,
	} {
		o := object{path: name, directory: func() bool { return slices.Contains(directories, name) }}
		got := g.judge(nil, o)
		g.quick = quickTrees(g.trees)
		if quick := g.judge(nil, o); quick != got {
			t.Errorf("judge(%q) = %v with quick trees, %v without", name, quick, got)
		}
		g.quick = nil
		if got.rule != want {
			t.Errorf("judge(%q) = %q, want %q", name, got.rule, want)
		}
		if r, _ := rules.Named(want); got.action != r.Action {
			t.Errorf("judge(%q) does %q, and its rule %q", name, got.action, r.Action)
		}
	}
	if got := g.judge(nil, object{path: "/memfd:x (deleted)", anonymous: true}); got.rule != rules.FileAnonymous {
		t.Errorf("a memfd is judged by %q", got.rule)
	}
}

func TestQuickTrees(t *testing.T) {
	got := quickTrees([]string{"/", "/usr", "/etc", "/etc/fonts", "/etc/hosts", "/lib", "/sys/x", "/dev/x", "/root/x", "/run", "/workspace/x"})
	if want := []string{"/usr", "/lib"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A rule about files is enforced by its place in the table, one about calls by a handler; there is no third kind.
func TestEveryRuleIsEnforced(t *testing.T) {
	g := &guard{}
	table := &kernel.SyscallTable{Table: map[uintptr]kernel.Syscall{}}
	names, err := g.install(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules.All() {
		byName := func(f fileRule) bool { return f.Name == r.Name }
		if !slices.Contains(names, r.Name) || len(r.Calls) == 0 && !slices.ContainsFunc(fileRules, byName) {
			t.Errorf("nothing enforces rule %s", r.Name)
		}
		for _, name := range r.Calls {
			if table.Table[numbers[name]].Fn == nil {
				t.Errorf("rule %s: nothing stands in the way of %s", r.Name, name)
			}
		}
	}
}

func TestOutsideAddress(t *testing.T) {
	inet := func(ip ...byte) []byte {
		b := binary.LittleEndian.AppendUint16(nil, unix.AF_INET)
		return append(append(b, 0, 80), append(ip, make([]byte, 8)...)...)
	}
	inet6 := func(ip [16]byte) []byte {
		b := binary.LittleEndian.AppendUint16(nil, unix.AF_INET6)
		return append(append(append(b, 0, 80), 0, 0, 0, 0), append(ip[:], 0, 0, 0, 0)...)
	}
	for _, test := range []struct {
		name string
		addr []byte
		want string
	}{
		{"loopback", inet(127, 0, 0, 1), ""},
		{"all of 127/8", inet(127, 200, 1, 9), ""},
		{"any address means this host", inet(0, 0, 0, 0), ""},
		{"a private address", inet(10, 1, 2, 3), "10.1.2.3:80"},
		{"a metadata service", inet(169, 254, 169, 254), "169.254.169.254:80"},
		{"broadcast", inet(255, 255, 255, 255), "255.255.255.255:80"},
		{"loopback 6", inet6([16]byte{15: 1}), ""},
		{"any address 6", inet6([16]byte{}), ""},
		{"mapped loopback", inet6([16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}), ""},
		{"mapped private", inet6([16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}), "[::ffff:10.0.0.1]:80"},
		{"a public address 6", inet6([16]byte{0: 0x20, 1: 1, 15: 1}), "[2001::1]:80"},
		{"AF_UNIX", []byte{1, 0, '/', 'x'}, ""},
		{"cut short", []byte{2, 0, 0}, ""},
		{"nothing but a family", []byte{10, 0}, ""},
	} {
		outside := outsideAddress(test.addr)
		if got := addressText(test.addr); outside != (test.want != "") || outside && got != test.want {
			t.Errorf("%s: %q, outside %t, want %q", test.name, got, outside, test.want)
		}
	}
}

func TestAddressText(t *testing.T) {
	for want, b := range map[string][]byte{
		"unix:/run/x":    append([]byte{1, 0}, "/run/x\x00rest"...),
		"unix:@name":     append([]byte{1, 0, 0}, "name"...),
		"family 1":       {1, 0},
		"family 16":      {16, 0, 0},
		"":               {1},
		"127.0.0.1:8080": {2, 0, 31, 144, 127, 0, 0, 1},
	} {
		if got := addressText(b); got != want {
			t.Errorf("addressText(%v) = %q, want %q", b, got, want)
		}
	}
}

func FuzzOutsideAddress(f *testing.F) {
	f.Add([]byte{2, 0, 0, 80, 10, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		outsideAddress(b)
		addressText(b)
	})
}

func TestOfProcess(t *testing.T) {
	for dir, want := range map[string]bool{
		"/proc": false, "/proc/": false, "/proc/self": false, "/proc/1": true, "/proc/22/fd": true, "/proc/22/task/23/ns": true,
		"/proc/sys/kernel": false, "/workspace/proc/1": false, "/processes/1": false,
	} {
		if got := ofProcess(dir); got != want {
			t.Errorf("ofProcess(%q) = %t, want %t", dir, got, want)
		}
	}
}
