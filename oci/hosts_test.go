package oci

import (
	"errors"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	for name, test := range map[string]struct {
		text, want string
		bad        bool
	}{
		"docker's":        {"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\nfe00::0\tip6-localnet\n172.17.0.2\t8c_1.box\n", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\nfe00::\tip6-localnet\n172.17.0.2\t8c_1.box\n", false},
		"comments":        {"# a secret\n127.0.0.1 localhost # another\n\n", "127.0.0.1\tlocalhost\n", false},
		"zone":            {"fe80::1%lo0 localhost\n", "fe80::1%lo0\tlocalhost\n", false},
		"empty":           {"", "", false},
		"shadow":          {"root:$6$x:19000:0:99999:7:::\n", "", true},
		"a key":           {"-----BEGIN PRIVATE KEY-----\nMC4CAQ\n", "", true},
		"a word":          {"hunter2\n", "", true},
		"an address only": {"127.0.0.1\n", "", true},
		"no name":         {"127.0.0.1 pass:word\n", "", true},
		"half":            {"127.0.0.1 localhost\nroot:x\n", "", true},
		"control":         {"127.0.0.1 a\x1b[1m\n", "", true},
		"long":            {"127.0.0.1 " + strings.Repeat("a", 254) + "\n", "", true},
		"large":           {strings.Repeat("127.0.0.1 localhost\n", MaxHostsBytes/19), "", true},
	} {
		got, err := Hosts([]byte(test.text))
		if string(got) != test.want || errors.Is(err, ErrHosts) != test.bad || (err != nil) != test.bad {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "$6$") || strings.Contains(err.Error(), "pass:")) {
			t.Errorf("%s: the error has something of the file: %v", name, err)
		}
	}
}
