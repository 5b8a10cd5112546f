package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Digest is the SHA-256 of an image's bytes. The zero value is no digest. Digests are comparable with ==.
type Digest struct{ hex string }

const digestPrefix = "sha256:"

// ParseDigest reads "sha256:" followed by 64 lower-case hexadecimal digits.
func ParseDigest(s string) (Digest, error) {
	hexed, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(hexed) != 2*sha256.Size || !isHex(hexed) {
		return Digest{}, fmt.Errorf("parse digest %q: want sha256: and 64 lower-case hexadecimal digits", s)
	}
	return Digest{hexed}, nil
}

func digestOf(sum []byte) Digest { return Digest{hex.EncodeToString(sum)} }

func sumOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return digestOf(sum[:])
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}

// String is the form that [ParseDigest] reads; empty for the zero value.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return digestPrefix + d.hex
}

// Hex is the 64 digits alone.
func (d Digest) Hex() string { return d.hex }

// Short is the first 12 digits, enough for people and for [Store.Resolve].
func (d Digest) Short() string { return d.hex[:min(12, len(d.hex))] }

// IsZero reports whether d is no digest.
func (d Digest) IsZero() bool { return d.hex == "" }

// MarshalText implements [encoding.TextMarshaler]; the zero value is the empty text.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. Empty text is the zero value.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Digest{}
		return nil
	}
	parsed, err := ParseDigest(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
