package bpf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/watch"
)

// sample is a record as the kernel lays it out.
func sample(kind, flags uint16, result int32, number uint32, args [3]uint64, text string) []byte {
	var r silkAlarm
	h := &r.First.Record
	h.At, h.Slot, h.Generation, h.Process, h.Thread = 1e9, 3, 7, 100, 101
	h.Kind, h.Flags, h.Result, h.Number, h.Args, h.Length = kind, flags, result, number, args, uint16(len(text))
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		panic(err)
	}
	b.WriteString(text)
	return b.Bytes()
}

func TestLayoutIsThatOfTheObject(t *testing.T) {
	var a silkAlarm
	if got := unsafe.Sizeof(a.First.Record); got != headerBytes {
		t.Errorf("struct record has %d bytes, decode reads %d", got, headerBytes)
	}
	if got := unsafe.Offsetof(a.First); got != 16 {
		t.Errorf("the first record of struct alarm is at %d", got)
	}
	r, err := decode(sample(kindOpenAt, flagAlarm|flagCompat, -13, 257, [3]uint64{1, 2, 3}, "/x\x00"))
	if err != nil {
		t.Fatal(err)
	}
	want := record{
		at: 1e9, slot: 3, generation: 7, process: 100, thread: 101, result: -13, number: 257,
		kind: kindOpenAt, flags: flagAlarm | flagCompat, length: 3, args: [3]uint64{1, 2, 3}, text: []byte("/x\x00"),
	}
	if diff := cmp.Diff(want, r, cmp.AllowUnexported(record{})); diff != "" {
		t.Errorf("decode (-want +got):\n%s", diff)
	}
}

func TestEvents(t *testing.T) {
	for _, test := range []struct {
		name string
		in   []byte
		want string
	}{
		{"a socket of no known family", sample(kindSocket, flagAlarm, 0, unix.SYS_SOCKET, [3]uint64{77, 9, ^uint64(0)}, ""), "socket||family 77 type 9 -1"},
		{"a connect without an address", sample(kindConnect, 0, 0, unix.SYS_CONNECT, [3]uint64{}, ""), "connect"},
		{"an address that is too short", sample(kindConnect, 0, 0, unix.SYS_CONNECT, [3]uint64{}, "\x02\x00\x01"), "connect||AF_INET"},
		{"an unnamed unix socket", sample(kindConnect, 0, 0, unix.SYS_CONNECT, [3]uint64{}, "\x01\x00"), "connect||unix:"},
		{"an open by handle", sample(kindOpenAt, 0, 0, unix.SYS_OPEN_BY_HANDLE_AT, [3]uint64{}, ""), "openat|open_by_handle_at"},
		{"an exec of a descriptor", sample(kindExecve, flagAlarm, 0, unix.SYS_EXECVEAT, [3]uint64{5}, "\x00"), "execve|execveat|descriptor 5"},
		{"groups", sample(kindSetUID, 0, -1, unix.SYS_SETGROUPS, [3]uint64{2}, ""), "setuid|setgroups|2 groups|EPERM"},
		{"a thread", sample(kindClone, 0, 0, 0, [3]uint64{55, 1}, ""), "clone||thread 55"},
		{"an end by a signal", sample(kindExit, 0, 0, 0, [3]uint64{0x80 | 11}, ""), "exit||SIGSEGV"},
		{"an end by a signal without a name", sample(kindExit, 0, 0, 0, [3]uint64{40}, ""), "exit||signal 40"},
		{"a process that was ended", sample(kindMount, flagAlarm|flagKilled, 0, unix.SYS_MOUNT, [3]uint64{}, "/mnt\x00"), "mount||/mnt|killed"},
		{"a call that has no name", sample(kindDenied, 0, -13, 100000, [3]uint64{}, ""), "denied|call 100000||EACCES"},
		{"an error that has no name", sample(kindDenied, 0, -4000, 0, [3]uint64{}, ""), "denied|read||errno 4000"},
		{"a thread that seccomp killed", sample(kindSigSys, 0, 0, ^uint32(0), [3]uint64{}, ""), "sigsys"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := decode(test.in)
			if err != nil {
				t.Fatal(err)
			}
			e := r.event(time.Unix(1000, 0))
			if got := words([]watch.Event{e})[0]; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if !e.At.Equal(time.Unix(1001, 0)) || e.Process != 100 || e.Thread != 101 || e.Origin != watch.Host {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(sample(kindOpenAt, 0, 0, 257, [3]uint64{}, "/etc/passwd\x00"))
	f.Add(sample(kindConnect, flagAlarm, 0, 42, [3]uint64{}, "\x02\x00\x01\xbb\xc0\x00\x02\x01"))
	f.Add(sample(kindConnect, 0, -13, 42, [3]uint64{}, "\x0a\x00\x01\xbb0000\x20\x01\x0d\xb80000000000010000"))
	f.Add(sample(kindConnect, 0, 0, 42, [3]uint64{}, "\x01\x00\x00abstract\x1b"))
	f.Add(sample(kindExecve, flagKilled, 0, 322, [3]uint64{^uint64(0)}, ""))
	f.Add(sample(kindSigSys, flagCompat, 0, ^uint32(0), [3]uint64{}, ""))
	f.Add(sample(kindExit, 0, -1<<31, 0, [3]uint64{0xff7f}, strings.Repeat("\xff", watch.MaxArgument)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err != nil {
			return
		}
		e := r.event(time.Unix(0, 0))
		if len(e.Argument) > watch.MaxArgument || watch.Printable(e.Argument) != e.Argument || e.Kind == "" {
			t.Errorf("%x is %+v", b, e)
		}
	})
}

// TestObjectIsOfItsSources: the object that is committed is the one that was made of the C files that are committed.
func TestObjectIsOfItsSources(t *testing.T) {
	sums, err := os.ReadFile("silk.sums")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for line := range strings.Lines(string(sums)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != sum {
			t.Errorf("%s is not what silk.sums says: run make generate where clang, llvm and libbpf-dev are installed", name)
		}
		files++
	}
	if files != 4 {
		t.Errorf("silk.sums names %d files, want 4", files)
	}
}

// TestObjectCanBeMadeAgain makes the object of its sources again. Another clang may make other bytes; the same may not.
func TestObjectCanBeMadeAgain(t *testing.T) {
	testenv.Require(t, testenv.Clang)
	dir := t.TempDir()
	for _, name := range []string{"silk.bpf.c", "silk.h"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-buildvcs=false", "./generate", "-out", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made, err := os.ReadFile(filepath.Join(dir, "silk.sums"))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("silk.sums")
	if err != nil {
		t.Fatal(err)
	}
	if clang(sums) != clang(made) {
		t.Logf("made with %q, committed with %q: not compared", clang(made), clang(sums))
		return
	}
	if diff := cmp.Diff(string(sums), string(made)); diff != "" {
		t.Errorf("silk.sums (-committed +made again):\n%s", diff)
	}
}

func clang(sums []byte) string {
	_, version, _ := strings.Cut(string(sums), "# ")
	return version
}
