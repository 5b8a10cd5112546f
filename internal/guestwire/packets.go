package guestwire

import (
	"encoding/binary"
	"io"
)

// Packets travel on a stream each after its length, two bytes. MaxPacket is the size of the largest, as of any IP packet.
const (
	MaxPacket  = 1<<16 - 1
	packetHead = 2
)

// PacketBuffer has room for one, and for what is before it.
type PacketBuffer [packetHead + MaxPacket]byte

// SendPacket takes one message of from, a socket that keeps them apart, to a stream.
func (b *PacketBuffer) SendPacket(to io.Writer, from io.Reader) error {
	n, err := from.Read(b[packetHead:])
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint16(b[:], uint16(n))
	_, err = to.Write(b[:packetHead+n])
	return err
}

// ReceivePacket takes the next one from a stream, which must have a byte at least and most at most: else the error is [ErrProtocol]. It is valid until
// the buffer is used again.
func (b *PacketBuffer) ReceivePacket(from io.Reader, most int) ([]byte, error) {
	if _, err := io.ReadFull(from, b[:packetHead]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(b[:]))
	if n == 0 || n > most {
		return nil, protocolError("a packet of %d bytes", n)
	}
	_, err := io.ReadFull(from, b[packetHead:packetHead+n])
	return b[packetHead : packetHead+n], err
}
