package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/skill"
)

type skillRegistration struct{ Body api.SkillRegistration }

type skillResult struct {
	Status int
	Body   api.SkillResult
}

type skillPath struct {
	Skill string `path:"skill" maxLength:"64" doc:"Its name"`
}

type skillList struct{ Body []api.Skill }

type oneSkill struct{ Body api.Skill }

type revokedSkill struct{ Body api.SkillRevoked }

// missingSkill is the published answer for a name that no skill has.
type missingSkill struct{ api.SkillMissing }

func noSkill(name string) error {
	return &missingSkill{api.SkillMissing{Error: skill.NotFound, Name: short(name)}}
}

// Error implements error.
func (m *missingSkill) Error() string { return m.SkillMissing.Error + ": " + m.Name }

// GetStatus implements huma.StatusError.
func (*missingSkill) GetStatus() int { return http.StatusNotFound }

// skills registers the published routes, whose bodies are the published ones.
func (h *handler) skills() {
	operation(h, huma.Operation{
		OperationID: "register-skill", Method: http.MethodPost, Path: "/v1/skills/register", Summary: "Check a skill and keep it", Tags: []string{"skills"},
		Description: "In this order: schema, signature, hashes of the files, scan of the code, whether the name was ever taken. The first that fails is the answer's `error`. " +
			"For owners.",
		Errors: []int{http.StatusConflict},
	}, h.registerSkill)
	operation(h, huma.Operation{
		OperationID: "list-skills", Method: http.MethodGet, Path: "/v1/skills", Summary: "List the skills that are active, by name", Tags: []string{"skills"},
	}, func(ctx context.Context, id auth.Identity, _ *nothing) (*skillList, error) {
		if !id.Can(auth.ActView) {
			return nil, auth.ErrForbidden
		}
		list, err := skill.List(ctx, h.cfg.DB, false)
		out := &skillList{[]api.Skill{}}
		for _, s := range list {
			out.Body = append(out.Body, skillOf(s))
		}
		return out, err
	})
	operation(h, huma.Operation{
		OperationID: "get-skill", Method: http.MethodGet, Path: "/v1/skills/{skill}", Summary: "Get a skill, revoked or not", Tags: []string{"skills"},
		Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, id auth.Identity, in *skillPath) (*oneSkill, error) {
		if !id.Can(auth.ActView) {
			return nil, auth.ErrForbidden
		}
		s, err := skill.Get(ctx, h.cfg.DB, in.Skill)
		if errors.Is(err, skill.ErrNotFound) {
			return nil, noSkill(in.Skill)
		}
		return &oneSkill{skillOf(s)}, err
	})
	operation(h, huma.Operation{
		OperationID: "revoke-skill", Method: http.MethodDelete, Path: "/v1/skills/{skill}", Summary: "Revoke a skill", Tags: []string{"skills"},
		Description: "It is not run any more. It is kept, and its name stays taken. For owners.", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, id auth.Identity, in *skillPath) (*revokedSkill, error) {
		if !id.Can(auth.ActSkills) {
			return nil, auth.ErrForbidden
		}
		err := skill.Revoke(ctx, h.cfg.DB, in.Skill, time.Now())
		if errors.Is(err, skill.ErrNotFound) || errors.Is(err, skill.ErrRevoked) {
			return nil, noSkill(in.Skill)
		}
		return &revokedSkill{api.SkillRevoked{Revoked: true, Name: in.Skill}}, err
	})
	paths := h.api.OpenAPI().Paths
	for _, status := range []int{http.StatusBadRequest, http.StatusConflict} {
		h.answers(paths["/v1/skills/register"].Post, status, typeOf[api.SkillResult]())
	}
	for _, op := range []*huma.Operation{paths["/v1/skills/{skill}"].Get, paths["/v1/skills/{skill}"].Delete} {
		h.answers(op, http.StatusNotFound, typeOf[api.SkillMissing]())
	}
}

// answers documents that what op answers with a status is no problem but a value of a type. A body that is no JSON is a problem with
// status 400 nevertheless.
func (h *handler) answers(op *huma.Operation, status int, is reflect.Type) {
	r := op.Responses[strconv.Itoa(status)]
	if status != http.StatusBadRequest {
		r.Content = map[string]*huma.MediaType{}
	}
	r.Content["application/json"] = &huma.MediaType{Schema: h.api.OpenAPI().Components.Schemas.Schema(is, true, "")}
}

func (h *handler) registerSkill(ctx context.Context, id auth.Identity, in *skillRegistration) (*skillResult, error) {
	if !id.Can(auth.ActSkills) {
		return nil, auth.ErrForbidden
	}
	dir := ""
	if h.cfg.SkillDir != nil {
		if at, ok := h.cfg.SkillDir(in.Body.BasePath); ok {
			dir = at
		}
	}
	r, err := skill.Register(ctx, h.cfg.DB, in.Body.Manifest, skill.Origin{Dir: dir}, time.Now())
	if err != nil {
		return nil, err
	}
	out := &skillResult{http.StatusOK, api.SkillResult{Registered: r.Registered, Name: r.Name, ManifestHash: r.ManifestHash, Error: r.Error}}
	switch r.Error {
	case "":
	case skill.Duplicate:
		out.Status = http.StatusConflict
	default:
		out.Status = http.StatusBadRequest
	}
	for _, f := range r.ValidationErrors {
		out.Body.ValidationErrors = append(out.Body.ValidationErrors, api.SkillFault(f))
	}
	for _, m := range r.HashMismatches {
		out.Body.HashMismatches = append(out.Body.HashMismatches, api.SkillMismatch(m))
	}
	for _, f := range r.ScanFindings {
		out.Body.ScanFindings = append(out.Body.ScanFindings, api.SkillFinding{File: f.File, Line: f.Line, Rule: f.Rule, Severity: string(f.Severity), Message: f.Message})
	}
	return out, nil
}

func skillOf(s skill.Registered) api.Skill {
	return api.Skill{
		Name: s.Name, PublisherAddress: s.PublisherAddress, PublisherName: s.PublisherName, Manifest: s.Manifest, ManifestHash: s.ManifestHash,
		Status: string(s.Status), RegisteredAt: s.RegisteredAt, RevokedAt: s.RevokedAt,
	}
}
