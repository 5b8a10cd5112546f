package record

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

func keyring(t *testing.T, dir string) *Keyring {
	t.Helper()
	k, err := OpenKeyring(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// signedRun is the envelope of a run with output and artifacts, in a database.
func signedRun(t *testing.T, k *Keyring) ([]byte, Sealed) {
	t.Helper()
	db, err := storetest.Open(t.Context(), filepath.Join(t.TempDir(), store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r := run("01AAAA0001", 1, "ok", "p")
	r.Command = "quotes \" and <html> & \u2028"
	r.Stdout.SHA256 = hashOf("out")
	r.Artifacts = []Artifact{{Path: "a.txt", Type: "file", SHA256: hashOf("a")}, {PathB64: base64.StdEncoding.EncodeToString([]byte("\xff")), Type: "file", SHA256: hashOf("b")}}
	sealed, err := Seal(Entry{Record: r}, k)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(t.Context(), func(tx *sql.Tx) error { return Finish(t.Context(), tx, sealed) }); err != nil {
		t.Fatal(err)
	}
	text, err := Envelope(t.Context(), db, "01AAAA0001")
	if err != nil {
		t.Fatal(err)
	}
	return text, sealed
}

func TestVerify(t *testing.T) {
	k, other := keyring(t, t.TempDir()), keyring(t, t.TempDir())
	text, sealed := signedRun(t, k)
	v, err := Verify(text, []PublicKey{other.Public(), k.Public()})
	if err != nil || v.Record.Run != "01AAAA0001" || v.SHA256 != sealed.SHA256 || v.Key.ID() != k.Public().ID() || sealed.KeyID != k.Public().ID() {
		t.Errorf("Verify() = %+v, %v; sealed as %s by %s", v, err, sealed.SHA256, sealed.KeyID)
	}
	if _, err := Verify(text, []PublicKey{other.Public()}); !errors.Is(err, ErrUnknownKey) || !strings.Contains(err.Error(), k.Public().ID()) {
		t.Errorf("with another's key: %v", err)
	}
	_, payload := opened(t, text)
	if len(subjects(t, payload)) != 4 {
		t.Errorf("the statement is about %v, want record, stdout and two artifacts", subjects(t, payload))
	}
}

// opened is an envelope and what is in it.
func opened(t *testing.T, text []byte) (e dsse.Envelope, payload []byte) {
	t.Helper()
	err := json.Unmarshal(text, &e)
	if err == nil {
		payload, err = e.DecodeB64Payload()
	}
	if err != nil {
		t.Fatal(err)
	}
	return e, payload
}

func subjects(t *testing.T, payload []byte) (names []string) {
	t.Helper()
	var c claim
	if err := json.Unmarshal(payload, &c); err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Subject {
		names = append(names, s.Name)
	}
	return names
}

// TestVerifyNoticesEachByte changes an envelope in one place after the other: never is it good, but for the id of a key, which is a hint.
func TestVerifyNoticesEachByte(t *testing.T) {
	k := keyring(t, t.TempDir())
	text, _ := signedRun(t, k)
	hint := bytes.Index(text, []byte(k.Public().ID()))
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1
		_, err := Verify(changed, []PublicKey{k.Public()})
		if isHint := i >= hint && i < hint+len(k.Public().ID()); err == nil != isHint {
			t.Errorf("byte %d of %d, %q in place of %q: %v", i, len(text), changed[i], text[i], err)
		}
	}
}

// TestVerifySaysWhat has envelopes that were opened, changed and closed again by somebody who has no key.
func TestVerifySaysWhat(t *testing.T) {
	k := keyring(t, t.TempDir())
	text, _ := signedRun(t, k)
	e, payload := opened(t, text)
	closed := func(payload string) string {
		e := e
		e.Payload = base64.StdEncoding.EncodeToString([]byte(payload))
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, test := range map[string]struct {
		text string
		err  error
		says string
	}{
		"record":       {closed(strings.Replace(string(payload), `"kind":"ok"`, `"kind":"no"`, 1)), ErrChanged, "the record is not the one that was signed"},
		"subject":      {closed(strings.Replace(string(payload), "artifacts/a.txt", "artifacts/b.txt", 1)), ErrChanged, "the statement around it"},
		"broken":       {closed(string(payload[:len(payload)-1])), ErrChanged, "the statement is broken"},
		"no signature": {strings.Replace(string(text), `"signatures":[{`, `"signatures":[],"x":[{`, 1), ErrEnvelope, "unknown field"},
		"other type":   {strings.Replace(string(text), "in-toto", "in-tata", 1), ErrEnvelope, "payloadType"},
		"two":          {string(text) + string(text), ErrEnvelope, "after the object"},
		"nothing":      {"", ErrEnvelope, ""},
		"none":         {`{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[]}`, ErrEnvelope, "no signature"},
	} {
		if _, err := Verify([]byte(test.text), []PublicKey{k.Public()}); !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %v that says %q", name, err, test.err, test.says)
		}
	}
}

// TestVerifyStatements has signed statements that are no record's: a key may sign other things.
func TestVerifyStatements(t *testing.T) {
	k := keyring(t, t.TempDir())
	for payload, says := range map[string]string{
		`{}`: "it is a statement",
		`{"_type":"https://in-toto.io/Statement/v1","predicateType":"urn:silk:run-record:v1","predicate":{},"subject":[]}`: "first subject",
		`{"_type":"https://in-toto.io/Statement/v1","predicateType":"urn:silk:run-record:v2","predicate":{},"subject":[]}`: "it is a statement",
		`[]`: "cannot unmarshal",
	} {
		id, sig, err := k.Sign([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(dsse.Envelope{PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString([]byte(payload)), Signatures: []dsse.Signature{{KeyID: id, Sig: sig}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(text, []PublicKey{k.Public()}); !errors.Is(err, ErrEnvelope) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want one that says %q", payload, err, says)
		}
	}
}

// TestVerifyWithOpenSSL checks a signature by a program that is not ours, from the public key's file.
func TestVerifyWithOpenSSL(t *testing.T) {
	testenv.Require(t, testenv.OpenSSL)
	k := keyring(t, t.TempDir())
	text, _ := signedRun(t, k)
	e, payload := opened(t, text)
	sig, err := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"key": []byte(k.Public().PEM()), "sig": sig, "pae": dsse.PAE(e.PayloadType, payload)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key", "-rawin", "-in", "pae", "-sigfile", "sig")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Verified Successfully") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestUnsigned(t *testing.T) {
	db, err := storetest.Open(t.Context(), filepath.Join(t.TempDir(), store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(t.Context(), func(tx *sql.Tx) error {
		return Begin(t.Context(), tx, "o", Entry{Record: run("01AAAA0001", 1, "", "p")})
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := Envelope(t.Context(), db, "01AAAA0001"); !errors.Is(err, ErrUnsigned) {
		t.Errorf("of a run without an end: %v", err)
	}
	if _, err := Envelope(t.Context(), db, "01AAAA0002"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
}

func TestKeyring(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*", "keys")
	k := keyring(t, dir)
	if info, err := os.Stat(filepath.Join(dir, keyName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info, err)
	}
	if again := keyring(t, dir); again.Public().ID() != k.Public().ID() {
		t.Error("opened again it is another key")
	}
	text, _ := signedRun(t, k)
	next, err := k.Rotate(t.Context())
	if err != nil || next.ID() == k.Public().ID() {
		t.Fatalf("Rotate() = %s, %v", next.ID(), err)
	}
	after := keyring(t, dir)
	all, err := after.All()
	if err != nil || len(all) != 2 || all[0].ID() != next.ID() || all[1].ID() != k.Public().ID() {
		t.Fatalf("All() = %v, %v", all, err)
	}
	if _, err := Verify(text, all); err != nil {
		t.Errorf("what the old key has signed: %v", err)
	}
	if err := os.Chmod(filepath.Join(dir, keyName), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeyring(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others may read: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, keyName), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, keyName), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeyring(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "PEM block") || strings.Contains(err.Error(), "rubbish") {
		t.Errorf("a file that is no key: %v", err)
	}
}

// TestKeyringOfMany: engines that start together for the first time sign with the same key.
func TestKeyringOfMany(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	ids := make([]string, 16)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			k, err := OpenKeyring(context.WithoutCancel(t.Context()), dir)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = k.Public().ID()
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("they have the keys %q", ids)
		}
	}
}

func TestReadPublicKeys(t *testing.T) {
	dir := t.TempDir()
	a, b := keyring(t, filepath.Join(dir, "a")).Public(), keyring(t, filepath.Join(dir, "b")).Public()
	private, err := os.ReadFile(filepath.Join(dir, "a", keyName))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text string
		n    int
		says string
	}{
		"two":     {"ann:\n" + a.PEM() + "bob:\n" + b.PEM(), 2, ""},
		"none":    {"ssh-ed25519 AAAA", 0, "no PEM block of a public key"},
		"private": {string(private), 0, `a block "PRIVATE KEY"`},
		"changed": {strings.Replace(a.PEM(), "MCow", "MCox", 1), 0, "none of Ed25519"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := ReadPublicKeys(path)
		if len(keys) != test.n || (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
	}
}
