package egress

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/cryptobyte"
)

// MaxSniff bounds what a client may say before it is known what it speaks: a ClientHello with post-quantum key shares has 2 KiB.
const MaxSniff = 64 << 10

// Hello is what the first bytes of a client say.
type Hello struct {
	Protocol Protocol // TLS or HTTP
	Name     string   // TLS: the server's name, in lower case; "" for HTTP, whose requests say it one by one
}

// Errors of Sniff.
var (
	ErrMore     = errors.New("the client has not said enough")
	ErrUnknown  = errors.New("the client speaks neither TLS nor HTTP; a rule tcp:host:port lets anything through")
	ErrNoName   = errors.New("the client does not say which server it wants (TLS without SNI)")
	ErrHidden   = errors.New("the client hides which server it wants (Encrypted ClientHello)")
	ErrOldHello = errors.New("the client speaks SSL, not TLS")
)

// Sniff reads the first bytes that a client has said. [ErrMore] asks to come back with these and further ones; after [MaxSniff]
// bytes it does not. Every other error is a reason to refuse the connection.
func Sniff(said []byte) (Hello, error) {
	if len(said) == 0 {
		return Hello{}, ErrMore
	}
	h, err := Hello{}, error(nil)
	switch {
	case said[0] == recordHandshake:
		h, err = sniffTLS(said)
	case said[0]&0x80 != 0:
		return Hello{}, ErrOldHello // the length of an SSL 2.0 record
	default:
		h, err = sniffHTTP(said)
	}
	if errors.Is(err, ErrMore) && len(said) >= MaxSniff {
		return Hello{}, fmt.Errorf("%w, and %d bytes", ErrUnknown, len(said))
	}
	return h, err
}

// Numbers of RFC 8446: section 5.1 (records), 4 (handshake), 4.2 (extensions), and of RFC 9849 for the hidden one.
const (
	recordHandshake     = 22
	maxRecord           = 1 << 14
	handshakeHello      = 1
	maxHello            = MaxSniff - 1<<10
	extensionServerName = 0
	extensionECH        = 0xfe0d
	hostName            = 0 // RFC 6066 section 3
)

// sniffTLS reads a ClientHello, which may be spread over records.
func sniffTLS(said []byte) (Hello, error) {
	var message []byte
	for records := cryptobyte.String(said); ; {
		if len(message) >= 4 {
			n := int(message[1])<<16 | int(message[2])<<8 | int(message[3])
			if message[0] != handshakeHello || n > maxHello {
				return Hello{}, ErrUnknown
			}
			if len(message) >= 4+n {
				return readHello(message[4 : 4+n])
			}
		}
		var kind uint8
		var version, length uint16
		header := records
		switch {
		case len(records) < 5 && (len(records) == 0 || records[0] == recordHandshake):
			return Hello{}, ErrMore
		case !header.ReadUint8(&kind) || !header.ReadUint16(&version) || !header.ReadUint16(&length),
			kind != recordHandshake, version>>8 != 3, length == 0, length > maxRecord:
			return Hello{}, ErrUnknown
		}
		var body []byte
		if !header.ReadBytes(&body, min(int(length), len(header))) || len(body) < int(length) {
			return Hello{}, ErrMore
		}
		message, records = append(message, body...), header
	}
}

// readHello reads the name out of a ClientHello. What is not as the RFC has it is refused: a server may read it another way.
func readHello(b []byte) (Hello, error) {
	bad := fmt.Errorf("%w: its ClientHello is damaged", ErrUnknown)
	var version uint16
	var random []byte
	var session, suites, compression, extensions cryptobyte.String
	s := cryptobyte.String(b)
	if !s.ReadUint16(&version) || !s.ReadBytes(&random, 32) || !s.ReadUint8LengthPrefixed(&session) || !s.ReadUint16LengthPrefixed(&suites) ||
		!s.ReadUint8LengthPrefixed(&compression) {
		return Hello{}, bad
	}
	if s.Empty() {
		return Hello{}, ErrNoName
	}
	if !s.ReadUint16LengthPrefixed(&extensions) || !s.Empty() {
		return Hello{}, bad
	}
	h, seen := Hello{Protocol: TLS}, map[uint16]bool{}
	for !extensions.Empty() {
		var kind uint16
		var data cryptobyte.String
		if !extensions.ReadUint16(&kind) || !extensions.ReadUint16LengthPrefixed(&data) || seen[kind] {
			return Hello{}, bad
		}
		seen[kind] = true
		switch kind {
		case extensionECH:
			return Hello{}, ErrHidden
		case extensionServerName:
			var list, name cryptobyte.String
			var of uint8
			if !data.ReadUint16LengthPrefixed(&list) || !data.Empty() || !list.ReadUint8(&of) || !list.ReadUint16LengthPrefixed(&name) || !list.Empty() || of != hostName {
				return Hello{}, bad
			}
			h.Name = strings.ToLower(string(name))
			if !validName(h.Name) {
				return Hello{}, fmt.Errorf("%w: %q is not a host name", ErrUnknown, h.Name)
			}
		}
	}
	if h.Name == "" {
		return Hello{}, ErrNoName
	}
	return h, nil
}

// sniffHTTP looks for a method and a target (RFC 9112 section 3). HTTP/2 without TLS begins with one too, PRI, and is refused: its
// requests cannot be told apart by who does not speak it.
func sniffHTTP(said []byte) (Hello, error) {
	const longest = 32 // of a method; the longest registered has 17
	for i, c := range said {
		switch {
		case c == ' ' && i > 0:
			if string(said[:i]) == "PRI" {
				return Hello{}, fmt.Errorf("%w: HTTP/2 without TLS", ErrUnknown)
			}
			return Hello{Protocol: HTTP}, nil
		case i >= longest, (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_':
			return Hello{}, ErrUnknown
		}
	}
	return Hello{}, ErrMore
}
