package main

import (
	"strings"
	"testing"
)

func TestServeRolesConfiguration(t *testing.T) {
	for text, want := range map[string]serveRoles{
		"serve: {}":                     {api: true, worker: true},
		"serve: {roles: [worker]}":      {worker: true},
		"serve: {roles: [worker, api]}": {api: true, worker: true},
	} {
		c, err := parseConfig("c.yaml", []byte(text))
		if err != nil || c.serve.roles != want {
			t.Errorf("%s: %+v, %v", text, c.serve.roles, err)
		}
	}
	for text, want := range map[string]string{
		"serve: {roles: []}":      "has the role api, worker, or both",
		"serve: {roles: [slave]}": `no role "slave"`,
	} {
		if _, err := parseConfig("c.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "serve: roles") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
