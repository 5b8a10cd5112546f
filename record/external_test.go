//go:build unix

package record

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// command is a script that stands for the owner's command.
func command(t *testing.T, script string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sign")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

// TestExternal: a record that a command has signed is checked like any other, and what a command prints besides is no signature.
func TestExternal(t *testing.T) {
	k, other := keyring(t, t.TempDir()), keyring(t, t.TempDir())
	entry := Entry{Record: run("01AAAA0001", 1, "ok", "p")}
	by, err := Seal(entry, k)
	if err != nil {
		t.Fatal(err)
	}
	var wrong Sealed
	if wrong, err = Seal(entry, other); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, script, want string }{
		{"it signs", "cat >/dev/null; echo " + by.signature, ""},
		{"with another key", "cat >/dev/null; echo " + wrong.signature, "no signature by the public key"},
		{"it says something else", "cat >/dev/null; echo 'no token'", "no base64"},
		{"it fails", "cat >/dev/null; echo 'no token is there' >&2; exit 3", "exit status 3: no token is there"},
		{"it takes too long", "exec sleep 100", "it took longer than"},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := External{Command: command(t, test.script), Key: k.Public(), Timeout: time.Minute}
			if strings.Contains(test.script, "sleep") {
				x.Timeout = 50 * time.Millisecond
			}
			got, err := Seal(entry, x)
			if test.want == "" {
				if err != nil || got.signature != by.signature || got.KeyID != k.Public().ID() {
					t.Errorf("%v, signed by %s", err, got.KeyID)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "sign a record with ") {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// TestPublicKeyThatWasChanged changes each byte of a public key: verification never succeeds with what is another key, and says so.
func TestPublicKeyThatWasChanged(t *testing.T) {
	k := keyring(t, t.TempDir())
	text, _ := signedRun(t, k)
	pem := []byte(k.Public().PEM())
	file := filepath.Join(t.TempDir(), "silk.pub")
	for i := range pem {
		changed := bytes.Clone(pem)
		changed[i] ^= 1
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := ReadPublicKeys(file)
		if err == nil && keys[0].ID() == k.Public().ID() {
			continue // a bit that base64 does not count, or white space
		}
		if err == nil {
			_, err = Verify(text, keys)
		}
		if err == nil || !strings.Contains(err.Error(), "public key") {
			t.Errorf("byte %d: %v", i, err)
		}
	}
}
