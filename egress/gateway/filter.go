package gateway

import "encoding/binary"

// Numbers of protocols (IANA, Assigned Internet Protocol Numbers).
const (
	protocolTCP = 6
	protocolUDP = 17
)

// passes says whether a packet of a sandbox comes to the stack at all: TCP and UDP, in one piece, without options and extension
// headers, of which only filters that read them differently would have something. ICMP is dropped: the stack would answer a ping in the
// name of any host.
func passes(packet []byte) bool {
	if len(packet) == 0 {
		return false
	}
	switch packet[0] >> 4 {
	case 4: // RFC 791 section 3.1
		if len(packet) < 20 || packet[0]&0xf != 5 {
			return false
		}
		fragment := binary.BigEndian.Uint16(packet[6:]) &^ 0x4000 // but for "don't fragment"
		return fragment == 0 && transport(packet[9])
	case 6: // RFC 8200 section 3
		return len(packet) >= 40 && transport(packet[6])
	}
	return false
}

func transport(protocol byte) bool { return protocol == protocolTCP || protocol == protocolUDP }
