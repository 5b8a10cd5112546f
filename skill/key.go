package skill

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

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

// String returns [secret.Shown].
func (Key) String() string { return secret.Shown }

// Format prints [secret.Shown], whatever the verb.
func (Key) Format(f fmt.State, _ rune) { io.WriteString(f, secret.Shown) }

// maxKeyFile bounds what is read of a file that is said to have a key.
const maxKeyFile = 1 << 10

// ReadKey reads a key from a file that nobody but its owner can read.
func ReadKey(path string) (_ Key, err error) {
	f, err := os.Open(path)
	if err != nil {
		return Key{}, fmt.Errorf("read key: %w", err)
	}
	defer f.Close() // it was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return Key{}, fmt.Errorf("read key: %w", err)
	case !info.Mode().IsRegular():
		return Key{}, fmt.Errorf("read key: %s is no regular file", path)
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows": // where permissions are not these
		return Key{}, fmt.Errorf("read key: others may read or write %s: chmod 600 %[1]s, and if anybody might have read it, make another key", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return Key{}, fmt.Errorf("read key: %w", err)
	}
	key, err := ParseKey(secret.New(string(text)))
	if err != nil {
		return Key{}, fmt.Errorf("read key from %s: %w", path, err)
	}
	return key, nil
}

// WriteKey writes a key into a new file that only its owner can read. It replaces none: what a lost key has published cannot be
// changed any more.
func WriteKey(path string, key Key) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write key: there is a file %s already, and keys are not overwritten: %w", path, err)
	}
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	_, err = fmt.Fprintf(f, "0x%s\n", hex.EncodeToString(key.private.Serialize()))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write key %s: %w", path, errors.Join(err, os.Remove(path)))
	}
	return nil
}
