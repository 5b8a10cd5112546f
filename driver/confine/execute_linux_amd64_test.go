package docker

import (
	"bytes"
	"os"
	"testing"
)

func TestInterpreterOf(t *testing.T) {
	sh, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	loop := append([]byte("\x7fELF\x02\x01"), bytes.Repeat([]byte{0xff}, 60)...)
	for _, test := range []struct {
		name string
		file []byte
		want string
	}{
		{"a script", []byte("#!/bin/sh\nexit\n"), "/bin/sh"},
		{"a script with an argument", []byte("#! \t/usr/bin/env python3\n"), "/usr/bin/env"},
		{"a script without an end", []byte("#!/bin/x"), "/bin/x"},
		{"a program with a loader", sh, "/lib64/ld-linux-x86-64.so.2"},
		{"text", []byte("hello"), ""},
		{"nothing", nil, ""},
		{"headers beyond everything", loop, ""},
	} {
		got, _ := interpreterOf(test.file[:min(len(test.file), 4096)], bytes.NewReader(test.file).ReadAt)
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// FuzzInterpreterOf: a file of a program's own is read, and none makes trouble.
func FuzzInterpreterOf(f *testing.F) {
	f.Add([]byte("#!/bin/sh\n"))
	if sh, err := os.ReadFile("/bin/sh"); err == nil {
		f.Add(sh[:4096])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		got, _ := interpreterOf(file[:min(len(file), 4096)], bytes.NewReader(file).ReadAt)
		if len(got) > 4096 {
			t.Errorf("a name of %d bytes", len(got))
		}
	})
}
