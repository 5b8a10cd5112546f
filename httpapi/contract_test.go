//go:build unix

package httpapi_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// documented is one operation of api/openapi.yaml.
type documented struct {
	method, path string
	statuses     []string
	pattern      *regexp.Regexp
}

// spec reads the operations of the committed description.
var spec = sync.OnceValue(func() (ops []documented) {
	text, err := os.ReadFile("../api/openapi.yaml")
	if err != nil {
		panic(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]any `yaml:"responses"`
		} `yaml:"paths"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		panic(err)
	}
	braces := regexp.MustCompile(`\\\{[a-z]+\\\}`)
	for path, item := range doc.Paths {
		for method, op := range item {
			pattern := regexp.MustCompile("^" + braces.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
			ops = append(ops, documented{strings.ToUpper(method), path, slices.Sorted(maps.Keys(op.Responses)), pattern})
		}
	}
	return ops
})

// produced are the answers that tests have got, by method, path and status of the description.
var produced = struct {
	sync.Mutex
	answers map[string]bool
}{answers: map[string]bool{}}

// note remembers an answer, and says if it is one that the description does not know.
func note(method, path string, status int) error {
	path, _, _ = strings.Cut(path, "?")
	for _, op := range spec() {
		if op.method == method && op.pattern.MatchString(path) {
			key := fmt.Sprint(status)
			produced.Lock()
			produced.answers[op.method+" "+op.path+" "+key] = true
			produced.Unlock()
			if !slices.Contains(op.statuses, key) {
				return fmt.Errorf("%s %s answers %d, which api/openapi.yaml does not have", op.method, op.path, status)
			}
			return nil
		}
	}
	return nil
}

// needed are the documented answers that a test must produce. Faults of the host, a full disk, a server that stops, and too many
// requests are the same for each operation, and are tested for one.
func needed(status string) bool {
	return !slices.Contains([]string{"429", "500", "503", "507"}, status)
}

func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	if status == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" {
		for _, op := range spec() {
			for _, s := range op.statuses {
				if key := op.method + " " + op.path + " " + s; needed(s) && !produced.answers[key] {
					fmt.Println("no test produces", key)
					status = 1
				}
			}
		}
	}
	os.Exit(status)
}

// maxValues of one body is what the server allows.
const maxValues = 200_000

const someRun = "01M8MV0DH06CVWRW20Q0DREDWD"

// example is a path of the operation that exists in form.
func (d documented) example() string {
	return regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllStringFunc(d.path, func(name string) string {
		if name == "{channel}" {
			return "stdout"
		}
		return someRun
	})
}

// TestEveryOperation: what is the same for all: no credentials, a page of a foreign origin, another host's name, a parameter that
// there is not, an id of nothing, and bodies that are no JSON, a form, or too long.
func TestEveryOperation(t *testing.T) {
	s := newStand(t, servetest.Config{})
	for i, op := range spec() {
		body := ""
		if op.method == http.MethodPost {
			body = "{}"
		}
		path := op.example()
		for name, c := range map[string]call{
			"no credentials":      {method: op.method, path: path, body: body, from: fmt.Sprintf("127.0.0.%d", i+2)}, // each address may fail some times
			"a foreign origin":    {role: auth.Owner, method: op.method, path: path, body: body, headers: map[string]string{"Origin": "https://evil.example"}},
			"a strange parameter": {role: auth.Owner, method: op.method, path: path + "?nonsense=1", body: body},
			"nothing of that id":  {role: auth.Owner, method: op.method, path: path, body: body},
			"an endless id":       {role: auth.Owner, method: op.method, path: strings.Replace(path, someRun, strings.Repeat("A", 5000), 1), body: body},
			"another host":        {role: auth.Owner, method: op.method, path: path, body: body, headers: map[string]string{"Host": "evil.example"}},
			"no JSON":             {role: auth.Owner, method: op.method, path: path, body: strings.Replace(body, "}", "x", 1)},
			"a form":              {role: auth.Owner, method: op.method, path: path, body: body, headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
			"too many values":     {role: auth.Owner, method: op.method, path: path, body: strings.Replace(body, "}", `"args":[`+strings.Repeat("0,", maxValues)+"0]}", 1)},
		} {
			resp, text := s.do(c)
			var p api.Problem
			if len(text) > 2000 && resp.StatusCode >= 400 {
				t.Errorf("%s %s, %s: a problem of %d bytes", op.method, path, name, len(text))
			}
			if resp.StatusCode >= 500 {
				t.Errorf("%s %s, %s: %d %s", op.method, path, name, resp.StatusCode, text)
			}
			published := strings.HasPrefix(op.path, "/v1/skills") && resp.Header.Get("Content-Type") == "application/json" // bodies of their own
			if resp.StatusCode >= 400 && !published && (json.Unmarshal(text, &p) != nil || p.Status != resp.StatusCode || p.Type == "") {
				t.Errorf("%s %s, %s: %d %s is no problem", op.method, path, name, resp.StatusCode, text)
			}
		}
	}
}

// TestRest produces what the other tests do not.
func TestRest(t *testing.T) {
	s := newStand(t, servetest.Config{})
	done := s.submit("write:a.txt=hello")
	s.ended(done.ID)
	waiting := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: wideBody()}, 201)
	open := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: `{"profile":"test","args":["fake","cat","sleep"],"stdin_open":true}`}, 201)
	term := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: `{"profile":"test","args":["fake","sleep"],"terminal":{"columns":80,"rows":24}}`}, 201)
	resp, text := s.do(call{role: auth.Runner, path: "/v1/runs/" + done.ID + "/artifact?path=a.txt"})
	tag := resp.Header.Get("ETag")
	if resp.StatusCode != 200 || string(text) != "hello" {
		t.Errorf("artifact: %d %s", resp.StatusCode, text)
	}
	a := get[api.Approval](s, call{role: auth.Owner, path: "/v1/approvals/" + waiting.ID}, 200)
	get[api.Approval](s, call{role: auth.Owner, method: "POST", path: "/v1/approvals/" + waiting.ID + "/decision", body: fmt.Sprintf(`{"grant":true,"hash":%q,"for_hours":1}`, a.Hash)}, 200)
	gone := get[api.MadeToken](s, call{role: auth.Owner, method: "POST", path: "/v1/tokens", body: `{"name":"gone","role":"viewer"}`}, 201)
	const elsewhere = "01ARZ3NDEKTSV4RRFFQ69G5FAV" // a run of the command line, say
	if err := s.DB.Update(t.Context(), func(tx *sql.Tx) error {
		return record.Begin(t.Context(), tx, s.Home, record.Entry{Record: record.Record{Run: elsewhere, Client: "cli", RequestSHA256: strings.Repeat("0", 64)}})
	}); err != nil {
		t.Fatal(err)
	}
	decision := fmt.Sprintf(`{"grant":true,"hash":%q}`, strings.Repeat("0", 64))
	run := "/v1/runs/"
	for _, test := range []struct {
		call   call
		status int
	}{
		{call{path: run + done.ID + "/artifact?path=a.txt", headers: map[string]string{"If-None-Match": tag}}, 304},
		{call{path: run + done.ID + "/artifact?path=a.txt", headers: map[string]string{"Range": "bytes=9-"}}, 416},
		{call{path: run + done.ID + "/artifact?path=a.txt", headers: map[string]string{"If-Match": `"another"`}}, 412},
		{call{path: run + done.ID + "/artifact?path=b.txt"}, 404},
		{call{path: run + open.ID + "/artifact?path=a.txt"}, 409},
		{call{path: run + someRun + "/record"}, 404},
		{call{path: run + done.ID + "/envelope"}, 200},
		{call{path: run + open.ID + "/envelope"}, 409},
		{call{path: run + someRun + "/envelope"}, 404},
		{call{path: run + done.ID + "/bundle"}, 200},
		{call{path: run + open.ID + "/bundle"}, 409},
		{call{path: run + someRun + "/bundle"}, 404},
		{call{method: "POST", path: run + done.ID + "/cancel"}, 409},
		{call{method: "POST", path: run + open.ID + "/stdin", body: `{"data":"x"}`}, 200},
		{call{method: "POST", path: run + done.ID + "/stdin", body: `{"data":"x"}`}, 409},
		{call{method: "POST", path: run + someRun + "/stdin", body: `{"data":"x"}`}, 404},
		{call{method: "POST", path: run + term.ID + "/size", body: `{"columns":100,"rows":30}`}, 204},
		{call{method: "POST", path: run + done.ID + "/size", body: `{"columns":100,"rows":30}`}, 409},
		{call{method: "POST", path: run + someRun + "/size", body: `{"columns":100,"rows":30}`}, 404},
		{call{method: "POST", path: "/v1/runs", body: `{"profile":"test","args":["x"],"session":"` + someRun + `"}`}, 404},
		{call{method: "POST", path: "/v1/runs", body: `{"args":["` + strings.Repeat("x", 64<<20) + `"]}`}, 413},
		{call{method: "POST", path: "/v1/approvals/" + someRun + "/decision", body: decision}, 404},
		{call{path: "/v1/tokens"}, 200},
		{call{method: "DELETE", path: "/v1/tokens/" + gone.ID}, 200},
		{call{method: "DELETE", path: "/v1/tokens/" + gone.ID}, 409},
		{call{path: run + elsewhere + "/stream"}, 409},
		{call{method: "DELETE", path: "/v1/approvals/" + waiting.ID + "/grant"}, 200},
		{call{method: "DELETE", path: "/v1/approvals/" + waiting.ID + "/grant"}, 409},
		{call{method: "POST", path: run + open.ID + "/cancel"}, 202},
		{call{method: "POST", path: run + term.ID + "/cancel"}, 202},
	} {
		test.call.role = auth.Owner
		if resp, text := s.do(test.call); resp.StatusCode != test.status {
			t.Errorf("%s %.80s: %d %.200s, want %d", test.call.method, test.call.path, resp.StatusCode, text, test.status)
		}
	}
	for _, r := range []api.Run{open, term, waiting} {
		s.ended(r.ID)
	}
	session := get[api.Session](s, call{role: auth.Runner, method: "POST", path: "/v1/sessions", body: `{}`}, 201)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	path := "/v1/sessions/" + session.ID + "/stream"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.secrets[auth.Runner])
	resp, err = (&http.Transport{}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := note(http.MethodGet, path, resp.StatusCode); err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("events of a session: %d %v, %v", resp.StatusCode, resp.Header, err)
	}
}
