package confine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// maxInterpreters bounds the chain of scripts whose interpreters are scripts, as exec_binprm does (fs/exec.c).
const maxInterpreters = 5

// executed is about a program: its file, and what the kernel opens besides to execute it, a script's interpreter and a
// program's loader. The call's object is the first of them that may not be executed, else the program itself.
func (s *Supervisor) executed(who Caller, c *Call, at int32, name, flags uint64) error {
	text, err := who.text(name)
	if c.First || s.to.Policy.NoSpawn { // whatever it is
		c.Object.Path = text
		return nil
	}
	if err != nil {
		return err
	}
	if text == "" {
		if flags&unix.AT_EMPTY_PATH == 0 {
			return unix.ENOENT
		}
		if text, err = who.directory(at); err != nil { // the descriptor's own file
			return err
		}
		if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "/memfd:") {
			c.Object.Anonymous = true
			return nil
		}
	}
	var program Object
	for n := range maxInterpreters {
		o, err := s.lead(who, at, text, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
		if err != nil {
			return err
		}
		if c.Object = o; n == 0 {
			program = o
		}
		if s.to.Policy.judgeFile(*c).Name != "" { // before anybody reads it
			return nil
		}
		if o.Absent || o.Directory || o.Anonymous {
			break
		}
		if text, err = s.interpreter(o.Path); err != nil {
			return err
		}
		if text == "" {
			break
		}
		at, flags = unix.AT_FDCWD, 0
	}
	c.Object = program
	return nil
}

// interpreter is what a file names at its beginning, "" if nothing. The file is hostile.
func (s *Supervisor) interpreter(path string) (string, error) {
	fd, err := s.to.Root.named(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if mode, err := modeOf(fd); err != nil || mode != unix.S_IFREG {
		return "", err
	}
	head := make([]byte, 4096)
	n, err := unix.Pread(fd, head, 0)
	if err != nil {
		return "", err
	}
	return interpreterOf(head[:n], func(b []byte, at int64) (int, error) { return unix.Pread(fd, b, at) })
}

// errFormat is of a file that the kernel will refuse too, or find nothing in.
var errFormat = errors.New("no program")

// interpreterOf reads the first line of a script, or the PT_INTERP of an executable of 64 bits (elf(5)).
func interpreterOf(head []byte, read func(b []byte, at int64) (int, error)) (string, error) {
	if script, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ := bytes.Cut(script[:min(len(script), 254)], []byte("\n")) // BINPRM_BUF_SIZE, include/uapi/linux/binfmts.h
		name, _, _ := bytes.Cut(bytes.TrimLeft(line, " \t"), []byte(" "))
		name, _, _ = bytes.Cut(name, []byte("\t"))
		return string(name), nil
	}
	if !bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")) || len(head) < 64 {
		return "", nil
	}
	le := binary.LittleEndian
	offset, size, count := le.Uint64(head[32:]), int(le.Uint16(head[54:])), int(le.Uint16(head[56:]))
	const header, maxHeaders = 56, 1024
	if size != header || count > maxHeaders || offset > 1<<40 {
		return "", errFormat
	}
	table := make([]byte, size*count)
	if n, err := read(table, int64(offset)); err != nil || n < len(table) {
		return "", errors.Join(errFormat, err)
	}
	for ; len(table) > 0; table = table[size:] {
		const interp = 3 // PT_INTERP
		at, length := le.Uint64(table[8:]), le.Uint64(table[32:])
		if le.Uint32(table) != interp {
			continue
		}
		if length < 2 || length > unix.PathMax || at > 1<<40 { // as load_elf_binary
			return "", errFormat
		}
		name := make([]byte, length)
		if n, err := read(name, int64(at)); err != nil || n < len(name) {
			return "", errors.Join(errFormat, err)
		}
		text, _, _ := bytes.Cut(name, []byte{0})
		return string(text), nil
	}
	return "", nil
}
