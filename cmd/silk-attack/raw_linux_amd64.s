#include "textflag.h"

// func rawVfork() (pid, errno uintptr)
//
// The child runs first and uses the same stack, so the return address stays in a register meanwhile.
TEXT ·rawVfork(SB), NOSPLIT|NOFRAME, $0-16
	MOVQ $58, AX // SYS_vfork, arch/x86/entry/syscalls/syscall_64.tbl
	POPQ R12
	SYSCALL
	PUSHQ R12
	CMPQ AX, $0xfffffffffffff001
	JLS  ok
	NEGQ AX
	MOVQ $0, pid+0(FP)
	MOVQ AX, errno+8(FP)
	RET

ok:
	MOVQ AX, pid+0(FP)
	MOVQ $0, errno+8(FP)
	RET

// func rawThread(stack uintptr) (errno uintptr)
//
// The new thread only waits for signals.
TEXT ·rawThread(SB), NOSPLIT, $0-16
	MOVQ $56, AX // SYS_clone
	MOVQ $0x50f00, DI // CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD|CLONE_SYSVSEM, clone(2)
	MOVQ stack+0(FP), SI
	MOVQ $0, DX
	MOVQ $0, R10
	MOVQ $0, R8
	SYSCALL
	CMPQ AX, $0
	JEQ  thread
	CMPQ AX, $0xfffffffffffff001
	JLS  ok
	NEGQ AX
	MOVQ AX, errno+8(FP)
	RET

ok:
	MOVQ $0, errno+8(FP)
	RET

thread:
	MOVQ $34, AX // SYS_pause
	SYSCALL
	JMP  thread

// func rawCompat(nr uintptr) (result uintptr)
//
// A system call by the 32-bit entry, with the numbers of arch/x86/entry/syscalls/syscall_32.tbl. It may end the thread.
TEXT ·rawCompat(SB), NOSPLIT, $0-16
	MOVQ nr+0(FP), AX
	MOVQ $0, BX
	MOVQ $0, CX
	MOVQ $0, DX
	INT  $0x80
	MOVQ AX, result+8(FP)
	RET
