package main

import (
	"strings"
	"testing"
)

func TestDockerConfiguration(t *testing.T) {
	c, err := parseConfig("c.yaml", []byte("docker: {host: 'unix:///run/d.sock'}\n"))
	if err != nil || c.docker.host != "unix:///run/d.sock" {
		t.Errorf("docker is %+v, %v", c.docker, err)
	}
	for text, want := range map[string]string{
		"docker: {host: 'tcp://10.0.0.1:2375'}": `c.yaml:1: docker: host is "tcp://10.0.0.1:2375", which is not a socket of this machine`,
		"docker: {host: 'unix://d.sock'}":       `which is not a socket of this machine`,
		"docker: {socket: /run/d.sock}":         `socket`,
	} {
		if _, err := parseConfig("c.yaml", []byte(text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestDockerHost(t *testing.T) {
	for _, test := range []struct{ name, config, variable, want string }{
		{"nothing", "", "", ""},
		{"the environment's", "", "unix:///e.sock", "unix:///e.sock"},
		{"the owner's comes first", "unix:///c.sock", "unix:///e.sock", "unix:///c.sock"},
		{"one of another machine is none", "", "tcp://10.0.0.1:2375", ""},
	} {
		a := &app{env: func(name string) string {
			if name == "DOCKER_HOST" {
				return test.variable
			}
			return ""
		}}
		if got := a.dockerHost(config{docker: dockerConfig{test.config}}); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
