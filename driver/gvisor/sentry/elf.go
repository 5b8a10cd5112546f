package sentry

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// initELF is process 1 of every sandbox: it ignores every signal that can be ignored and sleeps. Ignoring SIGCHLD with
// SA_NOCLDWAIT makes the kernel reap every orphan (sigaction(2)). The program is process 2 and therefore behaves as
// anywhere else: default signal actions work, and it gets no foreign children.
func initELF() []byte {
	code := []byte{
		0xbb, 64, 0, 0, 0, // mov ebx, 64: the last signal
		// each:
		0xb8, 13, 0, 0, 0, // mov eax, SYS_rt_sigaction
		0x89, 0xdf, // mov edi, ebx
		0x48, 0x8d, 0x35, 0, 0, 0, 0, // lea rsi, [rip+...]: the struct below
		0x31, 0xd2, // xor edx, edx
		0x41, 0xba, 8, 0, 0, 0, // mov r10d, sizeof(sigset_t)
		0x0f, 0x05, // syscall; SIGKILL and SIGSTOP are refused
		0xff, 0xcb, // dec ebx
		0x75, 0, // jne each
		0xb8, 34, 0, 0, 0, // mov eax, SYS_pause
		0x0f, 0x05, // syscall
		0xeb, 0xf7, // jmp to the mov: pause again
	}
	patchJump(code, 31, 5)
	patchLea(code, 12, len(code))
	var action [32]byte                                   // struct kernel_sigaction, arch/x86/include/uapi/asm/signal.h
	binary.LittleEndian.PutUint64(action[0:], 1)          // SIG_IGN
	binary.LittleEndian.PutUint64(action[8:], 0x00000002) // SA_NOCLDWAIT
	return tinyELF(append(code, action[:]...))
}

// umountELF is the helper that takes our own /proc away after we have dropped the right to: it waits for a byte on
// descriptor 3, then does umount2("/proc", MNT_DETACH). Re-executing this whole binary for that, as runsc does, costs
// 40 ms of CPU; this costs less than one.
func umountELF() []byte {
	code := []byte{
		0x31, 0xc0, // xor eax, eax: SYS_read
		0xbf, 3, 0, 0, 0, // mov edi, 3
		0x48, 0x89, 0xe6, // mov rsi, rsp
		0xba, 1, 0, 0, 0, // mov edx, 1
		0x0f, 0x05, // syscall
		0xbf, 1, 0, 0, 0, // mov edi, 1: exit status if the read failed
		0x83, 0xf8, 1, // cmp eax, 1
		0x75, 27, // jne exit
		0x48, 0x8d, 0x3d, 29, 0, 0, 0, // lea rdi, [rip+29]: "/proc"
		0xbe, 2, 0, 0, 0, // mov esi, MNT_DETACH
		0xb8, 166, 0, 0, 0, // mov eax, SYS_umount2
		0x0f, 0x05, // syscall
		0x31, 0xff, // xor edi, edi
		0x85, 0xc0, // test eax, eax
		0x74, 2, // jz +2
		0xff, 0xc7, // inc edi
		// exit:
		0xb8, 60, 0, 0, 0, // mov eax, SYS_exit
		0x0f, 0x05, // syscall
	}
	patchJump(code, 25, len(code)-7) // jne exit
	patchLea(code, 27, len(code))    // the string follows the code
	return tinyELF(append(code, "/proc\x00"...))
}

// patchJump sets the displacement of the two-byte jump at at, so that it lands at target.
func patchJump(code []byte, at, target int) {
	if code[at] != 0x75 {
		panic(fmt.Sprintf("no jne at %d", at))
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

// tinyELF wraps position-independent amd64 code in a static executable with one read-only, executable segment (elf(5)).
func tinyELF(body []byte) []byte {
	const base, header = 0x400000, 64 + 56
	size := uint64(header + len(body))
	b := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 9)...)
	le := binary.LittleEndian
	b = le.AppendUint16(b, 2)  // ET_EXEC
	b = le.AppendUint16(b, 62) // EM_X86_64
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, base+header) // entry
	b = le.AppendUint64(b, 64)          // program headers
	b = le.AppendUint64(b, 0)           // no section headers
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
	b = le.AppendUint64(b, base)
	b = le.AppendUint64(b, base)
	b = le.AppendUint64(b, size)
	b = le.AppendUint64(b, size)
	b = le.AppendUint64(b, 0x1000)
	return append(b, body...)
}

// memfdOf puts content into an anonymous file and returns it open for reading only: gVisor executes no other. The
// caller closes it.
func memfdOf(name string, content []byte) (int, error) {
	w, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("create memfd %s: %w", name, err)
	}
	defer unix.Close(w)
	if _, err := unix.Write(w, content); err != nil {
		return -1, fmt.Errorf("write memfd %s: %w", name, err)
	}
	r, err := unix.Open("/proc/self/fd/"+strconv.Itoa(w), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open memfd %s: %w", name, err)
	}
	return r, nil
}
