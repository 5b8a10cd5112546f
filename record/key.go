package record

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/silk-sandbox/silk/internal/secret"
)

// Key signs records: a private key of Ed25519 (RFC 8032). It does not print itself. The zero Key cannot sign.
type Key struct{ private ed25519.PrivateKey }

// NewKey makes a key of the system's random numbers.
func NewKey() (Key, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	return Key{private}, nil
}

// The types of PEM blocks: PKCS #8 and SubjectPublicKeyInfo (RFC 7468), as OpenSSL reads and writes them.
const (
	pemPrivate = "PRIVATE KEY"
	pemPublic  = "PUBLIC KEY"
)

// ParseKey reads a key in PEM. Its errors have nothing of the text.
func ParseKey(text secret.Secret) (Key, error) {
	block, _ := pem.Decode([]byte(text.Reveal()))
	if block == nil || block.Type != pemPrivate {
		return Key{}, errors.New("there is no PEM block of a private key (-----BEGIN PRIVATE KEY-----)")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return Key{}, errors.New("the private key is none of Ed25519 in PKCS #8")
	}
	return Key{private}, nil
}

// text is what ParseKey reads.
func (k Key) text() (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return "", fmt.Errorf("encode a key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: pemPrivate, Bytes: der})), nil
}

// Public is what others check signatures with.
func (k Key) Public() PublicKey { return PublicKey{k.private.Public().(ed25519.PublicKey)} }

// String returns [secret.Shown].
func (Key) String() string { return secret.Shown }

// Format prints [secret.Shown], whatever the verb.
func (Key) Format(f fmt.State, _ rune) { io.WriteString(f, secret.Shown) }

// PublicKey checks the signatures of one [Key].
type PublicKey struct{ key ed25519.PublicKey }

// der is the key as SubjectPublicKeyInfo.
func (p PublicKey) der() []byte {
	der, err := x509.MarshalPKIXPublicKey(p.key)
	if err != nil {
		panic(fmt.Sprintf("encode a public key: %v", err)) // every key of Ed25519 has this form
	}
	return der
}

// ID names the key: the SHA-256 of its SubjectPublicKeyInfo in lower-case hex.
func (p PublicKey) ID() string {
	sum := sha256.Sum256(p.der())
	return hex.EncodeToString(sum[:])
}

// PEM is the key as a file of OpenSSL's has it.
func (p PublicKey) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: p.der()}))
}

// maxPublic bounds a file of public keys.
const maxPublic = 1 << 20

// ReadPublicKeys reads the public keys of a file, one PEM block each; there is one at least. Other text between blocks is
// skipped, other blocks and keys of other kinds are errors.
func ReadPublicKeys(path string) ([]PublicKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read public key: %w", err)
	}
	defer f.Close() // it was only read
	rest, err := io.ReadAll(io.LimitReader(f, maxPublic))
	if err != nil {
		return nil, fmt.Errorf("read public key: %w", err)
	}
	var keys []PublicKey
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != pemPublic {
			return nil, fmt.Errorf("read public key: %s has a block %q, and %q is what is wanted", path, block.Type, pemPublic)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		key, ok := parsed.(ed25519.PublicKey)
		if err != nil || !ok {
			return nil, fmt.Errorf("read public key: what %s has is none of Ed25519: it was changed, or is for something else", path)
		}
		keys = append(keys, PublicKey{key})
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("read public key: %s has no PEM block of a public key (-----BEGIN PUBLIC KEY-----): it was changed, or is for something else", path)
	}
	return keys, nil
}
