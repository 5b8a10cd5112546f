package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/internal/strictyaml"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

// egressConfig is what the configuration says of ways out, besides what policy decides with.
type egressConfig struct {
	secrets     map[string]string // files with values, by name
	authorities string            // file with certificates, PEM; "": the host's own
	limits      egress.Limits     // of each sandbox
}

// readEgress reads what the owner says of names, addresses and secrets.
func readEgress(d *strictyaml.Decoder, n strictyaml.Node, g *policy.Grants) (c egressConfig) {
	d.Fields(n, "egress", map[string]func(strictyaml.Node){
		"hosts": func(v strictyaml.Node) {
			g.Addrs = map[string]string{}
			d.Entries(v, "egress: hosts", func(key string, at, value strictyaml.Node) {
				rule, err := egress.ParseRule(key + ":1")
				if err != nil || rule.Name != strings.ToLower(key) || rule.Below {
					d.Fail(at, "egress: hosts has %q, which is not a host name", key)
				}
				text := d.Text(value, "egress: hosts: "+key)
				addr, err := netip.ParseAddr(text)
				if err != nil || addr.Zone() != "" || addr.Is4In6() {
					d.Fail(value, "egress: hosts: %s is %q, which is not an IPv4 or IPv6 address", key, text)
				}
				if _, twice := g.Addrs[strings.ToLower(key)]; twice {
					d.Fail(at, "egress: hosts has %s twice", strings.ToLower(key))
				}
				g.Addrs[strings.ToLower(key)] = addr.String()
			})
		},
		"targets": func(v strictyaml.Node) {
			for _, text := range d.Texts(v, "egress: targets") {
				rule, err := egress.ParseRule(text)
				if err != nil || !rule.Prefix.IsValid() || strings.HasPrefix(text, "tcp:") {
					d.Fail(v, "egress: targets has %q, which is not CIDR:port, such as 10.0.0.0/8:5432 or [fd00::/8]:443", text)
					continue
				}
				g.Targets = append(g.Targets, rule.Target())
			}
		},
		"secrets": func(v strictyaml.Node) {
			c.secrets = map[string]string{}
			d.Entries(v, "egress: secrets", func(name string, _, value strictyaml.Node) {
				if !profile.IsEnvName(name) {
					d.Fail(value, "egress: secrets has %q, which is not the name of an environment variable", name)
				}
				c.secrets[name] = absolute(d, value, "egress: secrets: "+name)
			})
			g.Secrets = slices.Sorted(maps.Keys(c.secrets))
		},
		"limits": func(v strictyaml.Node) {
			d.Fields(v, "egress: limits", map[string]func(strictyaml.Node){
				"connections": func(v strictyaml.Node) { c.limits.Connections = readCount(d, v, "egress: limits: connections") },
				"bytes":       func(v strictyaml.Node) { c.limits.Bytes = readBytes(d, v, "egress: limits: bytes") },
				"rate":        func(v strictyaml.Node) { c.limits.Rate = readBytes(d, v, "egress: limits: rate") },
				"life":        func(v strictyaml.Node) { c.limits.Life = readDuration(d, v, "egress: limits: life") },
			})
		},
		"authorities": func(v strictyaml.Node) { c.authorities = absolute(d, v, "egress: authorities") },
	})
	return c
}

// secret is the value of a secret: that of the invoker's environment, if he runs silk himself, or else of the file that the owner names.
func (a *app) secret(c egressConfig) func(name string) (string, error) {
	return func(name string) (string, error) {
		if file, ok := c.secrets[name]; ok {
			value, err := os.ReadFile(file)
			if err != nil {
				return "", fmt.Errorf("read secret %s: %w", name, err)
			}
			return strings.TrimRight(string(value), "\r\n"), nil
		}
		if value := a.env(name); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("secret %s has no value: set the variable %s for silk, or name a file in the configuration: egress: secrets: {%s: /path}", name, name, name)
	}
}

// trusted are the certificates of the configuration.
func (c egressConfig) trusted() ([]byte, error) {
	if c.authorities == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(c.authorities)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missingf("egress: authorities in the configuration names %s, which is not there: put the certificates (PEM) in that file, or leave the line out", c.authorities)
	case err != nil:
		return nil, fmt.Errorf("read egress: authorities: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return nil, usagef("egress: authorities: %s has no certificate in PEM", c.authorities)
	}
	return pem, nil
}

// readRules reads a list of rules in their usual form.
func readRules(d *strictyaml.Decoder, n strictyaml.Node, what string) []string {
	texts := d.Texts(n, what)
	for i, text := range texts {
		rule, err := egress.ParseRule(text)
		if err != nil {
			d.Fail(n, "%s: %v", what, err)
			continue
		}
		texts[i] = rule.String()
	}
	return texts
}
