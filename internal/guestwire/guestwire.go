// Package guestwire is how silk and the agent in a virtual machine speak: frames on one byte stream, in which several streams of bytes
// and a few short messages travel. It knows neither plans nor programs; package wire of the driver has what is said.
//
// A frame is a kind (one byte), a length (four, big-endian) and so many bytes, [MaxPayload] at most. A stream goes one way. Who sends on it
// may have [Window] bytes under way that the other side has not read: so a reader who is slow stops its own stream and nobody
// else's, and what a peer can make this side keep is bounded by the number of streams. A peer that does not keep to it, or says
// what is not its to say, is an enemy: [Conn.Run] ends with an error.
//
// Nothing is lost at the end: a stream has an end of its own, and the agent switches the machine off only after the host's last
// word.
package guestwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Version is that of what is agreed here and in what is said; the agent names it first.
const Version = 2

// Port is where the host listens, and the agent calls (vsock(7)).
const Port = 1024

// Sizes in bytes.
const (
	MaxPayload = 64 << 10  // of one frame
	Window     = 256 << 10 // of a stream, under way
	headBytes  = 5
)

// Kind is what a frame is.
type Kind byte

// Kinds of frames. Data and Credit are about streams, the others are messages.
const (
	data   Kind = 1 // the number of a stream, and its next bytes; none: its end
	credit Kind = 2 // the number of a stream, and how many bytes more may come (four bytes)

	Hello   Kind = 3  // guest: the first frame
	Started Kind = 4  // guest: the program runs
	Note    Kind = 5  // guest: an event
	Failed  Kind = 6  // guest: the agent cannot go on; a sentence
	Stop    Kind = 7  // host: end the program
	Resize  Kind = 8  // host: the terminal's new size
	Signal  Kind = 9  // host: one byte, a signal for the program
	Bye     Kind = 10 // host: everything has arrived, switch off
)

// Side is one of the two that speak.
type Side int

// Sides.
const (
	Host Side = iota
	Guest
)

// Stream is the number of a stream.
type Stream byte

// Streams.
const (
	Plan     Stream = iota // host: what the agent is to do
	Fill                   // host: the workspace, a tar stream
	Stdin                  // host
	Inbound                // host: IP packets for the program, each after its length (two bytes, big-endian)
	Stdout                 // guest
	Stderr                 // guest
	Drain                  // guest: the workspace, a tar stream
	Report                 // guest: how it ended
	Outbound               // guest: IP packets of the program's, as Inbound
	streams
)

// sender is who sends on a stream.
func (s Stream) sender() Side {
	if s <= Inbound {
		return Host
	}
	return Guest
}

// mayBe says whether a side may send a message.
func (k Kind) mayBe(from Side) bool {
	switch k {
	case Hello, Started, Note, Failed:
		return from == Guest
	case Stop, Resize, Signal, Bye:
		return from == Host
	}
	return false
}

// ErrProtocol is in the error of [Conn.Run] when the peer does not keep to what is agreed.
var ErrProtocol = errors.New("the peer does not keep to the protocol")

func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// readFrame reads one frame into buf, which has room for MaxPayload. io.EOF: there is none.
func readFrame(r io.Reader, buf []byte) (Kind, []byte, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxPayload {
		return 0, nil, protocolError("a frame of %d bytes", n)
	}
	if _, err := io.ReadFull(r, buf[:n]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return Kind(head[0]), buf[:n], nil
}

// appendFrame is the frame of a kind; its parts are one after the other.
func appendFrame(to []byte, kind Kind, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	to = binary.BigEndian.AppendUint32(append(to, byte(kind)), uint32(n))
	for _, p := range parts {
		to = append(to, p...)
	}
	return to
}
