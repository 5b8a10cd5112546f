package kvm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests to /dev/kvm, to a machine and to its processor: include/uapi/linux/kvm.h, Documentation/virt/kvm/api.rst.
const (
	getVersion = 0xae00
	version    = 12
	createVM   = 0xae01
	mmapSize   = 0xae04
	createCPU  = 0xae41
	setMemory  = 0x4020ae46 // struct kvm_userspace_memory_region, 32 bytes
	setTSS     = 0xae47
	run        = 0xae80
	setRegs    = 0x4090ae82 // struct kvm_regs, 144 bytes
	getSregs   = 0x8138ae83 // struct kvm_sregs, 312 bytes
	setSregs   = 0x4138ae84
)

// What a processor stopped for, in struct kvm_run.
const (
	exitIO   = 2
	exitHalt = 5

	atImmediateExit = 1
	atReason        = 8
	atIO            = 32 // direction and size, a byte each, port, count, offset of the data
)

// The program, in 64-bit mode with paging, as programs run: it counts to ten million, writes a byte to a port, and halts. A processor takes 5 ms for
// that. Where each instruction is interpreted, by some host below this one, it takes 10 s, and a kernel does not get to its first line in minutes.
// Addresses, port and byte are arbitrary.
const (
	memoryBytes = 0x5000
	codeAt      = 0x1000
	tablesAt    = 0x2000 // three pages: one entry in each, the last one for the first 2 MiB
	port        = 0x10
	word        = 0x2a
)

var code = []byte{
	0xb9, 0x80, 0x96, 0x98, 0x00, // mov $10000000, %ecx
	0xff, 0xc9, 0x75, 0xfc, // dec %ecx; jnz to the dec
	0xb0, word, 0xe6, port, 0xf4, // mov $word, %al; out %al, $port; hlt
}

// Probe runs a machine, which has done what it should within limit. It takes 10 ms. The error is
// [ErrUnusable] with the step that failed.
func Probe(limit time.Duration) error {
	if err := probe(limit); err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return nil
}

func probe(limit time.Duration) (err error) {
	device, err := unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open it: %w", err)
	}
	m := &machine{device: device, vm: -1, cpu: -1}
	if err := m.make(); err != nil {
		return errors.Join(err, m.release())
	}
	done := make(chan error, 1)
	threads := make(chan int, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		threads <- unix.Gettid()
		done <- m.run(time.Now().Add(limit))
	}()
	thread := <-threads
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return errors.Join(err, m.release())
	case <-timer.C:
	}
	// The processor is still in the guest. A signal gets it out, if anything does: SIGURG, which Go's runtime takes for one of its own.
	m.state[atImmediateExit] = 1
	late := fmt.Errorf("a machine was made, but does not run as a processor runs: 20 million instructions took more than %v", limit)
	for range 100 {
		_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
		select {
		case <-done:
			return errors.Join(late, m.release())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return late // its thread never comes back; what it uses stays until this process ends
}

// machine is one with one processor.
type machine struct {
	device, vm, cpu int
	memory, state   []byte // the guest's; struct kvm_run
}

func (m *machine) release() error {
	var errs []error
	for _, b := range [][]byte{m.state, m.memory} {
		if b != nil {
			errs = append(errs, unix.Munmap(b))
		}
	}
	for _, fd := range []int{m.cpu, m.vm, m.device} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

func (m *machine) make() (err error) {
	if n, err := ioctl(m.device, getVersion, 0); err != nil || n != version {
		return fmt.Errorf("ask for its version: %d, not %d (%w)", n, version, err)
	}
	if m.vm, err = ioctl(m.device, createVM, 0); err != nil {
		return fmt.Errorf("make a machine: %w", err)
	}
	if _, err = ioctl(m.vm, setTSS, 0xfffbd000); err != nil { // three pages that Intel's processors need, below 4 GiB
		return fmt.Errorf("prepare a machine: %w", err)
	}
	if m.memory, err = unix.Mmap(-1, 0, memoryBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS); err != nil {
		return fmt.Errorf("make its memory: %w", err)
	}
	copy(m.memory[codeAt:], code)
	const present, writable, large = 1, 2, 1 << 7
	for i := range uint64(2) {
		binary.NativeEndian.PutUint64(m.memory[tablesAt+i<<12:], tablesAt+(i+1)<<12|present|writable)
	}
	binary.NativeEndian.PutUint64(m.memory[tablesAt+2<<12:], present|writable|large)
	region := struct {
		slot, flags         uint32
		guest, size, memory uint64
	}{size: uint64(len(m.memory)), memory: uint64(uintptr(unsafe.Pointer(&m.memory[0])))}
	if _, err = ioctl(m.vm, setMemory, uintptr(unsafe.Pointer(&region))); err != nil {
		return fmt.Errorf("give it memory: %w", err)
	}
	if m.cpu, err = ioctl(m.vm, createCPU, 0); err != nil {
		return fmt.Errorf("make its processor: %w", err)
	}
	size, err := ioctl(m.device, mmapSize, 0)
	if err != nil {
		return fmt.Errorf("ask for the size of its state: %w", err)
	}
	if m.state, err = unix.Mmap(m.cpu, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map its state: %w", err)
	}
	return m.point()
}

// point sets the processor to the program. Offsets are those of struct kvm_sregs: eight segments of 24 bytes, and control registers behind them.
func (m *machine) point() error {
	var sregs [312]byte
	if _, err := ioctl(m.cpu, getSregs, uintptr(unsafe.Pointer(&sregs))); err != nil {
		return fmt.Errorf("read its registers: %w", err)
	}
	const code, data = 11, 3                                           // types of segments: execute and read, read and write, both accessed
	for i, kind := range [6]byte{code, data, data, data, data, data} { // cs, ds, es, fs, gs, ss
		long := byte(0)
		if kind == code {
			long = 1
		}
		segment := sregs[24*i : 24*i+24]
		clear(segment)
		binary.NativeEndian.PutUint32(segment[8:], 0xffffffff)
		binary.NativeEndian.PutUint16(segment[12:], uint16(8*(1+(1-uint16(long)))))
		copy(segment[14:], []byte{kind, 1, 0, 1 - long, 1, long, 1}) // type, present, dpl, db, s, l, g
	}
	for at, bits := range map[int]uint64{
		224: 1<<31 | 1<<5 | 1<<4 | 1, // cr0: paging, NE, ET, protected mode
		240: tablesAt,                // cr3
		248: 1 << 5,                  // cr4: PAE
		264: 1<<10 | 1<<8,            // efer: long mode, active and enabled
	} {
		binary.NativeEndian.PutUint64(sregs[at:], bits)
	}
	if _, err := ioctl(m.cpu, setSregs, uintptr(unsafe.Pointer(&sregs))); err != nil {
		return fmt.Errorf("set its registers: %w", err)
	}
	const rip, rflags = 16, 17
	regs := [18]uint64{rip: codeAt, rflags: 2} // bit 1 is always set
	if _, err := ioctl(m.cpu, setRegs, uintptr(unsafe.Pointer(&regs))); err != nil {
		return fmt.Errorf("set its registers: %w", err)
	}
	return nil
}

// run runs the program to its end.
func (m *machine) run(deadline time.Time) error {
	said := false
	for {
		_, err := ioctl(m.cpu, run, 0)
		if errors.Is(err, unix.EINTR) && time.Now().Before(deadline) { // a signal of Go's runtime
			continue
		}
		if err != nil {
			return fmt.Errorf("run the machine: %w", err)
		}
		halted, err := stopped(m.state, said)
		if halted || err != nil {
			return err
		}
		said = true
	}
}

// stopped says whether the program has come to its end, from what the processor stopped for. said is whether it has written its byte before.
func stopped(state []byte, said bool) (halted bool, err error) {
	switch reason := binary.NativeEndian.Uint32(state[atReason:]); {
	case reason == exitIO && !said:
		io := state[atIO:]
		data := binary.NativeEndian.Uint64(io[8:])
		if p := binary.NativeEndian.Uint16(io[2:]); p != port || data >= uint64(len(state)) || state[data] != word {
			return false, fmt.Errorf("the machine wrote something else than it was told, to port %#x", p)
		}
		return false, nil
	case reason == exitHalt && said:
		return true, nil
	default:
		return false, fmt.Errorf("the machine stopped for reason %d of KVM's, in the middle of its program", reason)
	}
}

func ioctl(fd int, request, argument uintptr) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, argument)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
