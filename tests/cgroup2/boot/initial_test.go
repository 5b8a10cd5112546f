package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStatic(t *testing.T) {
	for _, test := range []struct {
		name    string
		segment elf.ProgType
		want    string // in the error
	}{
		{"a program that is complete", elf.PT_LOAD, ""},
		{"a program that names its loader", elf.PT_INTERP, "linked dynamically"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b bytes.Buffer
			for _, part := range []any{
				elf.Header64{
					Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
					Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
				},
				elf.Prog64{Type: uint32(test.segment)},
			} {
				if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(path, b.Bytes(), 0o700); err != nil {
				t.Fatal(err)
			}
			err := static(path)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
