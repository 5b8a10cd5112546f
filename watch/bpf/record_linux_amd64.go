package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/calltable"
	"github.com/silk-sandbox/silk/watch"
)

// kinds are watch's, in the order of enum kind in silk.h.
var kinds = [...]watch.Kind{
	watch.Socket, watch.Connect, watch.OpenAt, watch.Execve, watch.SetUID, watch.CapSet, watch.Mount,
	watch.Clone, watch.Exit, watch.SigSys, watch.Denied, watch.Blind,
}

// Indexes into kinds.
const (
	kindSocket = iota
	kindConnect
	kindOpenAt
	kindExecve
	kindSetUID
	kindCapSet
	kindMount
	kindClone
	kindExit
	kindSigSys
	kindDenied
	kindBlind
)

// Flags of a record, as in silk.h.
const (
	flagAlarm    = 1 << iota
	flagKilled   // the process was sent SIGKILL
	flagCompat   // a 32-bit call: its number is of another table
	flagUntagged // a new task that could not be tagged
)

// record is struct record of silk.h with its text.
type record struct {
	at                       uint64 // ns of CLOCK_BOOTTIME
	slot, generation         uint32
	process, thread          uint32
	result                   int32
	number                   uint32
	kind, flags, length, pad uint16
	args                     [3]uint64
	text                     []byte
}

const headerBytes = 64 // sizeof(struct record)

// decode reads a record. text is a part of b.
func decode(b []byte) (r record, err error) {
	if len(b) < headerBytes {
		return r, fmt.Errorf("a record of %d bytes", len(b))
	}
	le := binary.LittleEndian
	r.at = le.Uint64(b[0:])
	r.slot, r.generation = le.Uint32(b[8:]), le.Uint32(b[12:])
	r.process, r.thread = le.Uint32(b[16:]), le.Uint32(b[20:])
	r.result, r.number = int32(le.Uint32(b[24:])), le.Uint32(b[28:])
	r.kind, r.flags, r.length, r.pad = le.Uint16(b[32:]), le.Uint16(b[34:]), le.Uint16(b[36:]), le.Uint16(b[38:])
	for i := range r.args {
		r.args[i] = le.Uint64(b[40+8*i:])
	}
	switch {
	case int(r.kind) >= len(kinds):
		return r, fmt.Errorf("a record of the unknown kind %d", r.kind)
	case int(r.length) > len(b)-headerBytes:
		return r, fmt.Errorf("a record of %d bytes with %d bytes of text", len(b), r.length)
	}
	r.text = b[headerBytes : headerBytes+int(r.length)]
	return r, nil
}

// event is the record in the words of package watch. boot is when CLOCK_BOOTTIME was zero.
func (r *record) event(boot time.Time) watch.Event {
	e := watch.Event{
		At: boot.Add(time.Duration(r.at)), Origin: watch.Host, Kind: kinds[r.kind],
		Process: int(r.process), Thread: int(r.thread), Argument: watch.Printable(r.argument()),
	}
	if r.kind != kindClone && r.kind != kindExit && r.number != ^uint32(0) {
		if name := r.call(); name != string(e.Kind) {
			e.Syscall = name
		}
	}
	switch {
	case r.flags&flagKilled != 0:
		e.Result = "killed"
	case r.result != 0:
		if e.Result = unix.ErrnoName(unix.Errno(-r.result)); e.Result == "" {
			e.Result = "errno " + strconv.Itoa(int(-r.result))
		}
	}
	return e
}

// call names the system call.
func (r *record) call() string {
	if r.flags&flagCompat != 0 {
		return fmt.Sprintf("32-bit call %d", r.number)
	}
	if name := calltable.Name(int(r.number)); name != "" {
		return name
	}
	return fmt.Sprintf("call %d", r.number)
}

func (r *record) argument() string {
	switch r.kind {
	case kindSocket:
		return fmt.Sprintf("%s %s %d", family(uint16(r.args[0])), socketType(r.args[1]), int32(r.args[2]))
	case kindConnect:
		return address(r.text)
	case kindOpenAt, kindMount:
		return cstring(r.text)
	case kindExecve:
		if path := cstring(r.text); path != "" || r.number != unix.SYS_EXECVEAT {
			return path
		}
		return fmt.Sprintf("descriptor %d", int32(r.args[0]))
	case kindSetUID:
		return r.ids()
	case kindClone:
		what := "process"
		if r.args[1] != 0 {
			what = "thread"
		}
		if r.flags&flagUntagged != 0 {
			return fmt.Sprintf("%s %d, which could not be tagged", what, r.args[0])
		}
		return fmt.Sprintf("%s %d", what, r.args[0])
	case kindExit:
		if signal := unix.Signal(r.args[0] & 0x7f); signal != 0 { // wait(2)'s encoding, which the kernel keeps it in
			if name := unix.SignalName(signal); name != "" {
				return name
			}
			return fmt.Sprintf("signal %d", signal)
		}
		return strconv.FormatUint(r.args[0]>>8&0xff, 10)
	}
	return ""
}

// ids are the new ids that a call of the setuid kind names.
func (r *record) ids() string {
	n := 1
	switch r.number {
	case unix.SYS_SETREUID, unix.SYS_SETREGID:
		n = 2
	case unix.SYS_SETRESUID, unix.SYS_SETRESGID:
		n = 3
	case unix.SYS_SETGROUPS:
		return fmt.Sprintf("%d groups", int32(r.args[0]))
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.Itoa(int(int32(r.args[i])))
	}
	return strings.Join(ids, " ")
}

func cstring(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}

// address is a struct sockaddr in words: sockaddr(3type), ip(7), ipv6(7), unix(7).
func address(b []byte) string {
	if len(b) < 2 {
		return ""
	}
	kind := binary.LittleEndian.Uint16(b)
	switch {
	case kind == unix.AF_INET && len(b) >= 8:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:])).String()
	case kind == unix.AF_INET6 && len(b) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), binary.BigEndian.Uint16(b[2:])).String()
	case kind == unix.AF_UNIX && len(b) > 2 && b[2] == 0:
		return "unix:@" + string(b[3:]) // abstract: its length is the address's
	case kind == unix.AF_UNIX:
		return "unix:" + cstring(b[2:])
	}
	return family(kind)
}

// family names the address families that there is a word for; socket(2), address_families(7).
func family(n uint16) string {
	switch n {
	case unix.AF_UNSPEC:
		return "AF_UNSPEC"
	case unix.AF_UNIX:
		return "AF_UNIX"
	case unix.AF_INET:
		return "AF_INET"
	case unix.AF_INET6:
		return "AF_INET6"
	case unix.AF_NETLINK:
		return "AF_NETLINK"
	case unix.AF_PACKET:
		return "AF_PACKET"
	case unix.AF_ALG:
		return "AF_ALG"
	case unix.AF_VSOCK:
		return "AF_VSOCK"
	case unix.AF_XDP:
		return "AF_XDP"
	}
	return fmt.Sprintf("family %d", n)
}

// socketType names the second argument of socket(2), without the flags in its upper bits.
func socketType(n uint64) string {
	switch n & 0xf { // SOCK_TYPE_MASK, include/linux/net.h
	case unix.SOCK_STREAM:
		return "SOCK_STREAM"
	case unix.SOCK_DGRAM:
		return "SOCK_DGRAM"
	case unix.SOCK_RAW:
		return "SOCK_RAW"
	case unix.SOCK_SEQPACKET:
		return "SOCK_SEQPACKET"
	}
	return fmt.Sprintf("type %d", n&0xf)
}
