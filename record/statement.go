package record

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/gowebpki/jcs"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// What is signed: a statement of in-toto (in-toto attestation framework, v1) in an envelope of DSSE (v1).
const (
	statementType = "https://in-toto.io/Statement/v1"
	payloadType   = "application/vnd.in-toto+json"
	// PredicateType says that the statement's predicate is a [Record], complete, of version 1.
	PredicateType = "urn:silk:run-record:v1"
)

// subject is what a statement speaks of: the record first, by the hash of its canonical JSON, then what came out of the run.
type subject struct {
	Name   string `json:"name"`
	Digest digest `json:"digest"`
}

type digest struct {
	SHA256 string `json:"sha256"`
}

// subjectsOf are the subjects of the statement about r. Artifacts have their path below artifacts/, in base64 if it is no text.
func subjectsOf(r Record, sum string) []subject {
	list := []subject{{"record/" + r.Run, digest{sum}}}
	add := func(name, sum string) {
		if sum != "" {
			list = append(list, subject{name, digest{sum}})
		}
	}
	add("stdout", r.Stdout.SHA256)
	add("stderr", r.Stderr.SHA256)
	for _, a := range r.Artifacts {
		name := "artifacts/" + a.Path
		if a.PathB64 != "" {
			name = "artifacts;base64/" + a.PathB64
		}
		add(name, a.SHA256)
	}
	return list
}

// statement is the text that is signed of a record: canonical JSON (RFC 8785), in which the record's own text stands as it is stored.
func statement(canonical string) ([]byte, error) {
	var r Record
	if err := json.Unmarshal([]byte(canonical), &r); err != nil { // what is signed follows from what is stored, whoever asks later
		return nil, fmt.Errorf("decode a record: %w", err)
	}
	subjects, err := json.Marshal(subjectsOf(r, hashOf(canonical)))
	if err == nil {
		subjects, err = jcs.Transform(subjects)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the statement about run %s: %w", r.Run, err)
	}
	return fmt.Appendf(nil, `{"_type":%q,"predicate":%s,"predicateType":%q,"subject":%s}`, statementType, canonical, PredicateType, subjects), nil // sorted
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Sign signs a statement.
func (k *Keyring) Sign(statement []byte) (keyID, signature string, err error) {
	return k.Public().ID(), base64.StdEncoding.EncodeToString(ed25519.Sign(k.key.private, dsse.PAE(payloadType, statement))), nil
}

// Signer signs statements about records: a [Keyring], or an [External].
type Signer interface {
	// Sign returns the id of the key, and its signature, in base64, of the statement as the payload of a DSSE envelope. On an error the
	// record is not written.
	Sign(statement []byte) (keyID, signature string, err error)
}

// envelope is the signed statement, for others.
func envelope(canonical string, s dsse.Signature) ([]byte, error) {
	payload, err := statement(canonical)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(dsse.Envelope{PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(payload), Signatures: []dsse.Signature{s}})
	if err != nil {
		return nil, fmt.Errorf("encode an envelope: %w", err)
	}
	return text, nil
}
