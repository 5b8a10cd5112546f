package main

import (
	"encoding/binary"
	"strings"
)

// clientHello is a ClientHello of TLS 1.3 (RFC 8446 section 4.1.2), in pieces that are sent one by one. Its words are
//
//	sni=NAME       a server's name; again: a second extension
//	names=A,B      one extension with several names
//	type=N         of the names, in place of 0
//	ech            an Encrypted ClientHello, which has the true name
//	list           an extension of that kind without a name
//	bare           no extensions at all
//	records=N      records of N bytes
//	pieces=N       pieces of N bytes
//	trailing       bytes after the extensions
func clientHello(words []string) [][]byte {
	var extensions []byte
	var kind byte
	records, pieces, bare, trailing := 1<<14, 1<<16, false, false
	extension := func(number uint16, data []byte) {
		extensions = append(binary.BigEndian.AppendUint16(extensions, number), sized(2, data)...)
	}
	extension(43, []byte{2, 3, 4}) // supported_versions: 1.3
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "sni", "names":
			var list []byte
			for name := range strings.SplitSeq(value, ",") {
				list = append(append(list, kind), sized(2, []byte(strings.ReplaceAll(name, "\\0", "\x00")))...)
			}
			extension(0, sized(2, list))
		case "type":
			kind = byte(number(value))
		case "ech":
			extension(0xfe0d, make([]byte, 64))
		case "list":
			extension(0, sized(2, nil))
		case "bare":
			bare = true
		case "trailing":
			trailing = true
		case "records":
			records = number(value)
		case "pieces":
			pieces = number(value)
		default:
			setup("no such word of a ClientHello:", word)
		}
	}
	body := append([]byte{3, 3}, make([]byte, 32)...) // version, random
	body = append(body, 0, 0, 2, 0x13, 0x01, 1, 0)    // no session, TLS_AES_128_GCM_SHA256, no compression
	if !bare {
		body = append(body, sized(2, extensions)...)
	}
	if trailing {
		body = append(body, "trailing"...)
	}
	message := append([]byte{1}, sized(3, body)...)
	var stream []byte
	for len(message) > 0 {
		n := min(records, len(message))
		stream = append(append(stream, 22, 3, 1), sized(2, message[:n])...)
		message = message[n:]
	}
	var parts [][]byte
	for len(stream) > 0 {
		n := min(pieces, len(stream))
		parts, stream = append(parts, stream[:n]), stream[n:]
	}
	return parts
}

// sized is data after its size in so many bytes.
func sized(bytes int, data []byte) []byte {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(data)))
	return append(size[8-bytes:], data...)
}
