package drivertest

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"time"

	"github.com/silk-sandbox/silk/driver"
)

// Addresses of a sandbox on its link.
var linkAddrs = []netip.Addr{netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("2001:2::2")}

// linked is a sandbox with a link, whose other end is ours. A driver that has no links is not asked.
func (b *bench) linked() (s *started, ours *os.File) {
	b.Helper()
	ours, theirs, err := linkPair()
	if errors.Is(err, errors.ErrUnsupported) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ours.Close() })
	spec := b.spec()
	spec.Network, spec.Link = driver.NetworkLink, driver.Link{File: theirs, Addrs: linkAddrs, MTU: 60 << 10}
	s, err = b.tryStart(b.Context(), spec, false)
	theirs.Close()
	if unheld, ok := errors.AsType[*driver.Unheld](err); ok {
		b.Skip(unheld)
	}
	if err != nil {
		b.Fatalf("start: %v", err)
	}
	return s, ours
}

// datagram is a packet with a datagram.
type datagram struct {
	from, to netip.AddrPort
	text     string
}

const udp = 17 // IANA, Assigned Internet Protocol Numbers

// read reads a packet; ok is false if it is something else.
func (d *datagram) read(p []byte) (ok bool) {
	var from, to netip.Addr
	switch {
	case len(p) >= 28 && p[0] == 0x45 && p[9] == udp: // RFC 791
		from, to, p = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20])), p[20:]
	case len(p) >= 48 && p[0]>>4 == 6 && p[6] == udp: // RFC 8200
		from, to, p = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40])), p[40:]
	default:
		return false
	}
	d.from, d.to = netip.AddrPortFrom(from, binary.BigEndian.Uint16(p)), netip.AddrPortFrom(to, binary.BigEndian.Uint16(p[2:]))
	d.text = string(p[8:]) // RFC 768
	return true
}

// packet is the packet. On a link nobody sums what is in it.
func (d datagram) packet() []byte {
	be := binary.BigEndian
	var p []byte
	n := uint16(8 + len(d.text))
	if d.from.Addr().Is4() {
		p = be.AppendUint16([]byte{0x45, 0}, 20+n)
		p = append(p, 0, 0, 0x40, 0, 64, udp, 0, 0)
		p = append(append(p, d.from.Addr().AsSlice()...), d.to.Addr().AsSlice()...)
		var sum uint32 // but for the header of IPv4, which has its own
		for i := 0; i < 20; i += 2 {
			sum += uint32(be.Uint16(p[i:]))
		}
		sum = sum>>16 + sum&0xffff
		be.PutUint16(p[10:], ^uint16(sum>>16+sum&0xffff))
	} else {
		p = be.AppendUint16([]byte{0x60, 0, 0, 0}, n)
		p = append(p, udp, 64)
		p = append(append(p, d.from.Addr().AsSlice()...), d.to.Addr().AsSlice()...)
	}
	p = be.AppendUint16(be.AppendUint16(p, d.from.Port()), d.to.Port())
	p = be.AppendUint16(be.AppendUint16(p, n), 0)
	return append(p, d.text...)
}

// linkCases are about a sandbox with a link.
var linkCases = []testCase{
	// sends "hello" to port 9 of 192.0.2.1 and of 2001:db8::1 and prints the line that comes back
	{"packets over a link", func(b *bench) {
		s, ours := b.linked()
		heard := make(chan datagram, 2)
		go func() {
			p := make([]byte, 64<<10)
			for range 2 {
				var d datagram
				for ok := false; !ok; {
					n, err := ours.Read(p)
					if err != nil {
						return
					}
					ok = d.read(p[:n])
				}
				heard <- d
				d.from, d.to, d.text = d.to, d.from, "heard by "+d.to.Addr().String()+"\n"
				if _, err := ours.Write(d.packet()); err != nil {
					b.Error(err)
				}
			}
		}()
		b.checkExit(s.wait(), 0, s.stderr.String())
		if got, want := s.stdout.String(), "heard by 192.0.2.1\nheard by 2001:db8::1\n"; got != want {
			b.Errorf("stdout %q, want %q", got, want)
		}
		for i, to := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
			select {
			case d := <-heard:
				if d.from.Addr() != linkAddrs[i] || d.to.String() != to || d.text != "hello\n" {
					b.Errorf("the link carries %+v, want hello from %s to %s", d, linkAddrs[i], to)
				}
			default:
				b.Errorf("nothing was heard for %s", to)
			}
		}
	}},
	// prints "up\n", sends to 192.0.2.1 until that is an error, prints "no network\n" and exits with 0
	{"a link whose other end is gone", func(b *bench) {
		s, ours := b.linked()
		s.stdout.await(b, "up\n")
		if err := ours.Close(); err != nil {
			b.Error(err)
		}
		b.checkExit(s.wait(), 0, s.stderr.String())
		if got := s.stdout.String(); got != "up\nno network\n" {
			b.Errorf("stdout %q", got)
		}
	}},
	// prints "up\n", then waits
	{"the other end of a link hears of the end", func(b *bench) {
		s, ours := b.linked()
		s.stdout.await(b, "up\n")
		s.sandbox.Kill(driver.KillNow)
		s.wait()
		gone := make(chan error)
		go func() {
			p := make([]byte, 64<<10)
			for {
				if _, err := ours.Read(p); err != nil {
					gone <- err
					return
				}
			}
		}()
		select {
		case <-gone:
		case <-time.After(Guard):
			b.Error("somebody still has the sandbox's end of the link")
		}
	}},
}
