// Package link is a network interface of gVisor's tcpip whose wire is a socket: a sandbox's only one, and that of its gateway at the other end.
//
// Each message of the SOCK_SEQPACKET socket is one IP packet. Both ends are ours and the wire is memory, so nothing is summed: whoever wants another
// packet to arrive has the socket, and could as well send that one. What a packet says is the business of the stack, and of the function
// that [Endpoint.Receive] asks about each.
//
// A packet is sent by who has it, without another goroutine, as long as the socket takes it; else it waits for [Endpoint.Send], and when too many
// wait it is lost, as on any link. It is read into the memory that the stack keeps it in.
package link

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// Endpoint is one end of a link. It is safe for concurrent use; [Endpoint.Send] and [Endpoint.Receive] are called once each.
type Endpoint struct {
	*channel.Endpoint // what a stack asks of an interface besides; its queue is not used
	sock              int

	mu      sync.Mutex
	queue   chan *stack.PacketBuffer
	waiting int // in queue, or in Send's hands
	closed  bool
}

// Capabilities are those of every link: there are no checksums on it.
const Capabilities = stack.CapabilityTXChecksumOffload | stack.CapabilityRXChecksumOffload

// New makes an end of a link of a socket, which stays the caller's: it is not to be closed before [Endpoint.Close], and before Send and Receive have
// returned. queue is how many packets may wait while the socket takes none.
func New(sock int, mtu uint32, queue int) *Endpoint {
	rest := channel.New(0, mtu, "")
	rest.LinkEPCapabilities = Capabilities
	return &Endpoint{Endpoint: rest, sock: sock, queue: make(chan *stack.PacketBuffer, queue)}
}

// WritePackets implements [stack.LinkEndpoint].
func (e *Endpoint) WritePackets(packets stack.PacketBufferList) (sent int, err tcpip.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range packets.AsSlice() {
		switch {
		case e.closed:
			return sent, &tcpip.ErrClosedForSend{}
		case e.waiting == 0 && !errors.Is(e.write(p), unix.EAGAIN):
		case e.waiting == cap(e.queue):
			return sent, nil // the others are lost
		default:
			e.waiting++
			e.queue <- p.Clone()
		}
		sent++
	}
	return sent, nil
}

// maxPieces bounds what one call writes a packet from: a program that sends byte by byte makes packets of thousands, and the kernel takes 1024
// (UIO_MAXIOV, include/uapi/linux/uio.h).
const maxPieces = 64

// write gives a packet to the socket. EAGAIN says that it takes none now; every other error that this packet is lost.
func (e *Endpoint) write(p *stack.PacketBuffer) error {
	pieces := p.AsSlices()
	if len(pieces) > maxPieces {
		whole := p.ToView()
		defer whole.Release()
		pieces = [][]byte{whole.AsSlice()}
	}
	for {
		_, err := unix.SendmsgBuffers(e.sock, pieces, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) // the flags that a Sentry's filter has
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Send sends the packets that had to wait, until Close.
func (e *Endpoint) Send() {
	for p := range e.queue {
		for errors.Is(e.write(p), unix.EAGAIN) {
			if e.wait(unix.POLLOUT) != nil {
				break
			}
		}
		p.DecRef()
		e.mu.Lock()
		e.waiting--
		e.mu.Unlock()
	}
}

// Close makes packets be refused, and Send return as soon as the socket has taken what waits or is shut down.
func (e *Endpoint) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		close(e.queue)
	}
}

// Receive brings packets to the stack until the other end is gone or the socket is shut down, which is no error. Those that pass says no to are
// dropped: it sees their first bytes, 4 KiB at most.
func (e *Endpoint) Receive(pass func(packet []byte) bool) error {
	in := newIntake()
	defer in.release()
	for {
		n, _, _, _, err := unix.RecvmsgBuffers(e.sock, in.pieces, nil, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			err = e.wait(unix.POLLIN)
			if err == nil {
				continue
			}
		case err == nil && n == 0, errors.Is(err, unix.ECONNRESET): // it has ended, with or without something from us that it has not read
			return nil
		}
		if err != nil {
			return fmt.Errorf("read packets: %w", err)
		}
		if n > maxPacket || !pass(in.pieces[0][:min(n, len(in.pieces[0]))]) {
			continue
		}
		protocol := ipv4.ProtocolNumber
		if in.pieces[0][0]>>4 == 6 {
			protocol = ipv6.ProtocolNumber
		}
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: in.take(n)})
		e.InjectInbound(protocol, p)
		p.DecRef()
	}
}

// wait returns when the socket has something, takes something, or is shut down.
func (e *Endpoint) wait(events int16) error {
	for {
		_, err := unix.Ppoll([]unix.PollFd{{Fd: int32(e.sock), Events: events}}, nil, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
