package recipe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/silk-sandbox/silk/image"
)

// bzImage is a file as Documentation/arch/x86/boot.rst has it, around payload.
func bzImage(t *testing.T, kernel []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	payload := binary.LittleEndian.AppendUint32(w.EncodeAll(kernel, nil), uint32(len(kernel)))
	b := make([]byte, 2*512+100)
	b[0x1f1] = 1
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint32(b[0x248:], 100)
	binary.LittleEndian.PutUint32(b[0x24c:], uint32(len(payload)))
	return append(b, payload...)
}

func TestUnpackKernel(t *testing.T) {
	kernel := []byte(elf.ELFMAG + strings.Repeat("kernel", 100))
	got, err := unpackKernel(bzImage(t, kernel))
	if err != nil || !bytes.Equal(got, kernel) {
		t.Errorf("got %q, %v", got, err)
	}
	short := bzImage(t, kernel)
	for _, test := range []struct {
		name  string
		image []byte
		want  string
	}{
		{"nothing", nil, "not a bzImage"},
		{"something else", make([]byte, 4096), "not a bzImage"},
		{"the half of one", short[:len(short)-40], "impossible payload"},
		{"no kernel in it", bzImage(t, []byte("MZ, and no ELF")), "not an ELF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := unpackKernel(test.image); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func FuzzUnpackKernel(f *testing.F) {
	f.Add(make([]byte, 4096))
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, err := unpackKernel(b); err == nil && !bytes.HasPrefix(k, []byte(elf.ELFMAG)) {
			t.Error("what is no ELF file is a kernel")
		}
	})
}

// module is an ELF file that says what it depends on.
func module(t *testing.T, depends string) []byte {
	t.Helper()
	names, info := "\x00.modinfo\x00.shstrtab\x00", "license=GPL\x00depends="+depends+"\x00"
	var b bytes.Buffer
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Shentsize: 64, Shnum: 3, Shstrndx: 2,
	}
	header.Shoff = 64 + uint64(len(names)+len(info))
	for _, part := range []any{
		header, []byte(names), []byte(info),
		elf.Section64{},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: 64 + uint64(len(names)), Size: uint64(len(info))},
		elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: 64, Size: uint64(len(names))},
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestLoadOrder(t *testing.T) {
	modules := map[string][]byte{
		"a": module(t, "b-b,c"), "b_b": module(t, "c"), "c": module(t, ""), "alone": module(t, ""), "ring": module(t, "ring2"), "ring2": module(t, "ring"), "lost": module(t, "none"),
	}
	got, err := loadOrder(modules, []string{"a", "alone", "c"})
	if want := []string{"c", "b_b", "a", "alone"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for name, want := range map[string]string{"nothing": "no module nothing", "lost": "no module none", "ring": "depends on itself"} {
		if _, err := loadOrder(modules, []string{name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

func TestKernelPackage(t *testing.T) {
	list := onlyKernel([]Package{{Name: "kmod"}, {Name: "linux-image-6.12.1-cloud-amd64"}, {Name: "linux-image-cloud-amd64"}})
	if p, err := kernelPackage(Lock{Packages: list}); err != nil || len(list) != 2 || p.Name != "linux-image-6.12.1-cloud-amd64" {
		t.Errorf("got %+v of %+v, %v", p, list, err)
	}
	if _, err := kernelPackage(Lock{Packages: []Package{{Name: "linux-image-cloud-amd64"}}}); err == nil {
		t.Error("a package without a kernel has one")
	}
}

// vmlinux is an ELF file of a kind that has one note.
func vmlinux(t *testing.T, kind elf.Type, name string, note uint32) []byte {
	t.Helper()
	content := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
	content = binary.LittleEndian.AppendUint32(content, 8)
	content = binary.LittleEndian.AppendUint32(content, note)
	content = append(append(content, name...), make([]byte, 8)...)
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(kind), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phoff: 64, Phentsize: 56, Phnum: 1,
		},
		elf.Prog64{Type: uint32(elf.PT_NOTE), Off: 64 + 56, Filesz: uint64(len(content))},
		content,
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// A kernel of somebody else's is kept if machines can boot it, and the same one is the same image.
func TestKernelOf(t *testing.T) {
	store, err := image.Open(image.Config{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "vmlinux")
	keep := func(content []byte) (image.Image, error) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return KernelOf(t.Context(), file, "kernel:own", Config{Store: store, Cache: filepath.Join(filepath.Dir(file), "cache")})
	}
	good := vmlinux(t, elf.ET_EXEC, "Xen\x00", pvhEntry)
	first, err := keep(good)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := keep(good); err != nil || again.Digest != first.Digest {
		t.Errorf("the same again: %v, %v", again, err)
	}
	img, err := store.Resolve("kernel:own")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := store.Tree(t.Context(), img, image.TreeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	r, err := tree.Open(image.KernelFile)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, good) {
		t.Errorf("in the image are %d bytes, %v", len(got), err)
	}
	for _, test := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"a bzImage", bzImage(t, good), "no vmlinux"},
		{"a module", vmlinux(t, elf.ET_REL, "Xen\x00", pvhEntry), "no vmlinux of x86-64, but ET_REL"},
		{"another note", vmlinux(t, elf.ET_EXEC, "Xen\x00", pvhEntry+1), "CONFIG_PVH"},
		{"another's note", vmlinux(t, elf.ET_EXEC, "GNU\x00", pvhEntry), "CONFIG_PVH"},
		{"a note that is longer than there is room", vmlinux(t, elf.ET_EXEC, "Xen\x00", pvhEntry)[:64+56+14], ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := keep(test.content); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func FuzzCheckKernel(f *testing.F) {
	f.Add([]byte(elf.ELFMAG))
	f.Fuzz(func(_ *testing.T, b []byte) { _ = checkKernel(b) })
}
