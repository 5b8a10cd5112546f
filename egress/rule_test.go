package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseRule(t *testing.T) {
	for _, test := range []struct {
		text, usual string
		want        Rule
	}{
		{"Example.ORG:443", "example.org:443", Rule{Name: "example.org", Port: 443}},
		{"example.org.:443", "example.org:443", Rule{Name: "example.org", Port: 443}},
		{"tls:*.example.org:443", "tls:*.example.org:443", Rule{Protocol: TLS, Name: "example.org", Below: true, Port: 443}},
		{"http:localhost:80", "http:localhost:80", Rule{Protocol: HTTP, Name: "localhost", Port: 80}},
		{"tcp:git_1.example.org:22", "tcp:git_1.example.org:22", Rule{Protocol: TCP, Name: "git_1.example.org", Port: 22}},
		{"127.0.0.1:8443", "tcp:127.0.0.1:8443", Rule{Protocol: TCP, Prefix: netip.MustParsePrefix("127.0.0.1/32"), Port: 8443}},
		{"tcp:192.0.2.7/24:5432", "tcp:192.0.2.0/24:5432", Rule{Protocol: TCP, Prefix: netip.MustParsePrefix("192.0.2.0/24"), Port: 5432}},
		{"[2001:DB8::1]:80", "tcp:[2001:db8::1]:80", Rule{Protocol: TCP, Prefix: netip.MustParsePrefix("2001:db8::1/128"), Port: 80}},
		{"[2001:db8::/32]:80", "tcp:[2001:db8::/32]:80", Rule{Protocol: TCP, Prefix: netip.MustParsePrefix("2001:db8::/32"), Port: 80}},
		{"0xcafe.org:1", "0xcafe.org:1", Rule{Name: "0xcafe.org", Port: 1}},
	} {
		got, err := ParseRule(test.text)
		if got != test.want || err != nil {
			t.Errorf("ParseRule(%q) = %+v, %v, want %+v", test.text, got, err, test.want)
		}
		if got.String() != test.usual {
			t.Errorf("ParseRule(%q).String() = %q, want %q", test.text, got, test.usual)
		}
		if again, err := ParseRule(got.String()); again != got || err != nil {
			t.Errorf("ParseRule(%q) = %+v, %v, want what it was written from", got, again, err)
		}
	}
	for text, want := range map[string]string{
		"example.org":                        "no port",
		"[::1]":                              "no port",
		"example.org:0":                      "not a number from 1",
		"example.org:+80":                    "not a number from 1",
		"example.org:080":                    "not a number from 1",
		"example.org:65536":                  "not a number from 1",
		":443":                               "not a host name",
		"*.org:443":                          "everything below .org",
		"*:443":                              "not a host name",
		"a.*.org:443":                        "not a host name",
		"ex ample.org:443":                   "not a host name",
		"user@example.org:443":               "not a host name",
		"example.org/x:443":                  "not a host name",
		"-a.org:443":                         "not a host name",
		strings.Repeat("a", 64) + ".org:443": "not a host name",
		"127.1:80":                           "an address in a form of its own",
		"0x7f.0.0.1:80":                      "an address in a form of its own",
		"2130706433:80":                      "an address in a form of its own",
		"017700000001:80":                    "an address in a form of its own",
		"::1:80":                             "brackets",
		"[127.0.0.1]:80":                     "brackets",
		"[::ffff:127.0.0.1]:80":              "brackets",
		"[fe80::1%eth0]:80":                  "brackets",
		"[::1:80":                            "brackets",
		"tls:127.0.0.1:443":                  "write tcp:127.0.0.1:443",
		"udp:example.org:53":                 "is for UDP",
	} {
		if got, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRule(%q) = %+v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestRuleNames(t *testing.T) {
	for _, test := range []struct {
		rule, name string
		want       bool
	}{
		{"example.org:1", "example.org", true},
		{"example.org:1", "www.example.org", false},
		{"*.example.org:1", "example.org", false},
		{"*.example.org:1", "www.example.org", true},
		{"*.example.org:1", "a.b.example.org", true},
		{"*.example.org:1", "notexample.org", false},
		{"127.0.0.1:1", "127.0.0.1", false},
	} {
		r, err := ParseRule(test.rule)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Names(test.name); got != test.want {
			t.Errorf("%s names %s: %t, want %t", test.rule, test.name, got, test.want)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		rule, other string
		want        bool
	}{
		{"a.org:443", "a.org:443", true},
		{"a.org:443", "tls:a.org:443", true},
		{"a.org:443", "http:a.org:443", true},
		{"a.org:443", "tcp:a.org:443", false},
		{"tcp:a.org:443", "tcp:a.org:443", true},
		{"tcp:a.org:443", "a.org:443", true},
		{"tls:a.org:443", "a.org:443", false},
		{"tls:a.org:443", "http:a.org:443", false},
		{"a.org:443", "a.org:80", false},
		{"a.org:443", "b.a.org:443", false},
		{"*.a.org:443", "b.a.org:443", true},
		{"*.a.org:443", "a.org:443", false},
		{"*.a.org:443", "xa.org:443", false},
		{"*.a.org:443", "*.a.org:443", true},
		{"*.a.org:443", "*.b.a.org:443", true},
		{"*.b.a.org:443", "*.a.org:443", false},
		{"b.a.org:443", "*.a.org:443", false},
		{"10.0.0.0/8:80", "10.1.0.0/16:80", true},
		{"10.0.0.0/8:80", "10.1.2.3:80", true},
		{"10.1.0.0/16:80", "10.0.0.0/8:80", false},
		{"10.0.0.0/8:80", "10.1.2.3:81", false},
		{"0.0.0.0/0:80", "[2001:db8::1]:80", false},
		{"a.org:80", "10.1.2.3:80", false},
		{"10.0.0.0/8:80", "tcp:a.org:80", false},
	} {
		rules := rulesOf(t, test.rule, test.other)
		if got := rules[0].Covers(rules[1]); got != test.want {
			t.Errorf("%s covers %s: %t, want %t", test.rule, test.other, got, test.want)
		}
	}
}

func TestSpecialPrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.0.0.0/8": "a private address", "10.2.0.0/16": "a private address", "0.0.0.0/0": "", "93.184.0.0/16": "", "8.0.0.0/6": "",
		"127.0.0.1/32": "a loopback address", "fd00::/8": "a private address", "2000::/3": "", "169.254.0.0/16": "a link-local address",
	} {
		if got := SpecialPrefix(netip.MustParsePrefix(prefix)); got != want {
			t.Errorf("%s: %q, want %q", prefix, got, want)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, text := range []string{
		"example.org:443", "*.example.org:443", "tcp:192.0.2.0/24:5432", "[2001:db8::/32]:80", "tls:a.b:1", "http:localhost:80", "[::ffff:1.2.3.4]:80", "0x7f.1:80", "K@a.example:443/X-Key",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSecret(text); err == nil {
			if again, err := ParseSecret(s.String()); again != s || err != nil {
				t.Errorf("%q is %+v, and that is %+v, %v", text, s, again, err)
			}
		}
		r, err := ParseRule(text)
		if err != nil {
			return
		}
		if again, err := ParseRule(r.String()); again != r || err != nil {
			t.Errorf("%q is %+v, and that is %+v, %v", text, r, again, err)
		}
		if (r.Name == "") != r.Prefix.IsValid() || r.Port == 0 || !r.Covers(r) || r.Prefix.IsValid() && (r.Protocol != TCP || r.Prefix.Addr().Is4In6() || r.Prefix.Masked() != r.Prefix) {
			t.Errorf("%q is %+v", text, r)
		}
		if _, err := netip.ParseAddr(r.Name); err == nil {
			t.Errorf("%q has an address for a name", text)
		}
	})
}
