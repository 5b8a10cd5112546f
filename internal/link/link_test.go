package link

import (
	"bytes"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/silk-sandbox/silk/internal/testenv"
)

func pair(t *testing.T) [2]int {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// taker is a stack's place: it keeps what comes.
type taker struct {
	packets chan []byte
	kinds   chan tcpip.NetworkProtocolNumber
}

func (t *taker) DeliverNetworkPacket(kind tcpip.NetworkProtocolNumber, p *stack.PacketBuffer) {
	all := p.ToBuffer()
	t.packets <- all.Flatten()
	t.kinds <- kind
}

func (*taker) DeliverLinkPacket(tcpip.NetworkProtocolNumber, *stack.PacketBuffer) {}

// packet is n bytes that look like IP, with a number, in pieces.
func packet(version byte, number, n, pieces int) (*stack.PacketBuffer, []byte) {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	b[0] = version << 4
	if n > 8 {
		binary.BigEndian.PutUint32(b[4:], uint32(number))
	}
	var all buffer.Buffer
	for i := range pieces {
		_ = all.Append(buffer.NewViewWithData(b[n*i/pieces : n*(i+1)/pieces]))
	}
	return stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: all}), b
}

func write(t *testing.T, e *Endpoint, p *stack.PacketBuffer) (sent int, err tcpip.Error) {
	t.Helper()
	defer p.DecRef()
	var list stack.PacketBufferList
	list.PushBack(p)
	return e.WritePackets(list)
}

// TestSizes: packets arrive as they were sent, whatever they are made of and are read into.
func TestSizes(t *testing.T) {
	testenv.NoLeaks(t)
	socks := pair(t)
	from, to := New(socks[0], 60<<10, 16), New(socks[1], 60<<10, 16)
	got := &taker{make(chan []byte, 1), make(chan tcpip.NetworkProtocolNumber, 1)}
	to.Attach(got)
	var all sync.WaitGroup
	all.Go(from.Send)
	all.Go(func() {
		if err := to.Receive(func(first []byte) bool { return first[0]>>4 != 5 }); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		version byte
		n       int
		pieces  int
	}{
		{4, 1, 1},
		{4, 20, 1},
		{6, 40, 2},
		{4, smallPacket - 1, 1},
		{6, smallPacket, 1},
		{4, smallPacket + 1, 1},
		{4, 4095, 1},
		{4, 4096, 3},
		{4, 4097, 1},
		{6, 8192, 1},
		{4, 8193, 1},
		{4, 16384, 1},
		{4, 16385, 70},
		{4, 32768, 1},
		{4, 32769, 1},
		{4, 60 << 10, 2},
		{6, 65535, 9},
		{4, 65535, 5000},
		{4, 200, 200},
	} {
		if _, err := write(t, from, func() *stack.PacketBuffer { p, _ := packet(5, 0, 100, 1); return p }()); err != nil { // which does not pass
			t.Fatal(err)
		}
		p, want := packet(test.version, 1, test.n, test.pieces)
		if n, err := write(t, from, p); n != 1 || err != nil {
			t.Fatalf("%d bytes in %d pieces: %d, %v", test.n, test.pieces, n, err)
		}
		select {
		case b := <-got.packets:
			kind := map[byte]tcpip.NetworkProtocolNumber{4: ipv4.ProtocolNumber, 6: ipv6.ProtocolNumber}[test.version]
			if is := <-got.kinds; !bytes.Equal(b, want) || is != kind {
				t.Errorf("%d bytes in %d pieces have come as %d, of protocol %d", test.n, test.pieces, len(b), is)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%d bytes in %d pieces do not arrive", test.n, test.pieces)
		}
	}
	from.Close()
	_ = unix.Shutdown(socks[0], unix.SHUT_RDWR)
	all.Wait()
	_, _ = unix.Close(socks[0]), unix.Close(socks[1])
}

// TestNobodyReads: what the other end does not take waits, in its order, and what is too much is lost.
func TestNobodyReads(t *testing.T) {
	testenv.NoLeaks(t)
	const queue, size, most = 8, 30 << 10, 1000
	socks := pair(t)
	e := New(socks[0], 60<<10, queue)
	sent := 0
	for ; sent < most; sent++ {
		p, _ := packet(4, sent, size, 1)
		n, err := write(t, e, p)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if sent <= queue || sent == most {
		t.Fatalf("%d packets went, %d may wait", sent, queue)
	}
	var done sync.WaitGroup
	done.Go(e.Send)
	b := make([]byte, 64<<10)
	for i := range sent {
		n, err := unix.Read(socks[1], b)
		if err != nil || n != size || int(binary.BigEndian.Uint32(b[4:])) != i {
			t.Fatalf("packet %d: %d bytes of packet %d, %v", i, n, binary.BigEndian.Uint32(b[4:]), err)
		}
	}
	p, _ := packet(4, 0, size, 1)
	for again := true; again; { // the queue is empty
		p, _ := packet(4, 0, size, 1)
		n, err := write(t, e, p)
		if err != nil {
			t.Fatal(err)
		}
		again = n == 0
	}
	e.Close()
	e.Close()
	if n, err := write(t, e, p); n != 0 || err == nil {
		t.Errorf("after the end: %d, %v", n, err)
	}
	done.Wait()
	_, _ = unix.Close(socks[0]), unix.Close(socks[1])
}

// TestShutDown: a socket that is shut down ends both loops, also while they wait for it.
func TestShutDown(t *testing.T) {
	testenv.NoLeaks(t)
	socks := pair(t)
	e := New(socks[0], 60<<10, 64)
	for i := 0; ; i++ {
		p, _ := packet(4, i, 60<<10, 1)
		n, err := write(t, e, p)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	var done sync.WaitGroup
	done.Go(e.Send)
	done.Go(func() {
		if err := e.Receive(func([]byte) bool { return true }); err != nil {
			t.Error(err)
		}
	})
	_ = unix.Shutdown(socks[0], unix.SHUT_RDWR)
	e.Close()
	done.Wait()
	_, _ = unix.Close(socks[0]), unix.Close(socks[1])
}
