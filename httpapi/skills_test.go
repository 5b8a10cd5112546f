//go:build unix

package httpapi_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/serve/servetest"
	"github.com/silk-sandbox/silk/skill"
)

// publishedSkill makes a signed skill below dir, and returns the body that registers it.
func publishedSkill(t *testing.T, dir, name string, change func(*skill.Manifest)) string {
	t.Helper()
	base := filepath.Join(dir, name)
	if err := os.MkdirAll(base, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "index.js"), []byte("console.log(1)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	files, err := skill.HashFiles(base, []string{"index.js"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := skill.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	m := skill.Manifest{
		Version: skill.Version, Name: name, Publisher: skill.Publisher{Name: "Ann", Contact: "ann@example.org"},
		Sandbox: skill.Sandbox{MemoryMb: skill.DefaultMemoryMb, TimeoutMs: skill.DefaultTimeoutMs}, Files: files,
	}
	m.Sign(key)
	if change != nil {
		change(&m)
	}
	body, err := json.Marshal(api.SkillRegistration{Manifest: m.Text(), BasePath: base})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestSkills: the published routes with the published bodies.
func TestSkills(t *testing.T) {
	s := newStand(t, servetest.Config{})
	body := publishedSkill(t, s.skills, "price-check", nil)
	register := call{role: auth.Owner, method: "POST", path: "/v1/skills/register", body: body}
	r := get[api.SkillResult](s, register, 200)
	if !r.Registered || r.Name != "price-check" || len(r.ManifestHash) != 66 || r.Error != "" {
		t.Errorf("%+v", r)
	}
	if r := get[api.SkillResult](s, register, 409); r.Registered || r.Error != "duplicate_skill" || r.ManifestHash != "" {
		t.Errorf("a second time: %+v", r)
	}
	one := get[api.Skill](s, call{role: auth.Viewer, path: "/v1/skills/price-check"}, 200)
	var m skill.Manifest
	if err := json.Unmarshal(one.Manifest, &m); err != nil || one.Status != "active" || one.RevokedAt != nil || one.ManifestHash != r.ManifestHash || m.Name != "price-check" || one.PublisherAddress != m.Publisher.Address {
		t.Errorf("%+v, %v", one, err)
	}
	_, text := s.do(call{role: auth.Runner, path: "/v1/skills"})
	var list []map[string]any
	if err := json.Unmarshal(text, &list); err != nil || len(list) != 1 || list[0]["publisherName"] != "Ann" || list[0]["revokedAt"] != nil || len(list[0]) != 8 {
		t.Errorf("list %s, %v", text, err)
	}
	if _, text := s.do(call{role: auth.Owner, method: "DELETE", path: "/v1/skills/price-check"}); strings.TrimSpace(string(text)) != `{"revoked":true,"name":"price-check"}` {
		t.Errorf("revoked: %s", text)
	}
	if list := get[[]api.Skill](s, call{role: auth.Viewer, path: "/v1/skills"}, 200); len(list) != 0 {
		t.Errorf("a revoked skill is listed: %+v", list)
	}
	if one := get[api.Skill](s, call{role: auth.Viewer, path: "/v1/skills/price-check"}, 200); one.Status != "revoked" || one.RevokedAt == nil {
		t.Errorf("%+v", one)
	}
	for _, c := range []call{{role: auth.Owner, method: "DELETE", path: "/v1/skills/price-check"}, {role: auth.Owner, path: "/v1/skills/other"}} {
		if m := get[api.SkillMissing](s, c, 404); m.Error != "skill_not_found" || m.Name != filepath.Base(c.path) {
			t.Errorf("%+v", m)
		}
	}
	get[api.SkillResult](s, register, 409)
}

func TestSkillsRefused(t *testing.T) {
	s := newStand(t, servetest.Config{})
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(s.skills, "link")); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ body, want, where string }{
		"nothing":                    {`{}`, "schema_validation_failed", ""},
		"a manifest that is none":    {`{"manifest":[],"basePath":"` + s.skills + `"}`, "schema_validation_failed", ""},
		"a limit":                    {publishedSkill(t, s.skills, "a", func(m *skill.Manifest) { m.Sandbox.MemoryMb = 513 }), "schema_validation_failed", "/sandbox/memoryMb"},
		"a signature":                {publishedSkill(t, s.skills, "b", func(m *skill.Manifest) { m.Sandbox.MemoryMb++ }), "signature_verification_failed", "/signature"},
		"outside of the stores":      {publishedSkill(t, outside, "c", nil), "schema_validation_failed", "/basePath"},
		"outside by a link":          {strings.Replace(publishedSkill(t, outside, "d", nil), outside, filepath.Join(s.skills, "link"), 1), "schema_validation_failed", "/basePath"},
		"outside by its name":        {strings.Replace(publishedSkill(t, s.skills, "e", nil), filepath.Join(s.skills, "e"), s.skills+"/../..", 1), "schema_validation_failed", "/basePath"},
		"a relative path":            {strings.Replace(publishedSkill(t, s.skills, "f", nil), filepath.Join(s.skills, "f"), "f", 1), "schema_validation_failed", "/basePath"},
		"a file in place of it":      {strings.Replace(publishedSkill(t, s.skills, "g", nil), filepath.Join(s.skills, "g"), filepath.Join(s.skills, "g/index.js"), 1), "schema_validation_failed", "/basePath"},
		"a directory that is gone":   {strings.Replace(publishedSkill(t, s.skills, "h", nil), filepath.Join(s.skills, "h"), filepath.Join(s.skills, "gone"), 1), "schema_validation_failed", "/basePath"},
		"a directory of other files": {strings.Replace(publishedSkill(t, s.skills, "i", nil), filepath.Join(s.skills, "i"), s.skills, 1), "file_hash_mismatch", "index.js"},
	} {
		r := get[api.SkillResult](s, call{role: auth.Owner, method: "POST", path: "/v1/skills/register", body: test.body}, 400)
		first := ""
		switch {
		case len(r.ValidationErrors) > 0:
			first = r.ValidationErrors[0].Path
		case len(r.HashMismatches) > 0:
			first = r.HashMismatches[0].Path
		}
		if r.Registered || r.Error != test.want || first != test.where || r.ManifestHash != "" {
			t.Errorf("%s: %+v, want %s at %q", name, r, test.want, test.where)
		}
	}
	body := publishedSkill(t, s.skills, "mine", nil)
	for _, role := range []auth.Role{auth.Runner, auth.Viewer} {
		get[api.Problem](s, call{role: role, method: "POST", path: "/v1/skills/register", body: body}, 403)
		get[api.Problem](s, call{role: role, method: "DELETE", path: "/v1/skills/mine"}, 403)
	}
	if list := get[[]api.Skill](s, call{role: auth.Owner, path: "/v1/skills"}, 200); len(list) != 0 {
		t.Errorf("registered %+v", list)
	}
}
