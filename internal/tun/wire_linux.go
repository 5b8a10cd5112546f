package tun

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Wire passes packets between an interface and a socket.
type Wire struct {
	device, sock *os.File
	work         sync.WaitGroup
	once         sync.Once
	err          error
}

func newWire(device, sock *os.File) *Wire {
	w := &Wire{device: device, sock: sock}
	w.work.Go(w.out)
	w.work.Go(w.in)
	return w
}

// Close takes the interface away. It may be called more than once.
func (w *Wire) Close() error {
	w.end()
	w.work.Wait()
	return w.err
}

// end closes both sides: what one of the directions cannot do the other one need not.
func (w *Wire) end() {
	w.once.Do(func() { w.err = errors.Join(w.device.Close(), w.sock.Close()) })
}

const (
	headerBytes = 10       // sizeof(struct virtio_net_hdr), include/uapi/linux/virtio_net.h
	maxPacket   = 64 << 10 // IP has no larger one
)

// out passes on what the namespace sends. While the socket takes nothing the kernel keeps some of it, and drops the rest.
func (w *Wire) out() {
	defer w.end()
	b := make([]byte, headerBytes+maxPacket)
	for {
		n, err := w.device.Read(b)
		if err != nil {
			return
		}
		if n <= headerBytes {
			continue
		}
		if _, err := w.sock.Write(b[headerBytes:n]); err != nil && !lost(err) {
			return
		}
	}
}

// in passes on what comes from the socket, until its other end is gone.
func (w *Wire) in() {
	defer w.end()
	b := make([]byte, headerBytes+maxPacket)
	for {
		n, err := w.sock.Read(b[headerBytes:])
		if err != nil {
			return
		}
		frame := b[:headerBytes+n]
		if !head(frame) {
			continue
		}
		if _, err := w.device.Write(frame); err != nil && !lost(err) {
			return
		}
	}
}

// lost says whether an error is about one packet, which is lost as on any network.
func lost(err error) bool {
	for _, errno := range []unix.Errno{unix.EINVAL, unix.ENOBUFS, unix.ENOMEM, unix.EMSGSIZE, unix.EIO} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// head fills in what precedes a packet on its way into the kernel: that its checksum is still to be computed, by a device that it will not come
// to, which the kernel takes for good. The field itself gets the sum of the pseudo-header, as the kernel does it. ok is false for what
// cannot be of anybody's stack: fragments, and packets that are shorter than they have to be.
func head(frame []byte) (ok bool) {
	clear(frame[:headerBytes])
	p := frame[headerBytes:]
	var start int
	var protocol byte
	var addrs []byte
	switch {
	case len(p) >= 20 && p[0]>>4 == 4: // RFC 791 section 3.1
		start, protocol, addrs = int(p[0]&0xf)*4, p[9], p[12:20]
		if binary.BigEndian.Uint16(p[6:])&0x3fff != 0 || start < 20 {
			return false
		}
	case len(p) >= 40 && p[0]>>4 == 6: // RFC 8200 section 3
		start, protocol, addrs = 40, p[6], p[8:40]
	default:
		return false
	}
	var at int // of the checksum
	switch protocol {
	case unix.IPPROTO_TCP:
		at = 16
	case unix.IPPROTO_UDP:
		at = 6
	default: // it has its own
		return true
	}
	if len(p) < start+at+2 {
		return false
	}
	sum := uint32(protocol) + uint32(len(p)-start)
	for ; len(addrs) > 0; addrs = addrs[2:] {
		sum += uint32(binary.BigEndian.Uint16(addrs))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(p[start+at:], uint16(sum>>16+sum&0xffff))
	frame[0] = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
	binary.NativeEndian.PutUint16(frame[6:], uint16(start))
	binary.NativeEndian.PutUint16(frame[8:], uint16(at))
	return true
}
