package stage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Init makes process 1 of every sandbox, which sleeps. The Sentry has set all its signals to be ignored, which makes it
// the reaper of orphans. The program is process 2 and therefore behaves as anywhere else: default signal actions work,
// and it gets no foreign children.
func Init() []byte {
	return tinyELF([]byte{
		0xb8, 34, 0, 0, 0, // mov eax, SYS_pause
		0x0f, 0x05, // syscall
		0xeb, 0xf7, // jmp to the mov: pause again
	})
}

// patchJump sets the displacement of the two-byte jump op at at, so that it lands at target.
func patchJump(code []byte, at int, op byte, target int) {
	if code[at] != op {
		panic(fmt.Sprintf("no jump %#x at %d", op, at))
	}
	code[at+1] = byte(target - (at + 2))
}

// patchLea sets the displacement of the seven-byte lea reg, [rip+disp32] at at, so that it points at target.
func patchLea(code []byte, at, target int) {
	if code[at] != 0x48 || code[at+1] != 0x8d {
		panic(fmt.Sprintf("no lea at %d", at))
	}
	binary.LittleEndian.PutUint32(code[at+3:], uint32(target-(at+7)))
}

// Where tinyELF loads its body, behind its two headers.
const (
	loadAddress = 0x400000
	headerBytes = 64 + 56
	entryPoint  = loadAddress + headerBytes
)

// tinyELF wraps amd64 code in a static executable with one read-only, executable segment (elf(5)).
func tinyELF(body []byte) []byte {
	size := uint64(headerBytes + len(body))
	b := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 9)...)
	le := binary.LittleEndian
	b = le.AppendUint16(b, 2)  // ET_EXEC
	b = le.AppendUint16(b, 62) // EM_X86_64
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, entryPoint)
	b = le.AppendUint64(b, 64) // program headers
	b = le.AppendUint64(b, 0)  // no section headers
	b = le.AppendUint32(b, 0)
	b = le.AppendUint16(b, 64)
	b = le.AppendUint16(b, 56)
	b = le.AppendUint16(b, 1)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, 1) // PT_LOAD
	b = le.AppendUint32(b, 5) // PF_R | PF_X
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, loadAddress)
	b = le.AppendUint64(b, loadAddress)
	b = le.AppendUint64(b, size)
	b = le.AppendUint64(b, size)
	b = le.AppendUint64(b, 0x1000)
	return append(b, body...)
}

// Memfd puts an executable into an anonymous file that nobody can change any more, and returns it open for reading
// only: gVisor executes no other. The caller closes it.
func Memfd(name string, elf []byte) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	w, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 every memfd may be executed
		w, err = unix.MemfdCreate(name, flags)
	}
	if errors.Is(err, unix.EACCES) {
		return -1, fmt.Errorf("create memfd %s: %w (the host forbids executable ones: sysctl vm.memfd_noexec=1 would not)", name, err)
	}
	if err != nil {
		return -1, fmt.Errorf("create memfd %s: %w", name, err)
	}
	defer unix.Close(w)
	if _, err := unix.Write(w, elf); err != nil {
		return -1, fmt.Errorf("write memfd %s: %w", name, err)
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(w), unix.F_ADD_SEALS, seals); err != nil {
		return -1, fmt.Errorf("seal memfd %s: %w", name, err)
	}
	r, err := unix.Open("/proc/self/fd/"+strconv.Itoa(w), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open memfd %s: %w", name, err)
	}
	return r, nil
}
