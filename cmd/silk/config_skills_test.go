package main

import (
	"strings"
	"testing"
)

func TestReadSkills(t *testing.T) {
	for _, tt := range []struct{ name, text, url, fault string }{
		{"nothing", "", "", ""},
		{"a service of this host", "skills: {api_url: http://127.0.0.1:3100/v1}", "http://127.0.0.1:3100/v1", ""},
		{"a service by its name", "skills: {api_url: https://api.example.org}", "https://api.example.org", ""},
		{"no URL", "skills: {api_url: api.example.org}", "", "skills: api_url: service: url"},
		{"with a password", "skills: {api_url: 'http://a:b@example.org'}", "", "skills: api_url: service: url"},
		{"an unknown key", "skills: {api: x}", "", "api_url"},
	} {
		c, err := parseConfig("c.yaml", []byte(tt.text))
		if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) || c.skills.apiURL != tt.url {
			t.Errorf("%s: %q, %v", tt.name, c.skills.apiURL, err)
		}
	}
}
