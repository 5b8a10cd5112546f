// Package vsock is the other end of a virtual machine's vsock(7) device where the host's kernel is not to have it: a vhost-user backend,
// in Go, for QEMU's vhost-user-vsock-device. The guest may call ports of the host's, and who serves decides what answers. The host cannot call the guest, for
// nobody here does.
//
// QEMU hands over the machine's memory (vhost-user, "Vhost-user Protocol" of its documentation) and the addresses of the device's
// three queues; packets of the guest's are read from one and written to another (virtio 1.2, sections 2.7 and 5.10). The guest is an enemy and can write to all
// of that memory at any time: so what is read there is copied before it is judged, every address is looked up, and nothing that
// the guest does makes this side keep more than [maxConns] connections with [window] bytes each, or wait. QEMU is believed as far as
// a process of the host's that an enemy may have taken over: the memory must be sealed, so that it cannot shrink under
// our feet, and its messages are checked like the guest's.
//
// What goes against the rules ends the backend, and with it every connection. Event indexes, indirect descriptors and migration are
// not offered.
package vsock

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// CID is the address of a guest, and HostCID that of the host (VMADDR_CID_HOST). Machines cannot see each other, so all may have the same.
const (
	CID     = 3
	HostCID = 2
)

// Bounds.
const (
	maxConns  = 16        // of one guest, at a time
	window    = 256 << 10 // bytes from the guest that wait for the host's side of a connection
	maxPacket = 64 << 10  // VIRTIO_VSOCK_MAX_PKT_BUF_SIZE, include/linux/virtio_vsock.h
)

// ErrGuest is in the error of [Serve] when guest or VMM break the rules.
var ErrGuest = errors.New("the virtual machine breaks the rules of its vsock device")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrGuest, fmt.Sprintf(format, args...))
}

var le = binary.LittleEndian

// Operations of packets, virtio 1.2 section 5.10.6.
const (
	opRequest       = 1
	opResponse      = 2
	opReset         = 3
	opShutdown      = 4
	opData          = 5
	opCredit        = 6
	opCreditRequest = 7
)

const (
	headerBytes = 44 // struct virtio_vsock_hdr
	typeStream  = 1
)

// header is struct virtio_vsock_hdr, section 5.10.6.
type header struct {
	fromCID, toCID   uint64
	fromPort, toPort uint32
	length           uint32
	kind, op         uint16
	flags            uint32
	space, forwarded uint32 // the sender's buffer, and what it has read from it since the beginning
}

// parse takes a packet apart. Its bytes are the packet's own.
func parse(p []byte) (h header, body []byte, err error) {
	if len(p) < headerBytes {
		return h, nil, broken("a packet of %d bytes", len(p))
	}
	h = header{
		le.Uint64(p), le.Uint64(p[8:]), le.Uint32(p[16:]), le.Uint32(p[20:]), le.Uint32(p[24:]),
		le.Uint16(p[28:]), le.Uint16(p[30:]), le.Uint32(p[32:]), le.Uint32(p[36:]), le.Uint32(p[40:]),
	}
	if uint64(h.length) > uint64(len(p)-headerBytes) {
		return h, nil, broken("a packet says that it has %d bytes, and has %d", h.length, len(p)-headerBytes)
	}
	return h, p[headerBytes : headerBytes+int(h.length)], nil
}

func (h header) packet(body []byte) []byte {
	p := make([]byte, 0, headerBytes+len(body))
	p = le.AppendUint64(le.AppendUint64(p, h.fromCID), h.toCID)
	p = le.AppendUint32(le.AppendUint32(p, h.fromPort), h.toPort)
	p = le.AppendUint32(p, uint32(len(body)))
	p = le.AppendUint16(le.AppendUint16(p, h.kind), h.op)
	p = le.AppendUint32(p, h.flags)
	p = le.AppendUint32(le.AppendUint32(p, h.space), h.forwarded)
	return append(p, body...)
}
