package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSkillKinds: each published kind of invalid manifest is refused on the command line with the pointer of its fault, and one byte in a file, the
// manifest or the signature with the error of that, when it is registered and when it is run.
func TestSkillKinds(t *testing.T) {
	s := newSilk(t, "lab:node")
	s.Env = append(s.Env, skillKey)
	text, err := os.ReadFile("../../skill/testdata/invalid.json")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []struct {
		Kind, Fault string
		Patch       map[string]any
	}
	if err := json.Unmarshal(text, &kinds); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "kinds")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program, file := filepath.Join(dir, "index.js"), filepath.Join(dir, "manifest.json")
	if err := os.WriteFile(program, []byte("console.log(1)"), 0o644); err != nil {
		t.Fatal(err)
	}
	verb(t, s, 0, "skill", "init", dir, "--name", "kinds", "--publisher", "Ann", "--contact", "ann@example.org")
	verb(t, s, 0, "skill", "sign", dir)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	register := func(t *testing.T, manifest []byte, status int) (r struct {
		Registered       bool
		Error            string
		ValidationErrors []struct{ Path, Message string }
	},
	) {
		t.Helper()
		if err := os.WriteFile(file, manifest, 0o644); err != nil {
			t.Fatal(err)
		}
		out, _ := verb(t, s, status, "skill", "register", dir, "--json")
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return r
	}
	for _, kind := range kinds {
		t.Run(kind.Kind, func(t *testing.T) {
			var manifest map[string]any
			if err := json.Unmarshal(good, &manifest); err != nil {
				t.Fatal(err)
			}
			for key, value := range kind.Patch { // RFC 7396, as deep as a manifest is
				at, ok := manifest[key].(map[string]any)
				below, is := value.(map[string]any)
				switch {
				case value == nil:
					delete(manifest, key)
				case ok && is:
					for k, v := range below {
						at[k] = v
					}
				default:
					manifest[key] = value
				}
			}
			changed, err := json.Marshal(manifest)
			if err != nil {
				t.Fatal(err)
			}
			r := register(t, changed, 1)
			if r.Registered || r.Error != "schema_validation_failed" || len(r.ValidationErrors) != 1 || r.ValidationErrors[0].Path != kind.Fault {
				t.Errorf("%+v, want a fault at %s", r, kind.Fault)
			}
		})
	}
	at := strings.Index(string(good), `"signature"`) + 30
	digit := "0"
	if good[at] == '0' {
		digit = "1"
	}
	for name, manifest := range map[string]string{
		"the manifest":  strings.Replace(string(good), "Ann", "Bnn", 1),
		"the signature": string(good[:at]) + digit + string(good[at+1:]),
	} {
		if r := register(t, []byte(manifest), 1); r.Registered || r.Error != "signature_verification_failed" {
			t.Errorf("a byte of %s: %+v", name, r)
		}
	}
	if err := os.WriteFile(program, []byte("console.log(2)"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := register(t, good, 1); r.Registered || r.Error != "file_hash_mismatch" {
		t.Errorf("a byte of a file: %+v", r)
	}
	if err := os.WriteFile(program, []byte("console.log(1)"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := register(t, good, 0); !r.Registered {
		t.Fatalf("as it was: %+v", r)
	}
	if err := os.WriteFile(program, []byte("console.log(2)"), 0o644); err != nil {
		t.Fatal(err)
	}
	if a := runSkill(t, s, 126, "kinds"); a.Outcome.Rule != "file_hash_mismatch" {
		t.Errorf("a byte of a file that was changed since: %+v", a)
	}
}
