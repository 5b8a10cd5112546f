package skill

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/silk-sandbox/silk/internal/keyfile"
	"github.com/silk-sandbox/silk/internal/secret"
)

// Key signs manifests: a private key on secp256k1. It does not print itself. The zero Key cannot sign.
type Key struct{ private *secp256k1.PrivateKey }

// NewKey makes a key of the system's random numbers.
func NewKey() (Key, error) {
	private, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	return Key{private}, nil
}

// ParseKey reads 64 hex digits, with or without 0x and white space around them. Its errors have nothing of the text.
func ParseKey(text secret.Secret) (Key, error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(text.Reveal()), "0x"))
	if err != nil || len(raw) != secp256k1.PrivKeyBytesLen {
		return Key{}, errors.New("a key is 64 hex digits, perhaps after 0x")
	}
	var scalar secp256k1.ModNScalar
	if overflow := scalar.SetByteSlice(raw); overflow || scalar.IsZero() {
		return Key{}, errors.New("the number is no key: it is zero, or not below the order of secp256k1")
	}
	return Key{secp256k1.NewPrivateKey(&scalar)}, nil
}

// Address is what others know the key by: 0x and 40 lower-case hex digits.
func (k Key) Address() string { return addressOf(k.private.PubKey()) }

// KeyAmong names the file of a skill that holds the key of an address, and says whether there is one.
func KeyAmong(contents []Content, address string) (name string, ok bool) {
	for _, c := range contents {
		if len(c.Bytes) > 1<<10 { // no key's file, and not to be copied
			continue
		}
		if key, err := ParseKey(secret.New(string(c.Bytes))); err == nil && strings.EqualFold(key.Address(), address) {
			return c.Path, true
		}
	}
	return "", false
}

// String returns [secret.Shown].
func (Key) String() string { return secret.Shown }

// Format prints [secret.Shown], whatever the verb.
func (Key) Format(f fmt.State, _ rune) { io.WriteString(f, secret.Shown) }

// ReadKey reads a key from a file that nobody but its owner can read.
func ReadKey(path string) (Key, error) {
	text, err := keyfile.Read(path)
	if err != nil {
		return Key{}, err
	}
	key, err := ParseKey(text)
	if err != nil {
		return Key{}, fmt.Errorf("read key from %s: %w", path, err)
	}
	return key, nil
}

// WriteKey writes a key into a new file that only its owner can read. It replaces none: what a lost key has published cannot be
// changed any more.
func WriteKey(path string, key Key) error {
	return keyfile.Write(path, "0x"+hex.EncodeToString(key.private.Serialize())+"\n")
}
