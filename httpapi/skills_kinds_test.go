//go:build unix

package httpapi_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/serve/servetest"
	"github.com/silk-sandbox/silk/skill"
)

// invalidKind is one of the published kinds of manifests that are refused: what a good one is patched with (RFC 7396), and where the fault is.
type invalidKind struct {
	Kind  string         `json:"kind"`
	Patch map[string]any `json:"patch"`
	Fault string         `json:"fault"`
}

// patch applies p as RFC 7396 says.
func patch(to, p map[string]any) {
	for key, value := range p {
		below, ok := value.(map[string]any)
		at, is := to[key].(map[string]any)
		switch {
		case value == nil:
			delete(to, key)
		case ok && is:
			patch(at, below)
		default:
			to[key] = value
		}
	}
}

// TestSkillKinds: each published kind of invalid manifest is refused with the pointer of its fault, and one byte in a file, the manifest or the
// signature with the error of that.
func TestSkillKinds(t *testing.T) {
	s := newStand(t, servetest.Config{})
	text, err := os.ReadFile("../skill/testdata/invalid.json")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []invalidKind
	if err := json.Unmarshal(text, &kinds); err != nil {
		t.Fatal(err)
	}
	for i, kind := range kinds {
		t.Run(kind.Kind, func(t *testing.T) {
			var body map[string]any
			if err := json.Unmarshal([]byte(publishedSkill(t, s.skills, "kind-"+strconv.Itoa(i), nil)), &body); err != nil {
				t.Fatal(err)
			}
			patch(body["manifest"].(map[string]any), kind.Patch)
			changed, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			r := get[api.SkillResult](s, call{role: auth.Owner, method: "POST", path: "/v1/skills/register", body: string(changed)}, 400)
			if r.Registered || r.Error != "schema_validation_failed" || len(r.ValidationErrors) != 1 || r.ValidationErrors[0].Path != kind.Fault || r.ValidationErrors[0].Message == "" {
				t.Errorf("%+v, want a fault at %s", r, kind.Fault)
			}
		})
	}
	file := publishedSkill(t, s.skills, "file", nil)
	if err := os.WriteFile(filepath.Join(s.skills, "file", "index.js"), []byte("console.log(2)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, body, want string }{
		{"a file", file, "file_hash_mismatch"},
		{"the manifest", publishedSkill(t, s.skills, "manifest", func(m *skill.Manifest) { m.Publisher.Name = "Bnn" }), "signature_verification_failed"},
		{"the signature", publishedSkill(t, s.skills, "signature", func(m *skill.Manifest) {
			last := byte('0')
			if m.Signature[40] == last {
				last = '1'
			}
			m.Signature = m.Signature[:40] + string(last) + m.Signature[41:]
		}), "signature_verification_failed"},
	} {
		if r := get[api.SkillResult](s, call{role: auth.Owner, method: "POST", path: "/v1/skills/register", body: test.body}, 400); r.Registered || r.Error != test.want {
			t.Errorf("a byte of %s: %+v, want %s", test.name, r, test.want)
		}
	}
}
