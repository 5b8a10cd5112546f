package docker

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// A filter is a list of calls, each with clauses that are tried in their order; a call without one, and one of whose
// clauses none matches, is allowed. It becomes a program of classic BPF, which the kernel runs for each system call that it
// does not know to be allowed always (seccomp(2), SECCOMP_CACHE).
type call struct {
	number  int
	clauses []clause
}

// clause is an answer and what must be true of the call's arguments for it.
type clause struct {
	when   []cond
	answer uint32
}

// cond is a question about one argument.
type cond struct {
	arg   int
	op    op
	value uint64
	mask  uint32 // of masked
}

type op int

const (
	is      op = iota // the whole argument
	is32              // the lower half: the kernel takes an int
	isNot32           //
	any32             // one of the bits in the lower half
	masked            // the lower half under mask
)

// Offsets in struct seccomp_data, include/uapi/linux/seccomp.h.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const (
	auditX8664 = 0xc000003e // AUDIT_ARCH_X86_64, include/uapi/linux/audit.h
)

// instruction is struct sock_filter.
type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

const (
	load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	and   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	above = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	bits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	give  = unix.BPF_RET | unix.BPF_K
)

// assemble makes the program. foreign is the answer to calls by another convention than that of x86-64.
func assemble(calls []call, foreign uint32) ([]instruction, error) {
	program := []instruction{
		{load, 0, 0, offsetArch},
		{equal, 1, 0, auditX8664},
		{give, 0, 0, foreign},
		{load, 0, 0, offsetNumber},
		{above, 0, 1, callNumbers}, // those of x32 too
		{give, 0, 0, foreign},
	}
	for _, c := range calls {
		var body []instruction
		for _, cl := range c.clauses {
			code, err := cl.assemble()
			if err != nil {
				return nil, fmt.Errorf("call %d: %w", c.number, err)
			}
			body = append(body, code...)
		}
		body = append(body, instruction{give, 0, 0, unix.SECCOMP_RET_ALLOW})
		if len(body) > 255 {
			return nil, fmt.Errorf("call %d: %d instructions are too far to jump over", c.number, len(body))
		}
		program = append(program, instruction{equal, 0, uint8(len(body)), uint32(c.number)})
		program = append(program, body...)
	}
	program = append(program, instruction{give, 0, 0, unix.SECCOMP_RET_ALLOW})
	if len(program) > 4096 { // BPF_MAXINSNS
		return nil, fmt.Errorf("a filter of %d instructions", len(program))
	}
	return program, nil
}

func (c clause) assemble() ([]instruction, error) {
	var code []instruction
	var misses []int // jumps whose false way, or true way for isNot32, leads to the next clause
	for _, q := range c.when {
		low := uint32(offsetArgs + 8*q.arg)
		switch q.op {
		case is:
			code = append(code, instruction{load, 0, 0, low}, instruction{equal, 0, 0, uint32(q.value)})
			misses = append(misses, len(code)-1)
			code = append(code, instruction{load, 0, 0, low + 4}, instruction{equal, 0, 0, uint32(q.value >> 32)})
			misses = append(misses, len(code)-1)
		case is32, isNot32:
			code = append(code, instruction{load, 0, 0, low}, instruction{equal, 0, 0, uint32(q.value)})
			if q.op == isNot32 {
				misses = append(misses, -(len(code) - 1))
				continue
			}
			misses = append(misses, len(code)-1)
		case any32:
			code = append(code, instruction{load, 0, 0, low}, instruction{bits, 0, 0, uint32(q.value)})
			misses = append(misses, len(code)-1)
		case masked:
			code = append(code, instruction{load, 0, 0, low}, instruction{and, 0, 0, q.mask}, instruction{equal, 0, 0, uint32(q.value)})
			misses = append(misses, len(code)-1)
		default:
			return nil, fmt.Errorf("unknown question %d", q.op)
		}
	}
	code = append(code, instruction{give, 0, 0, c.answer})
	for _, at := range misses {
		if at < 0 {
			code[-at].jt = uint8(len(code) + at - 1)
			continue
		}
		code[at].jf = uint8(len(code) - at - 1)
	}
	return code, nil
}

// encode is the program as the kernel reads it.
func encode(program []instruction) (b []byte) {
	for _, i := range program {
		b = binary.NativeEndian.AppendUint16(b, i.code)
		b = append(b, i.jt, i.jf)
		b = binary.NativeEndian.AppendUint32(b, i.k)
	}
	return b
}
