package main

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/skill"
)

// registerOnServer registers a skill whose files are in a directory of the server's host.
func (a *app) registerOnServer(text []byte, dir string) (skill.Result, error) {
	if !json.Valid(text) { // or it could not be sent
		return skill.Result{Error: skill.SchemaFailed, ValidationErrors: []skill.Fault{{Message: "is no JSON text"}}}, nil
	}
	c, err := a.server()
	if err != nil {
		return skill.Result{}, err
	}
	defer c.Close()
	r, err := c.RegisterSkill(a.ctx, api.SkillRegistration{Manifest: text, BasePath: dir})
	if err != nil {
		return skill.Result{}, serverError(err)
	}
	result := skill.Result{Registered: r.Registered, Name: r.Name, ManifestHash: r.ManifestHash, Error: r.Error}
	for _, f := range r.ValidationErrors {
		result.ValidationErrors = append(result.ValidationErrors, skill.Fault(f))
	}
	for _, m := range r.HashMismatches {
		result.HashMismatches = append(result.HashMismatches, skill.Mismatch(m))
	}
	for _, f := range r.ScanFindings {
		result.ScanFindings = append(result.ScanFindings, skill.Finding{File: f.File, Line: f.Line, Rule: f.Rule, Severity: skill.Severity(f.Severity), Message: f.Message})
	}
	return result, nil
}

func (a *app) skillsOnServer() ([]skill.Registered, error) {
	c, err := a.server()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	skills, err := c.Skills(a.ctx)
	if err != nil {
		return nil, serverError(err)
	}
	var list []skill.Registered
	for _, s := range skills {
		list = append(list, registeredOf(s))
	}
	return list, nil
}

func (a *app) skillOnServer(name string) (skill.Registered, error) {
	c, err := a.server()
	if err != nil {
		return skill.Registered{}, err
	}
	defer c.Close()
	s, err := c.Skill(a.ctx, name)
	return registeredOf(s), skillMissing(name, err)
}

func (a *app) revokeOnServer(name string) error {
	c, err := a.server()
	if err != nil {
		return err
	}
	defer c.Close()
	return skillMissing(name, c.RevokeSkill(a.ctx, name))
}

// skillMissing says of a skill that a server does not have that it is not there.
func skillMissing(name string, err error) error {
	var p *api.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		return missingf("the server has no active skill %s; silk skill ls lists them", printable(name))
	}
	if err == nil {
		return nil
	}
	return serverError(err)
}

func registeredOf(s api.Skill) skill.Registered {
	return skill.Registered{
		Name: s.Name, PublisherAddress: s.PublisherAddress, PublisherName: s.PublisherName, Manifest: s.Manifest, ManifestHash: s.ManifestHash,
		Status: skill.Status(s.Status), RegisteredAt: s.RegisteredAt, RevokedAt: s.RevokedAt,
	}
}
