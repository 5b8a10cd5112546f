package recipe

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAptSources(t *testing.T) {
	tests := []struct {
		name, file, text string
		want             []source
	}{
		{"one line", "a.list", "deb http://one/debian/ trixie main contrib\n", []source{{uri: "http://one/debian", suites: []string{"trixie"}}}},
		{
			"options", "a.list", "deb [arch=amd64 signed-by=/k.gpg trusted=yes] https://one/debian trixie main # x\n",
			[]source{{uri: "https://one/debian", suites: []string{"trixie"}, signedBy: "/k.gpg", trusted: true}},
		},
		{"source packages and comments", "a.list", "deb-src http://one/debian trixie main\n# deb http://two trixie main\n\n", nil},
		{"cdrom and unfinished lines", "a.list", "deb cdrom:[x]/ trixie main\ndeb\ndeb http://one\ndeb [x http://one trixie\n", nil},
		{"another extension", "a.list.disabled", "deb http://one/debian trixie main\n", nil},
		{
			"deb822", "a.sources", "Types: deb deb-src\nURIs: http://one/debian\n https://two/debian/\nSuites: trixie\n trixie-updates\n# x\nComponents: main\nSigned-By: /k.gpg\n",
			[]source{
				{uri: "http://one/debian", suites: []string{"trixie", "trixie-updates"}, signedBy: "/k.gpg"},
				{uri: "https://two/debian", suites: []string{"trixie", "trixie-updates"}, signedBy: "/k.gpg"},
			},
		},
		{
			"deb822, two stanzas, one disabled", "a.sources", "Types: deb\nURIs: http://one\nSuites: x\nEnabled: no\n\n\nTypes: deb\nURIs: http://two\nSuites: x\n",
			[]source{{uri: "http://two", suites: []string{"x"}}},
		},
		{
			"deb822 with an embedded key", "a.sources", "Types: deb\nURIs: http://one\nSuites: x\nSigned-By:\n -----BEGIN\n .\n abc\n",
			[]source{{uri: "http://one", suites: []string{"x"}, signedBy: "\n -----BEGIN\n .\n abc"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "sources.list.d", tt.file), tt.text)
			got, err := aptSources(dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(source{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAptConf(t *testing.T) {
	text := `// comment
# another
/* Acquire::http::Proxy "http://no"; */
APT { NeverAutoRemove { "^x$"; }; Architecture "amd64"; };
Acquire::http { Proxy "http://one:3142"; Proxy::two "DIRECT"; };
Acquire::Retries "3"; DPkg::Post-Invoke {"rm -f /x || true";};
ACQUIRE::HTTP::proxy "http://last:1/";
unfinished "`
	all := parseAptConf(text)
	for key, want := range map[string]string{
		"acquire::http::proxy": "http://last:1/", "Acquire::http::Proxy::two": "DIRECT", "Acquire::Retries": "3", "APT::Architecture": "amd64",
	} {
		if got, _ := lookup(all, key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if _, ok := lookup(all, "DPkg::Post-Invoke"); ok {
		t.Error("a list was taken for a value")
	}
}

func FuzzAptConf(f *testing.F) {
	f.Add(`Acquire { http "x"; } }} ; "`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range parseAptConf(text) {
			if strings.ContainsAny(s.value, `"`) {
				t.Errorf("a quote in value %q", s.value)
			}
		}
		parseDeb822(text)
		parseOneLine(text)
	})
}

func TestArchiveProxy(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "apt.conf.d", "proxy"), `Acquire::http::Proxy "http://apt:3142"; Acquire::http::Proxy::near "DIRECT";`)
	c, err := archiveClient(Config{AptDir: dir, Proxy: func(*http.Request) (*url.URL, error) { return url.Parse("http://env:1") }})
	if err != nil {
		t.Fatal(err)
	}
	none, err := archiveClient(Config{AptDir: t.TempDir(), Proxy: func(*http.Request) (*url.URL, error) { return url.Parse("http://env:1") }})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		client *http.Client
		url    string
		want   string
	}{
		{"apt's proxy", c, "http://far/debian", "http://apt:3142"},
		{"apt's proxy for https", c, "https://far/debian", "http://apt:3142"},
		{"apt says direct", c, "http://near/debian", ""},
		{"the environment's", none, "http://far/debian", "http://env:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodGet, tt.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tt.client.Transport.(*http.Transport).Proxy(req)
			if err != nil {
				t.Fatal(err)
			}
			if text := ""; got != nil {
				if text = got.String(); text != tt.want {
					t.Errorf("proxy = %q, want %q", text, tt.want)
				}
			} else if tt.want != "" {
				t.Errorf("no proxy, want %q", tt.want)
			}
		})
	}
}

func TestMirror(t *testing.T) {
	debian := newArchive(t)
	other := newArchive(t)
	other.files["/dists/trixie/InRelease"] = []byte("Origin: Ubuntu\n")
	empty := newArchive(t)
	delete(empty.files, "/dists/trixie/InRelease")
	local := t.TempDir()
	put(t, filepath.Join(local, "dists/trixie/InRelease"), "Origin: Debian\n")

	tests := []struct {
		name    string
		mirror  string
		sources []string
		want    string
		err     string
	}{
		{name: "given", mirror: debian.URL + "/", want: debian.URL},
		{name: "given, a directory", mirror: "file://" + local, want: "file://" + local},
		{name: "given, but not Debian", mirror: other.URL, err: "not a Debian archive"},
		{name: "given, but no URL", mirror: "debian", err: "not an http, https or file URL"},
		{name: "the first that has the suite", sources: []string{empty.URL, other.URL, debian.URL}, want: debian.URL},
		{name: "none that has it", sources: []string{empty.URL, other.URL}, err: "404 Not Found"},
		{name: "none at all", err: "lists no archive"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config := Config{Mirror: tt.mirror, AptDir: t.TempDir()}
			var list strings.Builder
			for _, s := range tt.sources {
				list.WriteString("deb " + s + " trixie main\n")
			}
			put(t, filepath.Join(config.AptDir, "sources.list"), list.String())
			m := &mirror{config: config, client: client(nil), suite: "trixie"}
			got, err := m.source(t.Context())
			if tt.err == "" && (err != nil || got.uri != tt.want) {
				t.Errorf("mirror = %q, %v, want %q", got.uri, err, tt.want)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error = %v, want %q in it", err, tt.err)
			}
			if tt.err != "" && tt.mirror == "" && !errors.Is(err, ErrNoMirror) {
				t.Errorf("error %v does not say how to name a mirror", err)
			}
		})
	}
}

func TestMirrorErrorHidesPassword(t *testing.T) {
	m := &mirror{config: Config{Mirror: "http://user:hunter2@127.0.0.1:1/debian"}, client: client(nil), suite: "trixie"}
	if _, err := m.source(t.Context()); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error = %v, want one without the password", err)
	}
}

func TestRegistry(t *testing.T) {
	dir := t.TempDir()
	user, system := filepath.Join(dir, "user"), filepath.Join(dir, "system")
	put(t, user, "; x\nfund=false\nregistry = \"https://user/npm/\"\n@scope:registry=https://scope\n")
	put(t, system, "registry=https://system\n")
	for _, tt := range []struct {
		name   string
		config Config
		want   string
	}{
		{"given", Config{NPMRegistry: "https://given/", NPMConfig: []string{user}}, "https://given"},
		{"the user's", Config{NPMConfig: []string{filepath.Join(dir, "absent"), user, system}}, "https://user/npm"},
		{"the system's", Config{NPMConfig: []string{system}}, "https://system"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := registry(t.Context(), tt.config)
			if err != nil || got != tt.want {
				t.Errorf("registry = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	t.Run("none, and no npm", func(t *testing.T) {
		t.Setenv("PATH", dir)
		if _, err := registry(t.Context(), Config{AptDir: t.TempDir()}); !errors.Is(err, ErrNoRegistry) {
			t.Errorf("error = %v, want ErrNoRegistry", err)
		}
	})
}

// put writes a file of a test, and the directory it is in.
func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
