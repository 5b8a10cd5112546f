//go:build unix

package mcp_test

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/silk-sandbox/silk/mcp"
)

// TestBeforeInitialize: what comes too early has an error with a code, and does not end the session.
func TestBeforeInitialize(t *testing.T) {
	engine, _ := localEngine(t)
	r := newUninitialized(t, engine, mcp.Config{})
	for _, test := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"id":1,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_code"}}`, `"id":2,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":3}`, `"id":3,"error":{"code":-32600,`},
		{`{"jsonrpc":"1.0","id":"four","method":"ping"}`, `"id":"four","error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `"id":null,"error":{"code":-32600,`},
		{`[]`, `"id":null,"error":{"code":-32600,`},
		{`[{"jsonrpc":"2.0","id":5,"method":"ping"}]`, `"id":5,"result":{}`},
	} {
		r.send(test.line)
		if got := r.line(); !strings.Contains(got, test.want) {
			t.Errorf("%s is answered with %s", test.line, got)
		}
	}
	r.initialize()
	r.send(`{"jsonrpc":"2.0","id":6,"method":"tools/list"}`)
	if got := r.answer(); got.Error != nil {
		t.Errorf("after initialize: %+v", got)
	}
}

// TestCanceledIsNotAnswered: the next answer after a call that was canceled is that to another one.
func TestCanceledIsNotAnswered(t *testing.T) {
	engine, stand := localEngine(t)
	r := newRaw(t, engine, mcp.Config{})
	started := begun(stand)
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_files","arguments":{"profile":"test","files":[{"path":"a","text":""}],"command":["fake","sleep"]}}}`)
	run := wait(t, started, "the start")
	r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`) // there is none
	r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_status","arguments":{"run":"` + run + `","wait_ms":20000}}}`)
	a := r.answer()
	if a.ID != 2.0 || !strings.Contains(string(a.Result), `"outcome":"canceled"`) {
		t.Errorf("the next answer is %v %s", a.ID, a.Result)
	}
	r.send(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	if a := r.answer(); a.ID != 7.0 {
		t.Errorf("then %v", a.ID)
	}
}

// TestWordsOfFaults: what is wrong with arguments names the field and what is allowed.
func TestWordsOfFaults(t *testing.T) {
	engine, stand := localEngine(t)
	s := connect(t, engine, stand, mcp.Config{})
	for _, test := range []struct {
		tool string
		args args
		want string
	}{
		{"run_code", args{}, "arguments: code is missing"},
		{"run_code", args{"code": 5}, "code is of type integer; it must be of type string"},
		{"run_code", args{"code": "x", "args": "a"}, "args is of type string; it must be of type array"},
		{"run_code", args{"code": "x", "bogus": 1}, "arguments: there is no bogus; there are args, background, code, cpus, "},
		{"run_code", args{"code": "x", "timeout_ms": 0}, "timeout_ms must be 1 or more"},
		{"run_code", args{"code": "x", "cpus": -1}, "cpus must be above 0"},
		{"run_code", args{"code": "x", "network": "allow"}, "network is one of deny, loopback"},
		{"run_files", args{"files": []any{}}, "files must not be empty"},
		{"run_files", args{"files": []any{args{"path": "a", "mode": 3}}}, "files[]: there is no mode; there are base64, executable, path, text"},
		{"run_status", args{"run": "x"}, "run must be the id of a run: 26 digits and capital letters, as run_code returned it"},
		{"run_status", args{"run": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "wait_ms": 99999}, "wait_ms must be 50000 or less"},
	} {
		r, err := s.client.CallTool(t.Context(), &sdk.CallToolParams{Name: test.tool, Arguments: test.args})
		if err != nil || !r.IsError || !strings.HasPrefix(text(r), test.want) {
			t.Errorf("%v: %v, %q, want %q", test.args, err, text(r), test.want)
		}
	}
}
