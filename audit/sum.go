package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
)

// maxExact is the largest integer up to which every one is exact as float64, which is what JSON's numbers are (RFC 8785,
// appendix D).
const maxExact = 1 << 53

// sum is the hash of e: SHA-256 over the canonical JSON (RFC 8785) of everything but the hash itself, with data as the
// text that is stored. It is written by hand, in the order of the names, because reading a trail is mostly this: through
// encoding/json and a general canonicaliser it takes five times as long.
func (e Event) sum() (string, error) {
	for _, n := range []int64{e.CreatedAt, e.Seq, e.Timestamp} {
		if n > maxExact || n < -maxExact {
			return "", fmt.Errorf("hash audit event %d: %d is not exact in JSON", e.Seq, n)
		}
	}
	b := make([]byte, 0, len(e.Data)+len(e.Data)/4+512)
	b = strconv.AppendInt(append(b, `{"created_at":`...), e.CreatedAt, 10)
	b = appendText(append(b, `,"data":`...), string(e.Data))
	b = appendText(append(b, `,"event":`...), string(e.Name))
	b = appendText(append(b, `,"id":`...), e.ID)
	b = appendText(append(b, `,"intent_id":`...), e.Run)
	b = appendText(append(b, `,"prev_hash":`...), e.PrevHash)
	b = strconv.AppendInt(append(b, `,"seq":`...), e.Seq, 10)
	b = strconv.AppendInt(append(b, `,"timestamp":`...), e.Timestamp, 10)
	sum := sha256.Sum256(append(b, '}'))
	return hex.EncodeToString(sum[:]), nil
}

// appendText appends s as RFC 8785, section 3.2.2.2, has a string; what is not UTF-8 in it becomes U+FFFD.
func appendText(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r >= ' ':
			b = append(b, string(r)...)
		case r == '\b':
			b = append(b, '\\', 'b')
		case r == '\f':
			b = append(b, '\\', 'f')
		case r == '\n':
			b = append(b, '\\', 'n')
		case r == '\r':
			b = append(b, '\\', 'r')
		case r == '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		}
	}
	return append(b, '"')
}
