package recipe

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/xi2/xz"

	"github.com/silk-sandbox/silk/image"
)

// kernelModules are what a machine of ours needs of Debian's kernel for clouds, in which it is a module: the virtio devices as
// microvm and Firecracker have them, and the file system of images.
var kernelModules = []string{"virtio_mmio", "virtio_blk", "erofs", "vmw_vsock_virtio_transport", "virtio-rng", "tun"}

// Bounds of what is unpacked. Debian's kernel is 60 MB, a module 1 MB at most.
const (
	maxKernelBytes = 256 << 20
	maxModuleBytes = 16 << 20
)

// onlyKernel leaves the kernel itself of what apt thinks that it needs, and the package that names it: a boot loader's and an initial file
// system's tools are for hosts.
func onlyKernel(packages []Package) []Package {
	return slices.DeleteFunc(packages, func(p Package) bool { return !strings.HasPrefix(p.Name, "linux-image-") })
}

// kernelPackage is the package that has a kernel: its name has the version in it.
func kernelPackage(lock Lock) (Package, error) {
	for _, p := range lock.Packages {
		if rest, ok := strings.CutPrefix(p.Name, "linux-image-"); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			return p, nil
		}
	}
	return Package{}, errors.New("no package in the lock has a kernel")
}

// fillKernel puts a kernel and its modules into t.
func fillKernel(ctx context.Context, t *image.Tree, lock Lock, config Config) error {
	p, err := kernelPackage(lock)
	if err != nil {
		return err
	}
	var vmlinuz []byte
	modules := map[string][]byte{}
	report := counter(config.Progress, p.Size, "unpacking the kernel")
	err = readDeb(p.item(config.Cache, "").path, func(data io.Reader) error {
		return eachEntry(data, func(h *tar.Header, r io.Reader) (err error) {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			name := strings.TrimPrefix(h.Name, "./")
			switch base := path.Base(name); {
			case h.Typeflag != tar.TypeReg:
			case strings.HasPrefix(name, "boot/vmlinuz-"):
				vmlinuz, err = readBounded(r, maxKernelBytes)
			case strings.HasSuffix(base, ".ko.xz"):
				d, err := xz.NewReader(r, xzDictBytes)
				if err != nil {
					return err
				}
				modules[moduleName(strings.TrimSuffix(base, ".ko.xz"))], err = readBounded(d, maxModuleBytes)
				return err
			case strings.HasPrefix(name, "usr/share/doc/") && base == "copyright":
				return t.AddFile(name, 0o644, h.ModTime, r)
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("unpack package %s %s: %w", p.Name, p.Version, err)
	}
	report(p.Size)
	vmlinux, err := unpackKernel(vmlinuz)
	if err != nil {
		return fmt.Errorf("unpack the kernel of %s: %w", p.Name, err)
	}
	order, err := loadOrder(modules, kernelModules)
	if err != nil {
		return fmt.Errorf("modules of %s: %w", p.Name, err)
	}
	if err := t.AddFile(image.KernelFile, 0o644, time.Time{}, bytes.NewReader(vmlinux)); err != nil {
		return err
	}
	for i, name := range order {
		if err := t.AddFile(fmt.Sprintf("%s/%02d-%s.ko", image.KernelModules, i, name), 0o644, time.Time{}, bytes.NewReader(modules[name])); err != nil {
			return err
		}
	}
	data, err := lock.Marshal()
	if err != nil {
		return err
	}
	return File{lockInImage, data}.add(t)
}

// KernelOf keeps a kernel that somebody else has made as an image under a tag. It needs no modules, or has what [kernelModules] says built in.
func KernelOf(ctx context.Context, file, tag string, config Config) (image.Image, error) {
	config = config.withDefaults()
	if config.Cache == "" || config.Store == nil {
		return image.Image{}, errors.New("neither cache nor store is configured")
	}
	f, err := os.Open(file)
	if err != nil {
		return image.Image{}, err
	}
	defer f.Close()
	vmlinux, err := readBounded(f, maxKernelBytes)
	if err == nil {
		err = checkKernel(vmlinux)
	}
	if err != nil {
		return image.Image{}, fmt.Errorf("read kernel %s: %w", file, err)
	}
	if err := os.MkdirAll(config.SpoolDir, 0o755); err != nil {
		return image.Image{}, fmt.Errorf("make package cache: %w", err)
	}
	t, err := image.NewTree(image.TreeConfig{SpoolDir: config.SpoolDir})
	if err != nil {
		return image.Image{}, err
	}
	defer t.Close()
	if err := t.AddFile(image.KernelFile, 0o644, time.Time{}, bytes.NewReader(vmlinux)); err != nil {
		return image.Image{}, err
	}
	return config.Store.Put(ctx, t.WriteEROFS, image.Meta{Source: "build " + tag + " of " + path.Base(file), Licences: "GPL-2.0, Linux"}, tag)
}

// pvhEntry is the note that says where a VMM enters a kernel, XEN_ELFNOTE_PHYS32_ENTRY (include/xen/interface/elfnote.h).
const pvhEntry = 18

// checkKernel says why a file is no kernel that VMMs can boot.
func checkKernel(b []byte) error {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("it is no vmlinux: %w", err)
	}
	defer f.Close()
	if f.Machine != elf.EM_X86_64 || f.Type != elf.ET_EXEC {
		return fmt.Errorf("it is no vmlinux of x86-64, but %v of %v", f.Type, f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > maxModuleBytes {
			continue
		}
		notes, err := io.ReadAll(p.Open())
		if err != nil {
			return err
		}
		for len(notes) >= noteHead { // sizes of name and content, type; both in whole words, elf(5)
			name, content := binary.LittleEndian.Uint32(notes), binary.LittleEndian.Uint32(notes[4:])
			kind, length := binary.LittleEndian.Uint32(notes[8:]), noteHead+(uint64(name)+3)&^3+(uint64(content)+3)&^3
			if length > uint64(len(notes)) {
				break
			}
			if kind == pvhEntry && bytes.HasPrefix(notes[noteHead:], []byte("Xen\x00")) {
				return nil
			}
			notes = notes[length:]
		}
	}
	return errors.New("it has no entry for VMMs; it must be made with CONFIG_PVH")
}

const noteHead = 12

func readBounded(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("larger than %d bytes", most)
	}
	return b, err
}

// unpackKernel takes the kernel proper out of a bzImage: Documentation/arch/x86/boot.rst, "payload_offset". It is packed with zstd, as Debian's is
// since 12, and its length follows it.
func unpackKernel(b []byte) ([]byte, error) {
	const setupSectors, magic, payloadOffset, payloadLength, headerEnd = 0x1f1, 0x202, 0x248, 0x24c, 0x250
	if len(b) < headerEnd || string(b[magic:magic+4]) != "HdrS" {
		return nil, errors.New("not a bzImage")
	}
	sectors := int64(b[setupSectors])
	if sectors == 0 {
		sectors = 4
	}
	at := (sectors+1)*512 + int64(binary.LittleEndian.Uint32(b[payloadOffset:]))
	length := int64(binary.LittleEndian.Uint32(b[payloadLength:]))
	if length < 4 || at > int64(len(b)) || length > int64(len(b))-at {
		return nil, errors.New("a bzImage with an impossible payload")
	}
	payload := b[at : at+length]
	size := binary.LittleEndian.Uint32(payload[length-4:])
	if size > maxKernelBytes {
		return nil, fmt.Errorf("a kernel of %d bytes", size)
	}
	d, err := zstd.NewReader(bytes.NewReader(payload[:length-4]), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(256<<20))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	kernel := make([]byte, size)
	if _, err := io.ReadFull(d, kernel); err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	if !bytes.HasPrefix(kernel, []byte(elf.ELFMAG)) {
		return nil, errors.New("what is packed in the bzImage is not an ELF file")
	}
	return kernel, nil
}

// moduleName is a module's name as the kernel spells it.
func moduleName(file string) string { return strings.ReplaceAll(file, "-", "_") }

// loadOrder lists wanted modules and what they depend on, so that each comes after those it needs. What is not a module is in the kernel.
func loadOrder(modules map[string][]byte, wanted []string) (order []string, err error) {
	var visit func(name string, depth int) error
	visit = func(name string, depth int) error {
		if slices.Contains(order, name) {
			return nil
		}
		content, ok := modules[name]
		if !ok {
			return fmt.Errorf("there is no module %s", name)
		}
		if depth > 10 {
			return fmt.Errorf("module %s depends on itself", name)
		}
		needs, err := dependsOn(content)
		if err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		for _, need := range needs {
			if err := visit(moduleName(need), depth+1); err != nil {
				return err
			}
		}
		order = append(order, name)
		return nil
	}
	for _, name := range wanted {
		if err := visit(moduleName(name), 0); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// dependsOn reads what a module says of itself: strings KEY=VALUE in the section .modinfo.
func dependsOn(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("no section .modinfo")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(line, "depends="); ok {
			return strings.FieldsFunc(list, func(c rune) bool { return c == ',' }), nil
		}
	}
	return nil, nil
}
