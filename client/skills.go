package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/silk-sandbox/silk/api"
)

// RegisterSkill has the server check a skill whose files are in a directory of its host, and keep it. What is wrong with the skill
// is in the result, not an error. It is for owners.
func (c *Client) RegisterSkill(ctx context.Context, r api.SkillRegistration) (api.SkillResult, error) {
	var result api.SkillResult
	body, err := json.Marshal(r)
	if err != nil {
		return result, fmt.Errorf("encode the registration: %w", err)
	}
	text, err := c.published(ctx, call{method: http.MethodPost, path: "/v1/skills/register", body: body}, http.StatusBadRequest, http.StatusConflict)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return result, fmt.Errorf("read the answer to a registration: it is not what the API describes: %w", err)
	}
	return result, nil
}

// Skills lists the skills that are active.
func (c *Client) Skills(ctx context.Context) ([]api.Skill, error) {
	list := []api.Skill{}
	err := c.get(ctx, "/v1/skills", nil, &list)
	return list, err
}

// Skill looks at one, revoked or not. A problem with status 404: there is none of that name.
func (c *Client) Skill(ctx context.Context, name string) (api.Skill, error) {
	var s api.Skill
	err := c.get(ctx, skillPath(name), nil, &s)
	return s, err
}

// RevokeSkill ends a skill. A problem with status 404: there is no active one of that name. It is for owners.
func (c *Client) RevokeSkill(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: skillPath(name)}, nil)
}

func skillPath(name string) string { return "/v1/skills/" + url.PathEscape(name) }

// published makes a request whose answer, with these statuses too, is JSON of the operation's own form. Any other refusal is a problem.
func (c *Client) published(ctx context.Context, q call, statuses ...int) ([]byte, error) {
	resp, err := c.exchange(ctx, q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, c.unreached(ctx, err)
	case len(text) > maxAnswerBytes:
		return nil, errors.New("read the answer: it is too long")
	case resp.StatusCode == http.StatusOK:
		return text, nil
	}
	for _, status := range statuses {
		if kind := resp.Header.Get("Content-Type"); resp.StatusCode == status && kind == "application/json" {
			return text, nil
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return nil, problemOf(resp)
}
