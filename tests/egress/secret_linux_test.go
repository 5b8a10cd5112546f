package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/run"
)

// TestSecretByServer: over the API a run names a secret that the owner has declared, and waits for him; one that he has not is denied, though the
// server's environment has such a variable.
func TestSecretByServer(t *testing.T) {
	const value = "Bearer 77aa01"
	w := enterWorld(t)
	s := newSilk(t, root, "", python)
	lib, err := os.ReadFile(filepath.Join("testdata", "lib.py"))
	token := filepath.Join(s.Dir, "token")
	err = errors.Join(err, os.WriteFile(filepath.Join(s.Dir, "ca.pem"), w.ca.pem, 0o644), os.WriteFile(token, []byte(value+"\n"), 0o600),
		s.configure(fmt.Sprintf("grants: {hosts: ['api.test:443']}\nserve: {listen: '', own_local: true}\negress: {authorities: %q, secrets: {API_TOKEN: %q}}\n", filepath.Join(s.Dir, "ca.pem"), token)))
	if err != nil {
		t.Fatal(err)
	}
	s.Env = append(s.Env, "OTHER=hush", "API_TOKEN=not this one")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the server takes too long"))
	defer cancel()
	c := s.serve(ctx, t)
	code, module := "import os, lib\nprint(os.environ['API_TOKEN'], lib.get('https://api.test/w67rw'))\n", string(lib)
	req := api.RunRequest{
		Profile: python, Code: &code, Files: []api.File{{Path: "lib.py", Text: &module}}, Hosts: []string{"api.test:443"},
		Secrets: []string{"API_TOKEN@api.test:443/Authorization"},
	}
	r, err := c.Submit(ctx, req, "")
	if err != nil || r.State != api.StatePending {
		t.Fatalf("%+v, %v, want one that waits", r, err)
	}
	waits, err := c.Approval(ctx, r.ID)
	if err != nil || !strings.Contains(waits.Detail, "secret API_TOKEN@api.test:443/Authorization") {
		t.Fatalf("%+v, %v", waits, err)
	}
	if out, err := s.Command(ctx, "runs", "approve", r.ID, "--hash", waits.Hash).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := c.Wait(ctx, r.ID)
	if seen := strings.Join(w.of("w67rw", "https"), ""); err != nil || out.Kind != "ok" || !strings.Contains(seen, value) {
		shown, _ := s.Command(ctx, "runs", "show", r.ID).CombinedOutput()
		t.Errorf("%v; the host has seen %q\n%s", err, seen, shown)
	}
	req.Secrets = []string{"OTHER@api.test:443/Authorization"}
	var p *api.Problem
	if r, err := c.Submit(ctx, req, ""); !errors.As(err, &p) || !strings.Contains(p.Detail, "the owner has no secret OTHER for others") {
		t.Errorf("%+v, %v, want it denied", r, err)
	}
}

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
		for _, as := range []who{root, container} {
			t.Run(test.name+" as "+as.name, func(t *testing.T) {
				t.Parallel()
				word, command := test.word, slices.Clone(test.command)
				if as == container { // with a word of its own
					word = strings.Replace(test.word, "w6", "w16", 1)
					for i, text := range command {
						command[i] = strings.ReplaceAll(text, test.word, word)
					}
				}
				authorities := ""
				s := newSilk(t, as, "", test.image)
				if test.trusted {
					authorities = fmt.Sprintf("egress: {authorities: %q}\n", filepath.Join(s.Dir, "ca.pem"))
				}
				lib, err := os.ReadFile(filepath.Join("testdata", "lib.py"))
				err = errors.Join(err, os.WriteFile(filepath.Join(s.Dir, "lib.py"), lib, 0o644), os.WriteFile(filepath.Join(s.Dir, "ca.pem"), w.ca.pem, 0o644), s.configure(authorities))
				if err != nil {
					t.Fatal(err)
				}
				profile := strings.Replace(test.image, "egress:", "", 1)
				s.Env = append(s.Env, "API_TOKEN="+value)
				got, err := s.run(t.Context(), append([]string{"-p", profile, "--net", "api.test:443", "--secret", "API_TOKEN@api.test:443/Authorization", "--file", "lib.py"}, command...)...)
				if err != nil {
					t.Fatal(err)
				}
				said := text(got.outcome.Stdout)
				if got.outcome.Kind != run.OK || !strings.HasPrefix(said, "silk-secret-API_TOKEN") || !strings.Contains(said, test.sees) {
					t.Errorf("%s: %s%s%s; want %q; seen %q", got.outcome.Kind, said, text(got.outcome.Stderr), got.stderr, test.sees, w.of(word, ""))
				}
				seen := strings.Join(w.of(word, "https"), "")
				if through := strings.Contains(test.sees, "hello"); strings.Contains(seen, value) != through || (seen != "") != through {
					t.Errorf("the server has seen %q", seen)
				}
				err = filepath.WalkDir(s.Dir, func(path string, e fs.DirEntry, err error) error {
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
}
