package egress

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/run"
)

// TestSecret: a server that the owner's authority vouches for gets a credential that neither the program nor any file of silk's has.
func TestSecret(t *testing.T) {
	const value = "Bearer 4f1c9b0e7a"
	w := enterWorld(t)
	for _, test := range []struct {
		name, image, word string
		command           []string
		trusted           bool // by the gateway
		sees              string
	}{
		{"python", python, "w61rw", []string{"-c", `
import os, lib
print(os.environ["API_TOKEN"], lib.get("https://api.test/w61rw"))`}, true, "200 hello from https"},
		{"python, in a header of its own", python, "w62rw", []string{"-c", `
import os, lib
print(os.environ["API_TOKEN"], lib.get("https://api.test/w62rw", headers={"Authorization": os.environ["API_TOKEN"]}))`}, true, "200 hello from https"},
		{"node", node, "w63rw", []string{"-c", `
const answer = await fetch("https://api.test/w63rw");
console.log(process.env.API_TOKEN, answer.status, await answer.text());`}, true, "200 hello from https"},
		{"curl", curl, "w64rw", []string{"--", "sh", "-c", `echo $API_TOKEN $(curl -sS -w '%{http_code} ' https://api.test/w64rw)`}, true, "hello from https"},
		{"another host inside TLS, which is read here", python, "w65rw", []string{"-c", `
import os, lib
print(os.environ["API_TOKEN"])
try:
    print(lib.get("https://api.test/w65rw", headers={"Host": "other.test"}))
except OSError as e:
    print(e)`}, true, "403"},
		{"a server that nobody vouches for", python, "w66rw", []string{"-c", `
import os, lib
print(os.environ["API_TOKEN"])
try:
    print(lib.get("https://api.test/w66rw"))
except OSError as e:
    print(e)`}, false, "502"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			authorities := ""
			s := newSilk(t, nil, "", test.image)
			if test.trusted {
				authorities = fmt.Sprintf("egress: {authorities: %q}\n", filepath.Join(s.dir, "ca.pem"))
			}
			lib, err := os.ReadFile(filepath.Join("testdata", "lib.py"))
			err = errors.Join(err, os.WriteFile(filepath.Join(s.dir, "lib.py"), lib, 0o644), os.WriteFile(filepath.Join(s.dir, "ca.pem"), w.ca.pem, 0o644), s.configure(authorities))
			if err != nil {
				t.Fatal(err)
			}
			profile := strings.Replace(test.image, "egress:", "", 1)
			s.env = append(s.env, "API_TOKEN="+value)
			got, err := s.run(t.Context(), append([]string{"-p", profile, "--net", "api.test:443", "--secret", "API_TOKEN@api.test:443/Authorization", "--file", "lib.py"}, test.command...)...)
			if err != nil {
				t.Fatal(err)
			}
			said := text(got.outcome.Stdout)
			if got.outcome.Kind != run.OK || !strings.HasPrefix(said, "silk-secret-API_TOKEN") || !strings.Contains(said, test.sees) {
				t.Errorf("%s: %s%s%s; want %q; seen %q", got.outcome.Kind, said, text(got.outcome.Stderr), got.stderr, test.sees, w.of(test.word, ""))
			}
			seen := strings.Join(w.of(test.word, "https"), "")
			if through := strings.Contains(test.sees, "hello"); strings.Contains(seen, value) != through || (seen != "") != through {
				t.Errorf("the server has seen %q", seen)
			}
			err = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() {
					return err
				}
				content, err := os.ReadFile(path)
				if bytes.Contains(content, []byte(value)) || bytes.Contains(content, []byte("4f1c9b0e7a")) {
					t.Errorf("%s has the credential", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
