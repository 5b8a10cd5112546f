package sentry

import (
	"encoding/binary"
	"strings"
	"testing"
)

// dirents lays names out as getdents64 does, or as getdents if name is 18.
func dirents(name int, names ...string) (b []byte) {
	for _, n := range names {
		size := (name + len(n) + 2 + 7) &^ 7
		e := make([]byte, size)
		binary.LittleEndian.PutUint16(e[16:], uint16(size))
		copy(e[name:], n)
		b = append(b, e...)
	}
	return b
}

func TestVisibleEntries(t *testing.T) {
	for _, name := range []int{18, 19} {
		for dir, want := range map[string]string{
			"/sys":                    ". .. bus devices fs kernel",
			"/sys/kernel":             ". .. mm",
			"/sys/devices/system/cpu": ". .. bus class cpu devices firmware fs kernel mm online system vm", // all are in the start-up list
		} {
			got := visibleEntries(dirents(name, ".", "..", "bus", "class", "cpu", "devices", "firmware", "fs", "kernel", "mm", "online", "system", "vm"), name, dir)
			var names []string
			for b := got; len(b) > 0; b = b[binary.LittleEndian.Uint16(b[16:]):] {
				n, _, _ := strings.Cut(string(b[name:]), "\x00")
				names = append(names, n)
			}
			if text := strings.Join(names, " "); text != want {
				t.Errorf("of %s, entries from %d: %q, want %q", dir, name, text, want)
			}
		}
	}
	for _, damaged := range [][]byte{make([]byte, 24), dirents(19, "kernel")[:20]} {
		if got := visibleEntries(damaged, 19, "/sys"); got != nil {
			t.Errorf("damaged entries became %v", got)
		}
	}
}
