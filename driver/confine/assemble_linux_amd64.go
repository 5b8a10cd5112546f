package confine

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

const auditX8664 = 0xc000003e // AUDIT_ARCH_X86_64, include/uapi/linux/audit.h

const (
	load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	and   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	above = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	bits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	give  = unix.BPF_RET | unix.BPF_K
)

// assemble makes the program. foreign is the answer to calls by another convention than that of x86-64.
func assemble(calls []call, foreign uint32) ([]unix.SockFilter, error) {
	program := []unix.SockFilter{
		{Code: load, K: offsetArch},
		{Code: equal, Jt: 1, K: auditX8664},
		{Code: give, K: foreign},
		{Code: load, K: offsetNumber},
		{Code: above, Jf: 1, K: callNumbers}, // those of x32 too
		{Code: give, K: foreign},
	}
	for _, c := range calls {
		var body []unix.SockFilter
		for _, cl := range c.clauses {
			code, err := cl.assemble()
			if err != nil {
				return nil, fmt.Errorf("call %d: %w", c.number, err)
			}
			body = append(body, code...)
		}
		body = append(body, unix.SockFilter{Code: give, K: unix.SECCOMP_RET_ALLOW})
		if len(body) > 255 {
			return nil, fmt.Errorf("call %d: %d instructions are too far to jump over", c.number, len(body))
		}
		program = append(program, unix.SockFilter{Code: equal, Jf: uint8(len(body)), K: uint32(c.number)})
		program = append(program, body...)
	}
	program = append(program, unix.SockFilter{Code: give, K: unix.SECCOMP_RET_ALLOW})
	if len(program) > 4096 { // BPF_MAXINSNS
		return nil, fmt.Errorf("a filter of %d instructions", len(program))
	}
	return program, nil
}

func (c clause) assemble() ([]unix.SockFilter, error) {
	var code []unix.SockFilter
	var misses []int // jumps whose false way, or true way for isNot32, leads to the next clause
	for _, q := range c.when {
		low := uint32(offsetArgs + 8*q.arg)
		switch q.op {
		case is:
			code = append(code, unix.SockFilter{Code: load, K: low}, unix.SockFilter{Code: equal, K: uint32(q.value)})
			misses = append(misses, len(code)-1)
			code = append(code, unix.SockFilter{Code: load, K: low + 4}, unix.SockFilter{Code: equal, K: uint32(q.value >> 32)})
			misses = append(misses, len(code)-1)
		case is32, isNot32:
			code = append(code, unix.SockFilter{Code: load, K: low}, unix.SockFilter{Code: equal, K: uint32(q.value)})
			if q.op == isNot32 {
				misses = append(misses, -(len(code) - 1))
				continue
			}
			misses = append(misses, len(code)-1)
		case any32:
			code = append(code, unix.SockFilter{Code: load, K: low}, unix.SockFilter{Code: bits, K: uint32(q.value)})
			misses = append(misses, len(code)-1)
		case masked:
			code = append(code, unix.SockFilter{Code: load, K: low}, unix.SockFilter{Code: and, K: q.mask}, unix.SockFilter{Code: equal, K: uint32(q.value)})
			misses = append(misses, len(code)-1)
		default:
			return nil, fmt.Errorf("unknown question %d", q.op)
		}
	}
	code = append(code, unix.SockFilter{Code: give, K: c.answer})
	for _, at := range misses {
		if at < 0 {
			code[-at].Jt = uint8(len(code) + at - 1)
			continue
		}
		code[at].Jf = uint8(len(code) - at - 1)
	}
	return code, nil
}

// Encode is a filter as the kernel reads it, 8 bytes for each instruction.
func Encode(filter []unix.SockFilter) (b []byte) {
	for _, i := range filter {
		b = binary.NativeEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.NativeEndian.AppendUint32(b, i.K)
	}
	return b
}
