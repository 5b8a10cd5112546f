//go:build unix

package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
)

// String is what a report needs to repeat the request.
func (q *request) String() string {
	body := q.body
	if len(body) > 600 {
		body = append(append([]byte{}, body[:600]...), fmt.Sprintf("... of %d bytes", len(q.body))...)
	}
	return fmt.Sprintf("%s, %s: %s %.300s?%.300s %.600s %s", q.op.id, q.role, q.method, q.path, q.query, fmt.Sprint(q.headers), body)
}

// check compares an answer with the description, and with what must hold of every answer.
func (x *explorer) check(q *request, resp *http.Response, text []byte) {
	x.Helper()
	defer func() {
		if x.Failed() {
			x.Fatalf("%s\nanswer: %d %v %.2000s", q, resp.StatusCode, resp.Header, text)
		}
	}()
	x.leaks(q, resp, text)
	if resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge && len(q.path)+len(q.query) > 20_000 {
		return // net/http's own answer, before there is a request
	}
	method := q.method
	if method == http.MethodHead && q.op.method == http.MethodGet {
		method = http.MethodGet
	}
	status := strconv.Itoa(resp.StatusCode)
	media, documented := q.op.answers[status]
	elsewhere := slices.ContainsFunc(q.refused, func(s int) bool { return s == http.StatusMethodNotAllowed }) // the path is another one
	switch {
	case resp.StatusCode >= 500:
		x.Errorf("status %s", status)
	case method != q.op.method:
		x.otherMethod(q, resp, text)
		return
	case elsewhere && !documented:
		if !slices.Contains(q.refused, resp.StatusCode) && q.role != "" {
			x.Errorf("another path is answered with %s", status)
		}
	case resp.StatusCode == http.StatusNoContent && resp.Header.Get("Access-Control-Allow-Origin") != "":
	case !documented:
		x.Errorf("status %s is not documented", status)
	}
	if documented && q.method != http.MethodHead {
		x.content(resp, media, text)
	}
	kind := resp.Header.Get("Content-Type")
	_, own := media[kind] // a refusal in the operation's own form, which content has looked at
	if resp.StatusCode >= 400 && q.method != http.MethodHead && !(own && kind == "application/json") {
		x.problem(q, resp, text)
	}
	if resp.StatusCode == http.StatusUnauthorized && q.role != "" && !x.revoked[q.role] && !slices.Contains(q.refused, http.StatusUnauthorized) {
		x.Error("the token is good")
	}
	x.allowed(q, resp)
	if resp.StatusCode < 300 && q.method != http.MethodHead {
		x.state(q, resp, text)
	}
}

// otherMethod: a method that the path may not have.
func (x *explorer) otherMethod(q *request, resp *http.Response, text []byte) {
	x.Helper()
	for _, op := range description().ops {
		if op.path == q.op.path && (op.method == q.method || q.method == http.MethodHead && op.method == http.MethodGet) {
			return // it is another operation, to which parameters and body do not belong
		}
	}
	preflight := q.method == http.MethodOptions && resp.StatusCode == http.StatusNoContent
	if resp.StatusCode < 400 && !preflight {
		x.Errorf("a method that the description does not have is answered with %d", resp.StatusCode)
	}
	if resp.StatusCode == http.StatusMethodNotAllowed && resp.Header.Get("Allow") == "" {
		x.Error("405 without Allow: RFC 9110 section 15.5.6")
	}
	if q.method != http.MethodHead && resp.StatusCode >= 400 {
		x.problem(q, resp, text)
	}
}

// content: the media type is documented, and JSON is as its schema says.
func (x *explorer) content(resp *http.Response, media answers, text []byte) {
	x.Helper()
	if len(media) == 0 {
		if len(text) > 0 {
			x.Errorf("a body of %d bytes, and the description has none", len(text))
		}
		return
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	schema, ok := media[kind]
	if _, any := media["*/*"]; err != nil || !ok && !any {
		x.Errorf("content type %q is not documented", resp.Header.Get("Content-Type"))
		return
	}
	if schema == nil {
		return
	}
	values := [][]byte{text}
	if kind == "text/event-stream" {
		values = nil
		for event := range strings.SplitAfterSeq(string(text), "\n\n") {
			_, data, _ := strings.Cut(event, "data: ")
			if strings.HasSuffix(event, "\n\n") { // else it was cut off by us
				values = append(values, []byte(data))
			}
		}
	}
	for _, text := range values {
		v, err := decodeJSON(text)
		if err != nil {
			x.Errorf("the body is no JSON: %.200s", text)
			return
		}
		if err := schema.Validate(v); err != nil {
			x.Errorf("the body is not as documented: %v", err)
		}
	}
}

// problem: problem details say what, and where.
func (x *explorer) problem(q *request, resp *http.Response, text []byte) {
	x.Helper()
	var p api.Problem
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.Status != resp.StatusCode || !strings.HasPrefix(p.Type, "urn:silk:") || p.Title == "" {
		x.Errorf("no problem details: %v", err)
		return
	}
	if resp.Header.Get("Content-Type") != "application/problem+json" {
		x.Errorf("content type %q", resp.Header.Get("Content-Type"))
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		if resp.Header.Get("WWW-Authenticate") == "" {
			x.Error("401 without WWW-Authenticate: RFC 9110 section 15.5.2")
		}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if resp.Header.Get("Retry-After") == "" {
			x.Error("no Retry-After")
		}
	case http.StatusUnprocessableEntity:
		if p.Type == "urn:silk:invalid" && len(p.Errors) == 0 {
			x.Error("nothing says which field is wrong")
		}
	}
	for _, e := range p.Errors {
		root, _, _ := strings.Cut(e.Field, ".")
		root, _, _ = strings.Cut(root, "[")
		if !slices.Contains([]string{"body", "query", "path", "header"}, root) && e.Detail != "and more of the kind" || e.Detail == "" {
			x.Errorf("field %q of a fault: %q", e.Field, e.Detail)
		}
	}
	if resp.StatusCode != http.StatusUnprocessableEntity || len(q.wrong) == 0 || len(q.refused) > 0 {
		return
	}
	named := slices.ContainsFunc(p.Errors, func(e api.FieldError) bool {
		return slices.ContainsFunc(q.wrong, func(place string) bool {
			return e.Field == place || strings.HasPrefix(e.Field, place+".") || strings.HasPrefix(e.Field, place+"[") || e.Detail == "and more of the kind" ||
				strings.Contains(e.Detail, "not UTF-8") // which is looked at first, and no schema can say
		})
	})
	if !named && len(p.Errors) < 20 {
		x.Errorf("wrong are %v, and none of them is named", q.wrong)
	}
}

// owners are operations of owners alone; writers those that are not a viewer's.
var (
	owners  = []string{"list-tokens", "create-token", "revoke-token", "list-audit", "list-approvals", "get-approval", "decide-approval", "revoke-grant", "register-skill", "revoke-skill"}
	writers = []string{"create-run", "cancel-run", "send-input", "resize-terminal", "create-session"}
)

// allowed: who may not, and what is not as described, is not answered with success.
func (x *explorer) allowed(q *request, resp *http.Response) {
	x.Helper()
	if resp.StatusCode == http.StatusUnauthorized && x.revoked[q.role] {
		return
	}
	preflight := resp.StatusCode == http.StatusNoContent && q.method == http.MethodOptions
	good := resp.StatusCode < 300 && !preflight || resp.StatusCode == http.StatusNotModified
	if len(q.refused) > 0 && q.role != "" && !slices.Contains(q.refused, resp.StatusCode) && resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusNotFound &&
		(len(q.wrong) == 0 || resp.StatusCode != http.StatusUnprocessableEntity) {
		x.Errorf("status %d, want one of %v", resp.StatusCode, q.refused)
	}
	if !good {
		return
	}
	switch {
	case q.role == "":
		x.Error("nobody is answered")
	case len(q.wrong) > 0 && len(q.refused) == 0:
		x.Errorf("it is answered, though %v is wrong", q.wrong)
	case slices.Contains(owners, q.op.id) && q.role != auth.Owner, slices.Contains(writers, q.op.id) && q.role == auth.Viewer:
		x.Error("the role may not do that")
	case q.role == auth.Runner && (x.foreign[q.ids["run"]] || x.foreign[q.ids["session"]]):
		x.Error("it belongs to another token")
	}
}

// state: what an answer says of the service holds beside what earlier answers said.
func (x *explorer) state(q *request, resp *http.Response, text []byte) {
	x.Helper()
	switch q.op.id {
	case "create-run":
		var r api.Run
		if err := json.Unmarshal(text, &r); err != nil {
			x.Error(err)
			return
		}
		if want := "/v1/runs/" + r.ID; resp.Header.Get("Location") != want {
			x.Errorf("Location %q, want %q", resp.Header.Get("Location"), want)
		}
		if resp.StatusCode == http.StatusCreated && x.made[r.ID] || resp.StatusCode == http.StatusOK && !x.made[r.ID] {
			x.Errorf("%d for run %s", resp.StatusCode, r.ID)
		}
		x.made[r.ID] = true
		if key := q.headers.Get("Idempotency-Key"); key != "" {
			key = string(q.role) + " " + key
			now := accepted{string(q.body), r.ID}
			if was, ok := x.keys[key]; ok && was.run != now.run {
				x.Errorf("the key made run %s before", was.run)
			}
			x.keys[key] = now
		}
		x.ids["run"], x.ids["hash"] = append(x.ids["run"], r.ID), append(x.ids["hash"], r.Hash)
		x.foreign[r.ID] = q.role != auth.Runner
	case "create-session":
		var s api.Session
		if err := json.Unmarshal(text, &s); err != nil {
			x.Error(err)
		}
		x.ids["session"], x.foreign[s.ID] = append(x.ids["session"], s.ID), q.role != auth.Runner
	case "create-token":
		var made api.MadeToken
		if err := json.Unmarshal(text, &made); err != nil || made.Secret == "" {
			x.Errorf("token %+v, %v", made, err)
		}
		x.secrets[auth.Role("made "+made.ID)] = made.Secret
		x.ids["token"] = append(x.ids["token"], made.ID, made.Name)
	case "revoke-token":
		var gone api.Token
		if err := json.Unmarshal(text, &gone); err != nil {
			x.Error(err)
		}
		x.revoked[auth.Role(strings.TrimPrefix(gone.Name, "test-"))] = true
	case "list-runs":
		var page api.Page[api.Run]
		if err := json.Unmarshal(text, &page); err != nil {
			x.Error(err)
		}
		for i, r := range page.Items {
			if i > 0 && r.ID >= page.Items[i-1].ID {
				x.Errorf("run %s comes after %s", r.ID, page.Items[i-1].ID)
			}
			if q.role == auth.Runner && x.foreign[r.ID] {
				x.Errorf("run %s belongs to another token", r.ID)
			}
		}
	}
}

// leaks: no answer has a path of the host, a secret, what belongs to another token, or a trace of our code.
func (x *explorer) leaks(q *request, resp *http.Response, text []byte) {
	x.Helper()
	all := string(text)
	for name, values := range resp.Header {
		all += "\n" + name + ": " + strings.Join(values, " ")
	}
	for role, secret := range x.secrets {
		if strings.Contains(all, secret) && q.op.id != "create-token" {
			x.Errorf("the secret of %s is in the answer", role)
		}
	}
	for _, word := range []string{x.Home, "/tmp/", "goroutine ", ".go:", "Go struct", "SQL logic", "constraint failed"} {
		if strings.Contains(all, word) && !strings.Contains(string(q.body)+q.path+q.query, word) {
			x.Errorf("%q is in the answer", word)
		}
	}
	if (q.role == auth.Runner || q.role == "") && strings.Contains(all, hidden) {
		x.Error("what belongs to another token is in the answer")
	}
}
