package confine

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// executable is one that names its loader, elf(5).
func executable(loader string) []byte {
	b := append([]byte("\x7fELF\x02\x01"), make([]byte, 64+56-6)...)
	le := binary.LittleEndian
	le.PutUint64(b[32:], 64) // where its one header is
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	le.PutUint32(b[64:], 3) // PT_INTERP
	le.PutUint64(b[64+8:], uint64(len(b)))
	le.PutUint64(b[64+32:], uint64(len(loader)+1))
	return append(append(b, loader...), 0)
}

func TestInterpreterOf(t *testing.T) {
	loop := append([]byte("\x7fELF\x02\x01"), bytes.Repeat([]byte{0xff}, 60)...)
	for _, test := range []struct {
		name string
		file []byte
		want string
	}{
		{"a script", []byte("#!/bin/sh\nexit\n"), "/bin/sh"},
		{"a script with an argument", []byte("#! \t/usr/bin/env python3\n"), "/usr/bin/env"},
		{"a script without an end", []byte("#!/bin/x"), "/bin/x"},
		{"a program with a loader", executable("/lib64/ld-linux-x86-64.so.2"), "/lib64/ld-linux-x86-64.so.2"},
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
	f.Add(executable("/lib64/ld-linux-x86-64.so.2"))
	f.Fuzz(func(t *testing.T, file []byte) {
		got, _ := interpreterOf(file[:min(len(file), 4096)], bytes.NewReader(file).ReadAt)
		if len(got) > 4096 {
			t.Errorf("a name of %d bytes", len(got))
		}
	})
}
