package skill

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/gowebpki/jcs"
	"golang.org/x/crypto/sha3"
)

// digest is what is signed: the Keccak-256 (Ethereum's, with the padding from before FIPS 202) of the canonical manifest without its
// signature. Nothing is put before it.
func (m Manifest) digest() []byte {
	m.Signature = ""
	text, err := json.Marshal(m.whole())
	if err == nil {
		text, err = jcs.Transform(text)
	}
	if err != nil {
		panic(fmt.Sprintf("encode a manifest: %v", err)) // Parse takes none whose text has no canonical form
	}
	return keccak256(text)
}

func keccak256(data []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(data)
	return h.Sum(nil)
}

// Hash names the manifest whoever has signed it: 0x and the Keccak-256 of it without its signature in hex. m comes from Parse, or has
// text that is UTF-8.
func (m Manifest) Hash() string { return "0x" + hex.EncodeToString(m.digest()) }

// Sign makes key the publisher's: it sets the address and the signature.
func (m *Manifest) Sign(key Key) {
	m.Publisher.Address = key.Address()
	compact := ecdsa.SignCompact(key.private, m.digest(), false) // v, r, s; v is 27 or 28, s the lower one
	m.Signature = "0x" + hex.EncodeToString(append(compact[1:], compact[0]))
}

// Verify says why the signature is not one of the publisher's address over this manifest, or nil.
func (m Manifest) Verify() error {
	address, err := m.signer()
	if err != nil {
		return err
	}
	if !strings.EqualFold(address, m.Publisher.Address) {
		return fmt.Errorf("is not the publisher's over this manifest: something was changed after it was made, or another key, that of %s perhaps, has made it; who has the key signs again (silk skill sign)", address)
	}
	return nil
}

// signatureBytes is r, s and v.
const signatureBytes = 65

// signer is the address that the signature is of. With any other manifest it would be another one.
func (m Manifest) signer() (string, error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(m.Signature, "0x"))
	if err != nil || len(raw) != signatureBytes {
		return "", fmt.Errorf("must be %d bytes: r, s and v", signatureBytes)
	}
	v := raw[signatureBytes-1]
	if v < 2 { // as some libraries write it
		v += 27
	}
	if v != 27 && v != 28 {
		return "", errors.New("has a v that is not 27, 28, 0 or 1")
	}
	var s secp256k1.ModNScalar
	if s.SetByteSlice(raw[32:64]); s.IsOverHalfOrder() { // else there were two for each; libraries refuse the other one (EIP-2)
		return "", errors.New("has an s in the upper half of its range")
	}
	public, _, err := ecdsa.RecoverCompact(append([]byte{v}, raw[:64]...), m.digest())
	if err != nil {
		return "", errors.New("is no signature of anybody")
	}
	return addressOf(public), nil
}

// addressOf is the last 20 bytes of the Keccak-256 of a public key (Ethereum Yellow Paper, appendix F).
func addressOf(public *secp256k1.PublicKey) string {
	hash := keccak256(public.SerializeUncompressed()[1:])
	return "0x" + hex.EncodeToString(hash[len(hash)-20:])
}
