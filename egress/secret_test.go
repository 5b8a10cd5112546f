package egress

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"
)

func TestParseSecret(t *testing.T) {
	for text, want := range map[string]Secret{
		"API_TOKEN@API.Example.org.:443/Authorization": {Name: "API_TOKEN", Host: "api.example.org", Port: 443, Header: "Authorization"},
		"_k1@http:localhost:8080/X-Key":                {Name: "_k1", Host: "localhost", Port: 8080, Header: "X-Key"},
		"K@tls:a.example:1/Cookie":                     {Name: "K", Host: "a.example", Port: 1, Header: "Cookie"},
	} {
		got, err := ParseSecret(text)
		if got != want || err != nil {
			t.Errorf("ParseSecret(%q) = %+v, %v, want %+v", text, got, err, want)
		}
		got.Value = "hush"
		if s := got.String(); strings.Contains(s, "hush") {
			t.Errorf("%q says the value", s)
		}
		if again, err := ParseSecret(got.String()); again != want || err != nil {
			t.Errorf("ParseSecret(%q) = %+v, %v, want what it was written from", got, again, err)
		}
	}
	for text, want := range map[string]string{
		"":                                "is not NAME@HOST:PORT/Header",
		"K":                               "is not NAME@HOST:PORT/Header",
		"K@a.example:443":                 "is not NAME@HOST:PORT/Header",
		"a.example:443/X":                 "is not NAME@HOST:PORT/Header",
		"@a.example:443/X":                "no name that an environment variable can have",
		"1K@a.example:443/X":              "no name that an environment variable can have",
		"K=v@a.example:443/X":             "no name that an environment variable can have",
		"K@a.example/X":                   "no port",
		"K@tcp:a.example:443/X":           "one host by its name",
		"K@*.a.example:443/X":             "one host by its name",
		"K@127.0.0.1:443/X":               "one host by its name",
		"K@a.example:443/":                "not the name of a header",
		"K@a.example:443/a b":             "not the name of a header",
		"K@a.example:443/X: v":            "not the name of a header",
		"K@a.example:443/X\r\nY":          "not the name of a header",
		"K@a.example:443/hOsT":            "not the name of a header",
		"K@a.example:443/connection":      "not the name of a header",
		"K@a.example:1/Content-Length":    "not the name of a header",
		"K@a.example:1/Transfer-Encoding": "not the name of a header",
		"K@a.example:1/Trailer":           "not the name of a header",
		"K@a.example:1/Upgrade":           "not the name of a header",
	} {
		if got, err := ParseSecret(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseSecret(%q) = %+v, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestCheckValue(t *testing.T) {
	for value, want := range map[string]string{
		"Bearer \t x": "", "schlüssel": "", strings.Repeat("x", MaxSecretBytes): "",
		"": "is empty", strings.Repeat("x", MaxSecretBytes+1): "more than 8192",
		"a\nb": "a line break", "a\r": "a line break", "a\x00": "a line break", "a\x7f": "a line break",
	} {
		err := Secret{Name: "K", Value: value}.CheckValue()
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || len(value) > 1 && strings.Contains(err.Error(), value)) {
			t.Errorf("CheckValue of %d bytes: %v, want %q", len(value), err, want)
		}
	}
}

func TestInHeader(t *testing.T) {
	s := Secret{Name: "K", Value: "v"}
	for old, want := range map[string]string{
		"": "v", "else": "v", "silk-secret-K": "v", "Bearer silk-secret-K": "Bearer v", "a silk-secret-K b": "a v b",
		"silk-secret-K silk-secret-K": "v silk-secret-K",
	} {
		if got := s.InHeader(old); got != want {
			t.Errorf("InHeader(%q) = %q, want %q", old, got, want)
		}
	}
	s.Value = strings.Repeat("v", MaxSecretBytes)
	if n := len(s.InHeader(strings.Repeat(s.Placeholder(), 4000))); n > 64<<10 {
		t.Errorf("a header of 52 KiB becomes one of %d bytes", n)
	}
}

// TestAuthorityVouchesForItsNamesAlone asks crypto/x509, as a program would, for whom the authority is good.
func TestAuthorityVouchesForItsNamesAlone(t *testing.T) {
	now := time.Now()
	a, err := NewAuthority(now, []string{"api.example.org", "other.example"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(a) // as it goes to the gateway
	if err != nil {
		t.Fatal(err)
	}
	a = Authority{}
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(a.PEM()) {
		t.Fatal("PEM is not as programs read it")
	}
	for _, test := range []struct {
		issued, asked string
		at            time.Time
		want          string
	}{
		{"api.example.org", "api.example.org", now, ""},
		{"other.example", "other.example", now, ""},
		{"api.example.org", "api.example.org", now.Add(29 * 24 * time.Hour), ""},
		{"api.example.org", "api.example.org", now.Add(31 * 24 * time.Hour), "expired"},
		{"api.example.org", "other.example", now, "valid for api.example.org"},
		{"evil.example", "evil.example", now, "not permitted"},
		{"example.org", "example.org", now, "not permitted"},
		{"xapi.example.org", "xapi.example.org", now, "not permitted"},
		{"*.example.org", "api.example.org", now, "not permitted"},
	} {
		c, err := a.Issue(now, test.issued)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		_, err = leaf.Verify(x509.VerifyOptions{DNSName: test.asked, Roots: roots, CurrentTime: test.at})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("a certificate for %s, for %s: %v, want %q", test.issued, test.asked, err, test.want)
		}
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageCodeSigning} {
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err == nil {
				t.Errorf("a certificate for %s is good for usage %d", test.issued, usage)
			}
		}
	}
	// Somebody with the key, who is not held to names: an address, and an authority below this one.
	for what, change := range map[string]func(*x509.Certificate){
		"an IPv4 address": func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(93, 184, 215, 14).To4()} },
		"an IPv6 address": func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP("2606:4700::1111")} },
		"another authority": func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		},
	} {
		forged, under := forge(t, a, change)
		if err := under(forged, roots); err == nil {
			t.Errorf("the authority vouches for %s", what)
		}
	}
	if _, err := (Authority{Certificate: a.Certificate, Key: []byte("x")}).Issue(now, "api.example.org"); err == nil {
		t.Error("a damaged key was used")
	}
	if _, err := (Authority{Certificate: []byte("x"), Key: a.Key}).Issue(now, "api.example.org"); err == nil {
		t.Error("a damaged certificate was used")
	}
}

// forge makes a certificate with the authority's key. Whether it is one of an authority decides what is verified: itself, or what it signs.
func forge(t *testing.T, a Authority, change func(*x509.Certificate)) (*tls.Certificate, func(*tls.Certificate, *x509.CertPool) error) {
	t.Helper()
	c, err := a.issue(time.Now(), "api.example.org", change)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return c, func(c *tls.Certificate, roots *x509.CertPool) error {
		if !leaf.IsCA {
			_, err := leaf.Verify(x509.VerifyOptions{Roots: roots})
			return err
		}
		key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		below, err := Authority{Certificate: c.Certificate[0], Key: key}.Issue(time.Now(), "api.example.org")
		if err != nil {
			t.Fatal(err)
		}
		last, err := x509.ParseCertificate(below.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		between := x509.NewCertPool()
		between.AddCert(leaf)
		_, err = last.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: "api.example.org"})
		return err
	}
}
