package firecracker

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

var update = flag.Bool("update", false, "write what QEMU is asked for into testdata")

// What QEMU is asked for, a line for each option.
func TestQEMU(t *testing.T) {
	for name, m := range map[string]machine{
		"emulated": {processors: 1, memoryBytes: 928 << 20, clockKHz: 2599998, kernel: 3, initial: 4, vsock: 5, drives: []drive{{"root", 6}}},
		"kvm":      {processors: 2, memoryBytes: 1 << 30, kvm: true, clockKHz: 2599998, kernel: 3, initial: 4, vsock: 5, drives: []drive{{"root", 6}, {"mount0", 7}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.ReplaceAll(strings.Join(qemu{"/usr/bin/qemu"}.args(m), " "), " -", "\n-") + "\n"
			path := "testdata/" + name + ".txt"
			if *update {
				if err := atomicfile.Write(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestInitialFS(t *testing.T) {
	b := initialFS([]entry{{name: "dev/console", mode: modeChar | 0o600, major: 5, minor: 1}, {name: "init", mode: modeFile | 0o500, content: []byte("12345")}})
	if len(b)%4 != 0 {
		t.Errorf("%d bytes are no whole words", len(b))
	}
	const head = 110
	var names []string
	for at := 0; at < len(b); {
		field := func(n int) (v int) {
			for _, c := range string(b[at+6+8*n : at+14+8*n]) {
				v = v*16 + strings.IndexRune("0123456789abcdef", c)
			}
			return v
		}
		if string(b[at:at+6]) != "070701" {
			t.Fatalf("at %d: magic %q", at, b[at:at+6])
		}
		name := string(b[at+head : at+head+field(11)-1])
		data := (at + head + field(11) + 3) &^ 3
		names = append(names, name+" "+string(b[data:data+field(6)]))
		at = (data + field(6) + 3) &^ 3
	}
	if d := cmp.Diff([]string{"dev ", "dev/console ", "init 12345", "TRAILER!!! "}, names); d != "" {
		t.Error(d)
	}
}
