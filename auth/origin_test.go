package auth

import (
	"strings"
	"testing"
)

func TestOrigins(t *testing.T) {
	list := []string{"https://notes.example.org", "https://dev.example.org:8443", "app://obsidian.md", "capacitor://localhost", "http://localhost:*", "http://[::1]:*", "http://[2001:db8::1]:8080"}
	o, err := ParseOrigins(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, value string
		want        bool
	}{
		{"an entry", "https://notes.example.org", true},
		{"an entry with a port", "https://dev.example.org:8443", true},
		{"Obsidian on a desktop", "app://obsidian.md", true},
		{"Obsidian on a phone", "capacitor://localhost", true},
		{"localhost with its own port", "http://localhost", true},
		{"localhost with a port", "http://localhost:5173", true},
		{"localhost by IPv6", "http://[::1]:5173", true},
		{"an IPv6 address with its port", "http://[2001:db8::1]:8080", true},

		{"an IPv6 address with another port", "http://[2001:db8::1]:8081", false},
		{"an IPv6 address written longer", "http://[2001:db8:0::1]:8080", false},
		{"localhost by IPv6 written longer", "http://[0:0:0:0:0:0:0:1]:5173", false},
		{"IPv6 without brackets", "http://::1:5173", false},
		{"a missing port", "https://dev.example.org", false},
		{"an extra port", "https://notes.example.org:8443", false},
		{"a default port", "https://notes.example.org:443", false},
		{"a default port where any is good", "http://localhost:80", false},
		{"another scheme", "http://notes.example.org", false},
		{"another scheme for localhost", "https://localhost:5173", false},
		{"localhost by IPv4, which is not listed", "http://127.0.0.1:5173", false},
		{"capacitor with a port", "capacitor://localhost:1", false},
		{"upper case", "HTTPS://NOTES.EXAMPLE.ORG", false},
		{"a host in upper case", "http://LOCALHOST:5173", false},
		{"a dot at the end", "https://notes.example.org.", false},
		{"localhost with a dot at the end", "http://localhost.:5173", false},
		{"a longer host", "https://notes.example.org.evil.example", false},
		{"a host that ends alike", "https://evilnotes.example.org", false},
		{"a host below", "http://localhost.evil.example:5173", false},
		{"user-info", "https://notes.example.org@evil.example", false},
		{"user-info before", "https://evil@notes.example.org", false},
		{"user-info with localhost", "http://localhost:5173@evil.example", false},
		{"a path", "https://notes.example.org/", false},
		{"a query", "http://localhost:5173?a", false},
		{"a space", " https://notes.example.org", false},
		{"a line break", "https://notes.example.org\n", false},
		{"a line break after localhost", "http://localhost:5173\n", false},
		{"two in one", "https://notes.example.org https://evil.example", false},
		{"port zero", "http://localhost:0", false},
		{"a port with zeros in front", "http://localhost:05173", false},
		{"a port above 65535", "http://localhost:65536", false},
		{"a port that is none", "http://localhost:*", false},
		{"an empty port", "http://localhost:", false},
		{"null", "null", false},
		{"nothing", "", false},
		{"the scheme only", "app://", false},
		{"another host of the app", "app://obsidian.md.evil", false},
		{"a digit that is no ASCII", "http://localhost:５173", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := o.Allowed([]string{test.value}); got != test.want {
				t.Errorf("Allowed(%q) = %t", test.value, got)
			}
		})
	}
	if !o.Allowed(nil) {
		t.Error("a program that is no browser is kept out")
	}
	if o.Allowed([]string{list[0], list[0]}) {
		t.Error("two Origin headers get through")
	}
	var none Origins
	if none.Allowed([]string{"https://notes.example.org"}) || none.Allowed([]string{""}) || none.Allowed([]string{"null"}) || !none.Allowed(nil) {
		t.Error("the zero list is not empty")
	}
	if listed, err := ParseOrigins([]string{"null"}); err != nil || !listed.Allowed([]string{"null"}) || listed.Allowed([]string{"http://localhost"}) {
		t.Errorf("null where it is listed: %v", err)
	}
}

func TestParseOriginsRefuses(t *testing.T) {
	for entry, why := range map[string]string{
		"":                         "is not scheme://host",
		"*":                        "is not scheme://host",
		"https://*.example.org":    "is not scheme://host",
		"example.org":              "is not scheme://host",
		"null:*":                   "is not scheme://host",
		"https://example.org:*":    "only localhost",
		"http://localhost:80:*":    "write http://localhost",
		"http://localhost:8080:*":  "only localhost",
		"https://Example.org":      "write https://example.org",
		"https://example.org/app":  "write https://example.org",
		"https://user@example.org": "write https://example.org",
		"https://example.org:443":  "write https://example.org",
		"http://[0:0:0:0:0:0:0:1]": "write http://[::1]",
		"http://[::1":              "is not scheme://host",
		"http://[1.2.3.4]":         "address that is none",
		"http://[::g]":             "is not scheme://host",
		"http://[1:2]":             "address that is none",
		"http://example.org:70000": "above 65535",
		"https://example.org\n":    "is not scheme://host",
		"javascript:alert(1)":      "is not scheme://host",
	} {
		_, err := ParseOrigins([]string{"https://good.example.org", entry})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", entry, err, why)
		}
	}
	_, err := ParseOrigins([]string{"*", "https://good.example.org", "https://Example.org"})
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("not all faults at once: %v", err)
	}
}

func FuzzOrigins(f *testing.F) {
	o, err := ParseOrigins([]string{"https://a.example", "http://localhost:*"})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"https://a.example", "http://localhost:1", "http://localhost", "null", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if !o.Allowed([]string{value}) || value == "https://a.example" || value == "http://localhost" {
			return
		}
		port, ok := strings.CutPrefix(value, "http://localhost:")
		if !ok || port == "" || len(port) > 5 || strings.Trim(port, "0123456789") != "" {
			t.Errorf("%q is allowed", value)
		}
	})
}

func TestHosts(t *testing.T) {
	h := NewHosts("silk.example.org", "Box.Local")
	for host, want := range map[string]bool{
		"localhost": true, "localhost:7455": true, "LOCALHOST:7455": true, "localhost.": true, "127.0.0.1": true, "127.0.0.1:7455": true,
		"[::1]": true, "[::1]:7455": true, "192.0.2.7:7455": true, "silk.example.org": true, "silk.example.org:443": true, "SILK.example.org.:443": true,
		"box.local": true,

		"": false, "evil.example": false, "evil.example:7455": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"silk.example.org.evil.example": false, "example.org": false, "::1": false, "[::1": false, "[127.0.0.1]": false, "[evil.example]": false, "localhost:": false,
		"localhost:x": false, "localhost:99999": false, ":7455": false, "localhost:1:2": false, "user@localhost": false, "2130706433": false, "0x7f.1": false,
		"silk.example.org..": false,
	} {
		if got := h.Allowed(host); got != want {
			t.Errorf("Allowed(%q) = %t", host, got)
		}
	}
	var zero Hosts
	if !zero.Allowed("localhost") || !zero.Allowed("10.0.0.1:1") || zero.Allowed("silk.example.org") || zero.Allowed("") {
		t.Error("the zero Hosts has other hosts than localhost and addresses")
	}
}
