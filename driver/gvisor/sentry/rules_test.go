package sentry

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

func TestJudge(t *testing.T) {
	g := &guard{}
	for name, want := range map[string]fileVerdict{
		"":                                   allowFile,
		"/":                                  allowFile,
		"/etc":                               allowFile,
		"/etc/passwd":                        killFile,
		"/etc/passwd-":                       allowFile,
		"/etc/passwd/x":                      killFile,
		"/etc/shadow":                        killFile,
		"/etc/sudoers.d/x":                   allowFile,
		"/root":                              killFile,
		"/root/.ssh/id":                      killFile,
		"/rootfs":                            allowFile,
		"/boot/vmlinuz":                      killFile,
		"/workspace/etc/passwd":              allowFile,
		"/proc/kcore":                        killFile,
		"/proc/self":                         allowFile,
		"/proc/meminfo":                      allowFile,
		"/sys":                               allowFile,
		"/sys/devices":                       allowFile,
		"/sys/devices/system/cpu":            allowFile,
		"/sys/devices/system/cpu/online":     allowFile,
		"/sys/devices/system/cpu/cpu0/cache": hideFile,
		"/sys/fs/cgroup/memory.max":          hideFile,
		"/sys/firmware/acpi/tables":          killFile,
		"/sys/kernel":                        allowFile,
		"/sys/kernel/debug/tracing/trace":    killFile,
		"/sys/class/net":                     killFile,
		"/dev/null":                          allowFile,
		"/dev/shm/sem.x":                     allowFile,
		"/dev/.probe":                        allowFile,
		"/dev/stdin":                         allowFile,
		"/dev/net":                           allowFile,
		"/dev/net/tun":                       killFile,
		"/dev/mem":                           killFile,
		"/dev/vda":                           killFile,
		"/dev/vda1":                          killFile,
		"/dev/nvme0n1":                       killFile,
		"/dev/kvm":                           killFile,
		"/dev/cpu/0/msr":                     killFile,
		"/dev/ttyS0":                         killFile,
		"/dev/tty":                           allowFile,
	} {
		if got := g.judge(nil, name); got != want {
			t.Errorf("judge(%q) = %d, want %d", name, got, want)
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
		if got, outside := outsideAddress(test.addr); got != test.want || outside != (test.want != "") {
			t.Errorf("%s: outsideAddress = %q, %t, want %q", test.name, got, outside, test.want)
		}
	}
}

func FuzzOutsideAddress(f *testing.F) {
	f.Add([]byte{2, 0, 0, 80, 10, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 2 { // the caller's precondition
			return
		}
		outsideAddress(b)
	})
}

func FuzzPrintable(f *testing.F) {
	f.Add("/etc/passwd")
	f.Add("a\x00\x1b[31m\xff\u202e" + strings.Repeat("ä", 3000))
	f.Fuzz(func(t *testing.T, s string) {
		got := printable(s)
		if len(got) > 4096 || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("printable(%q) = %q", s, got)
		}
	})
}

func TestIsMagicDir(t *testing.T) {
	for dir, want := range map[string]bool{
		"/proc": false, "/proc/": false, "/proc/self": false, "/proc/1": true, "/proc/22/fd": true, "/proc/22/task/23/ns": true,
		"/proc/sys/kernel": false, "/workspace/proc/1": false, "/processes/1": false,
	} {
		if got := isMagicDir(dir); got != want {
			t.Errorf("isMagicDir(%q) = %t, want %t", dir, got, want)
		}
	}
}
