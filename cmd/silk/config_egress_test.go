package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/policy"
)

func TestEgressConfiguration(t *testing.T) {
	c, err := parseConfig("c.yaml", []byte(`
grants: {hosts: ["*.Example.org:443"], stores: [/srv]}
egress:
  hosts: {API.test: 127.0.0.1, v6.test: "fd00::1"}
  targets: ["127.0.0.1:8443", "10.1.2.3/8:5432", "[fd00::/8]:443"]
  secrets: {TOKEN: /etc/token}
  authorities: /etc/ca.pem
  limits: {connections: 8, bytes: 1GiB, rate: 10MiB, life: 2h}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Grants{
		Hosts: []string{"*.example.org:443"}, Stores: []string{"/srv"}, Addrs: map[string]string{"api.test": "127.0.0.1", "v6.test": "fd00::1"},
		Targets: []string{"127.0.0.1/32:8443", "10.0.0.0/8:5432", "[fd00::/8]:443"}, Secrets: []string{"TOKEN"},
	}
	if !reflect.DeepEqual(c.grants, want) {
		t.Errorf("grants %+v, want %+v", c.grants, want)
	}
	if want := (egressConfig{secrets: map[string]string{"TOKEN": "/etc/token"}, authorities: "/etc/ca.pem", limits: egress.Limits{Connections: 8, Bytes: 1 << 30, Rate: 10 << 20, Life: 2 * time.Hour}}); !reflect.DeepEqual(c.egress, want) {
		t.Errorf("%+v, want %+v", c.egress, want)
	}
	for text, fault := range map[string]string{
		"hosts: {a.test: localhost}":                    `c.yaml:1: egress: hosts: a.test is "localhost", which is not an IPv4 or IPv6 address`,
		"hosts: {a.test: '::ffff:1.2.3.4'}":             `a.test is "::ffff:1.2.3.4", which is not an IPv4`,
		"hosts: {'*.a.test': 127.0.0.1}":                `egress: hosts has "*.a.test", which is not a host name`,
		"hosts: {'a.test:80': 127.0.0.1}":               `egress: hosts has "a.test:80", which is not a host name`,
		"hosts: {127.1: 127.0.0.1}":                     `egress: hosts has "127.1", which is not a host name`,
		"targets: [127.0.0.1]":                          `egress: targets has "127.0.0.1", which is not CIDR:port, such as 10.0.0.0/8:5432`,
		"targets: ['tcp:127.0.0.1:80']":                 `egress: targets has "tcp:127.0.0.1:80"`,
		"targets: ['a.test:80']":                        `egress: targets has "a.test:80"`,
		"targets: ['10.0.0.0/33:80']":                   `egress: targets has "10.0.0.0/33:80"`,
		"secrets: {TOKEN: token}":                       `egress: secrets: TOKEN is "token", which is not an absolute path`,
		"hosts: {a.test: 127.0.0.1, A.test: 127.0.0.2}": `egress: hosts has a.test twice`,
		"secrets: {A B: /x}":                            `egress: secrets has "A B", which is not the name`,
		"host: {}":                                      `c.yaml:1`,
		"limits: {rate: 10}":                            `egress: limits: rate is not a size`,
		"limits: {connections: 0}":                      `egress: limits: connections`,
		"limits: {life: 0s}":                            `egress: limits: life is "0s", which is not a duration above zero`,
		"limits: {speed: 1MiB}":                         `c.yaml:1`,
	} {
		if _, err := parseConfig("c.yaml", []byte("egress: {"+text+"}")); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v, want %q", text, err, fault)
		}
	}
	if _, err := parseConfig("c.yaml", []byte("grants: {hosts: [example.org]}")); err == nil || !strings.Contains(err.Error(), `grants: hosts: host "example.org" has no port`) {
		t.Errorf("a grant without a port: %v", err)
	}
}

func TestSecretValues(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of the file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{env: func(name string) string {
		return map[string]string{"BOTH": "of the environment", "ENV": "of the environment"}[name]
	}}
	find := a.secret(egressConfig{secrets: map[string]string{"BOTH": file, "GONE": file + "x"}})
	for name, want := range map[string]string{"BOTH": "of the file", "ENV": "of the environment", "GONE": "read secret GONE: open", "NONE": "secret NONE has no value: set the variable NONE"} {
		got, err := find(name)
		if got != want && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if pem, err := (egressConfig{}).trusted(); pem != nil || err != nil {
		t.Errorf("nobody is named: %q, %v", pem, err)
	}
	if _, err := (egressConfig{authorities: file + "x"}).trusted(); err == nil || !strings.Contains(err.Error(), file+"x, which is not there: put the certificates (PEM) in that file") {
		t.Errorf("no file: %v", err)
	}
	if _, err := (egressConfig{authorities: file}).trusted(); err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
		t.Errorf("a file without certificates: %v", err)
	}
}
