package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/api"
)

// TestRegisterSkill: what is wrong with a skill is an answer, and what is wrong with the request a problem.
func TestRegisterSkill(t *testing.T) {
	manifest := json.RawMessage(`{"a":1}`)
	for _, test := range []struct {
		name       string
		status     int
		kind, body string
		wantError  string // of the result
		problem    bool
		other      bool // neither
	}{
		{name: "registered", status: 200, kind: "application/json", body: `{"registered":true,"name":"n","manifestHash":"0x1"}`},
		{name: "refused", status: 400, kind: "application/json", body: `{"registered":false,"name":"n","manifestHash":"","error":"static_scan_failed","scanFindings":[{"file":"a","line":1,"rule":"r","severity":"error","message":"m"}]}`, wantError: "static_scan_failed"},
		{name: "there already", status: 409, kind: "application/json", body: `{"registered":false,"name":"n","manifestHash":"","error":"duplicate_skill"}`, wantError: "duplicate_skill"},
		{name: "no JSON", status: 400, kind: "application/problem+json", body: `{"type":"urn:silk:http","title":"bad request","status":400}`, problem: true},
		{name: "not the owner", status: 403, kind: "application/problem+json", body: `{"type":"urn:silk:forbidden","title":"no","status":403}`, problem: true},
		{name: "another status in its form", status: 404, kind: "application/json", body: `{"registered":true,"name":"n"}`, problem: true},
		{name: "no answer of this API", status: 200, kind: "text/html", body: `<html>`, other: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Method != http.MethodPost || r.URL.Path != "/v1/skills/register" || string(body) != `{"manifest":{"a":1},"basePath":"/srv/a"}` {
					t.Errorf("%s %s %s", r.Method, r.URL, body)
				}
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			})
			r, err := c.RegisterSkill(t.Context(), api.SkillRegistration{Manifest: manifest, BasePath: "/srv/a"})
			var p *api.Problem
			if errors.As(err, &p) != test.problem || (err != nil) != (test.problem || test.other) || r.Error != test.wantError {
				t.Errorf("%+v, %v", r, err)
			}
			if test.problem && p.Status != test.status {
				t.Errorf("problem %+v", p)
			}
		})
	}
}

func TestSkillsOfAServer(t *testing.T) {
	c := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.RequestURI {
		case "GET /v1/skills":
			answer(w, 200, []api.Skill{{Name: "a"}, {Name: "b"}})
		case "GET /v1/skills/a%2Fb":
			answer(w, 200, api.Skill{Name: "a/b"})
		case "DELETE /v1/skills/a":
			answer(w, 200, api.SkillRevoked{Revoked: true, Name: "a"})
		default:
			answer(w, 404, api.SkillMissing{Error: "skill_not_found", Name: "x"})
		}
	})
	if list, err := c.Skills(t.Context()); err != nil || len(list) != 2 || list[1].Name != "b" {
		t.Errorf("%+v, %v", list, err)
	}
	if s, err := c.Skill(t.Context(), "a/b"); err != nil || s.Name != "a/b" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := c.RevokeSkill(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	var p *api.Problem
	if err := c.RevokeSkill(t.Context(), "x"); !errors.As(err, &p) || p.Status != 404 || strings.Contains(err.Error(), "skill_not_found") {
		t.Errorf("%v", err)
	}
}
