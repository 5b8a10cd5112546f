package record

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// MaxEnvelope bounds an envelope, in bytes: a record with 10,000 artifacts has some 4 MiB.
const MaxEnvelope = 64 << 20

// Errors of [Verify]. What was wrong is in the text.
var (
	ErrEnvelope   = errors.New("this is no envelope of a run's record")
	ErrUnknownKey = errors.New("it was signed by a key that is not among those given")
	ErrChanged    = errors.New("it was changed after it was signed")
)

// Verified is a record whose signature is good.
type Verified struct {
	Record Record
	Text   json.RawMessage // all of it: a later version may know more than Record
	SHA256 string          // of its canonical JSON, as the audit trail has it
	Key    PublicKey       // whose signature it is
}

// Verify checks the envelope of a record with nothing but public keys, one of which must have signed it. Errors: [ErrEnvelope],
// [ErrUnknownKey], [ErrChanged].
func Verify(text []byte, keys []PublicKey) (Verified, error) {
	var e dsse.Envelope
	if err := strictly(text, &e); err != nil {
		return Verified{}, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	payload, err := base64.StdEncoding.Strict().DecodeString(e.Payload)
	switch {
	case err != nil:
		return Verified{}, fmt.Errorf("%w: payload: %w", ErrEnvelope, err)
	case e.PayloadType != payloadType:
		return Verified{}, fmt.Errorf("%w: its payloadType is %q, not %q", ErrEnvelope, e.PayloadType, payloadType)
	case len(e.Signatures) == 0:
		return Verified{}, fmt.Errorf("%w: it has no signature", ErrEnvelope)
	}
	key, err := signer(e, payload, keys)
	if err != nil {
		if errors.Is(err, ErrChanged) {
			err = fmt.Errorf("%w: %s", err, changed(payload))
		}
		return Verified{}, err
	}
	return decode(payload, key)
}

// signer is the key among those given whose signature is good.
func signer(e dsse.Envelope, payload []byte, keys []PublicKey) (PublicKey, error) {
	pae := dsse.PAE(payloadType, payload)
	known := false
	var by []string
	for _, s := range e.Signatures {
		raw, err := base64.StdEncoding.Strict().DecodeString(s.Sig)
		for _, key := range keys {
			if err == nil && ed25519.Verify(key.key, pae, raw) {
				return key, nil
			}
			known = known || key.ID() == s.KeyID
		}
		by = append(by, s.KeyID)
	}
	if known {
		return PublicKey{}, ErrChanged
	}
	var given []string
	for _, key := range keys {
		given = append(given, key.ID())
	}
	return PublicKey{}, fmt.Errorf("%w, or the public key was changed: it says that it is signed by %s, given are %s", ErrUnknownKey, strings.Join(by, ", "), strings.Join(given, ", "))
}

// claim is a statement as it stands.
type claim struct {
	Type          string          `json:"_type"`
	Predicate     json.RawMessage `json:"predicate"`
	PredicateType string          `json:"predicateType"`
	Subject       []subject       `json:"subject"`
}

// changed says where a statement whose signature is bad contradicts itself.
func changed(payload []byte) string {
	var c claim
	if err := strictly(payload, &c); err != nil {
		return "the statement is broken: " + err.Error()
	}
	if len(c.Subject) > 0 && hashOf(string(c.Predicate)) != c.Subject[0].Digest.SHA256 {
		return "the record is not the one that was signed: its SHA-256 is not that of the statement's first subject" + contradicted(c)
	}
	return "the record has the hash that the statement names, so that it is the statement around it, or the signature, that is another"
}

// contradicted names the subjects of which a record says something else than the statement around it.
func contradicted(c claim) string {
	var r Record
	if json.Unmarshal(c.Predicate, &r) != nil {
		return ""
	}
	said := map[subject]bool{}
	for _, s := range c.Subject {
		said[s] = true
	}
	var names []string
	for _, s := range subjectsOf(r, c.Subject[0].Digest.SHA256) {
		if !said[s] && len(names) < 5 {
			names = append(names, s.Name)
		}
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf("; another hash, or name, has %q", names)
}

// decode reads a statement whose signature is good.
func decode(payload []byte, key PublicKey) (Verified, error) {
	var c claim
	if err := strictly(payload, &c); err != nil {
		return Verified{}, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	if c.Type != statementType || c.PredicateType != PredicateType {
		return Verified{}, fmt.Errorf("%w: it is a statement %q about %q, not %q about %q", ErrEnvelope, c.Type, c.PredicateType, statementType, PredicateType)
	}
	v := Verified{Text: c.Predicate, SHA256: hashOf(string(c.Predicate)), Key: key}
	if err := json.Unmarshal(c.Predicate, &v.Record); err != nil {
		return Verified{}, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	if len(c.Subject) == 0 || c.Subject[0].Digest.SHA256 != v.SHA256 {
		return Verified{}, fmt.Errorf("%w: its first subject is not the record in it", ErrEnvelope)
	}
	return v, nil
}

// strictly decodes one JSON object that has no field besides those of into.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the object")
	}
	return nil
}
