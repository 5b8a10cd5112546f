package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSkillImage: a skill with an image of its own runs on that one alone: when its tag leads elsewhere, or nowhere, it is refused.
func TestSkillImage(t *testing.T) {
	s := newSilk(t, "lab:text", "lab:python")
	s.Env = append(s.Env, skillKey)
	dir := filepath.Join(t.TempDir(), "own")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := put(filepath.Join(dir, "a.py"), "print('on its image')"); err != nil {
		t.Fatal(err)
	}
	verb(t, s, 0, "skill", "init", dir, "--name", "own", "--publisher", "Ann", "--contact", "ann@example.org", "--timeout-ms", "60000")
	verb(t, s, 0, "skill", "sign", dir)
	if _, stderr := verb(t, s, 125, "skill", "register", dir, "--image", "none:latest"); !strings.Contains(stderr, "none:latest") {
		t.Errorf("an image that is not there: %s", stderr)
	}
	verb(t, s, 0, "skill", "register", dir, "--image", "lab:python")
	out, _ := verb(t, s, 0, "image", "show", "iscl-skill-own:latest", "--json")
	shown, _ := verb(t, s, 0, "skill", "show", "own")
	digest, _, _ := strings.Cut(out[strings.Index(out, "sha256:"):], `"`)
	if !strings.Contains(shown, digest) {
		t.Errorf("the skill's image is not %s: %s", digest, shown)
	}
	if a := runSkill(t, s, 0, "own"); a.Stdout != "on its image\n" {
		t.Errorf("%+v", a)
	}
	archive := filepath.Join(t.TempDir(), "text.tar")
	verb(t, s, 0, "image", "export", "lab:text", archive)
	verb(t, s, 0, "image", "import", archive, "iscl-skill-own:latest")
	if a := runSkill(t, s, 126, "own"); a.Outcome.Outcome != "denied" || a.Outcome.Rule != "skill_image_changed" {
		t.Errorf("with another image: %+v", a)
	}
	verb(t, s, 0, "image", "rm", "iscl-skill-own:latest")
	if a := runSkill(t, s, 126, "own"); a.Outcome.Rule != "skill_image_changed" {
		t.Errorf("without one: %+v", a)
	}
}
