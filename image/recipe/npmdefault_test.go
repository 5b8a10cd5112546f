package recipe

import (
	"net/url"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
)

func TestNPMRegistryDefault(t *testing.T) {
	text := "define('prefer-online', {\n  default: false,\n})\n\ndefine('registry', {\n  default: 'https://registry.invalid/',\n  type: url,\n})\n" +
		"define('replace-registry-host', {\n  default: 'npmjs',\n})\n"
	got := npmRegistryDefault().FindStringSubmatch(text)
	if got == nil || got[1] != "https://registry.invalid/" {
		t.Errorf("found %q", got)
	}
	if got := npmRegistryDefault().FindString("define('registry', {\n  type: url,\n})\ndefine('x', {\n  default: 'https://other.invalid/',\n})"); got != "" {
		t.Errorf("found the default of another key: %q", got)
	}
}

// TestNPMDefault reads the real package through this host's own archive.
func TestNPMDefault(t *testing.T) {
	testenv.Require(t, testenv.Apt)
	got, err := npmDefault(t.Context(), Config{Cache: t.TempDir()}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	if u, err := url.Parse(got); err != nil || u.Host == "" || u.Scheme != "https" {
		t.Errorf("npm's default registry is %q, want an https URL", redact(got))
	}
}
