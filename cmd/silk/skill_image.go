package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/skill"
)

// skillTag is the tag of a skill's own image.
func skillTag(name string) string { return "iscl-skill-" + name + ":latest" }

// skillOrigin is where a skill comes from that runs on an image of its own. The image gets the skill's tag when the skill is kept.
func (h *host) skillOrigin(dir, ref string) (skill.Origin, error) {
	img, err := h.images.Resolve(ref)
	if err != nil {
		return skill.Origin{}, err
	}
	digest := img.Digest.String()
	return skill.Origin{Dir: dir, Image: digest, Keep: func(name string) error { return h.images.Tag(digest, skillTag(name)) }}, nil
}

// skillImage adds the image of its own to a skill that has one, if it is still the one that was registered.
func (h *host) skillImage(s *policy.Skill) error {
	if s == nil || s.Image == "" {
		return nil
	}
	changed := func(how string) error {
		return &policy.Denial{
			Rule: ruleSkillImage, Detail: fmt.Sprintf("the skill %s was registered with the image %s, and %s %s", s.Name, s.Image, skillTag(s.Name), how),
			Fix: "put the image back under that tag, or publish the skill under another name",
		}
	}
	img, err := h.images.Resolve(skillTag(s.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return changed("is not there")
	case err != nil:
		return err
	case img.Digest.String() != s.Image:
		return changed("is now " + img.Digest.String())
	}
	meta, err := h.images.Meta(img)
	s.Command = meta.Command
	return err
}

// ruleSkillImage is the rule of a refusal to run a skill whose image is another one.
const ruleSkillImage = "skill_image_changed"
