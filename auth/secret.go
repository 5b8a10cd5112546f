package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/silk-sandbox/silk/internal/secret"
)

// SecretPattern is a regular expression (RE2) that matches the secrets of tokens, for programs that look for secrets where
// none belong. A match is one only if [CheckSecret] finds its checksum right.
const SecretPattern = `\bsilk_[0-9a-hjkmnp-tv-z]{58}\b`

const (
	secretPrefix = "silk_"
	secretRandom = 32 // bytes
	secretLetter = 58 // of 32 random bytes and 4 of checksum: 288 bits, 5 in a letter
)

// letters is the alphabet of Crockford's base32 in lower case: no i, l, o and u, which are taken for others or make words.
const letters = "0123456789abcdefghjkmnpqrstvwxyz"

var readable = base32.NewEncoding(letters).WithPadding(base32.NoPadding)

// ErrMistyped is returned by [CheckSecret].
var ErrMistyped = errors.New("mistyped token")

// newSecret makes the secret of a token: "silk_" and 58 letters, which are 256 random bits and their CRC-32.
func newSecret() secret.Secret {
	data := make([]byte, secretRandom, secretRandom+crc32.Size)
	rand.Read(data) // never fails: https://pkg.go.dev/crypto/rand#Read
	return secret.New(secretPrefix + readable.EncodeToString(binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(data))))
}

// CheckSecret says whether s can be the secret of a token at all, without asking anybody. Its error is [ErrMistyped] with
// the reason, and does not contain s. It is for the one who types: a server answers [ErrUnauthorized].
func CheckSecret(s secret.Secret) error {
	text, ok := strings.CutPrefix(s.Reveal(), secretPrefix)
	switch {
	case !ok:
		return fmt.Errorf("%w: it does not begin with %s", ErrMistyped, secretPrefix)
	case len(text) != secretLetter:
		return fmt.Errorf("%w: it has %d characters after %s, not %d", ErrMistyped, len(text), secretPrefix, secretLetter)
	}
	for _, r := range text {
		if !strings.ContainsRune(letters, r) {
			return fmt.Errorf("%w: %s is followed by small letters without i, l, o and u, and digits only", ErrMistyped, secretPrefix)
		}
	}
	data, err := readable.DecodeString(text)
	// The letters have two bits more than the bytes; whatever is in them would decode alike.
	if err != nil || readable.EncodeToString(data) != text ||
		crc32.ChecksumIEEE(data[:secretRandom]) != binary.BigEndian.Uint32(data[secretRandom:]) {
		return fmt.Errorf("%w: its checksum is wrong, so a character was changed or two were swapped", ErrMistyped)
	}
	return nil
}

// hashOf is what is kept of a secret.
func hashOf(s secret.Secret) string {
	sum := sha256.Sum256([]byte(s.Reveal()))
	return hex.EncodeToString(sum[:])
}
