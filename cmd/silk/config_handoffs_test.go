package main

import (
	"strings"
	"testing"
)

// TestHandoffsFaults: what is wrong with a section names the line, the field and what would be right, and nothing else.
func TestHandoffsFaults(t *testing.T) {
	sinks := func(entries ...string) string {
		return "handoffs:\n  sinks:\n    - " + strings.Join(entries, "\n    - ") + "\n"
	}
	const hook = `url: "https://x/", secret_file: /x`
	for _, test := range []struct{ name, text, want string }{
		{"another kind", sinks("{name: a, type: vault}"), `3: unknown key "type" in an entry of sinks; known keys: name, receivers, vault, webhook`},
		{"a slip", sinks("{name: a, vaultt: /v}"), `3: unknown key "vaultt" in an entry of sinks; did you mean "vault"?`},
		{"nowhere", sinks("{name: a}"), `3: sink "a" says nowhere to go; give it vault or webhook`},
		{"both", sinks("{name: a, vault: /v, webhook: {" + hook + "}}"), `3: sink "a" has vault and webhook; make two sinks of them`},
		{"no name", sinks("{vault: /v}"), "3: a sink has no name; give it one of 1 to 40 of a-z, 0-9, - and _"},
		{"a bad name", sinks("{name: A B, vault: /v}"), `3: the name "A B" of a sink is not 1 to 40 of a-z, 0-9, - and _`},
		{"one name twice", sinks("{name: a, vault: /v}", "{name: a, vault: /w}"), `4: two entries of sinks have the name "a"; give one of them another`},
		{"a relative vault", sinks("{name: a, vault: notes}"), `3: sinks: vault is "notes", which is not an absolute path`},
		{"no receivers", sinks("{name: a, vault: /v, receivers: []}"), `3: receivers of sink "a" is empty; leave it out for all of them`},
		{"an unknown receiver", sinks("{name: a, vault: /v, receivers: [bob]}"), `3: receivers of sink "a": there is no receiver "bob"; there are code_explainer and widow_weaver`},
		{"a receiver twice", sinks("{name: a, vault: /v, receivers: [widow_weaver, widow_weaver]}"), `3: receivers of sink "a" has widow_weaver twice`},
		{"an empty webhook", sinks("{name: a, webhook: {}}"), "3: webhook: no url; give the https address that messages go to"},
		{"text for a webhook", sinks(`{name: a, webhook: "https://x/"}`), `3: a webhook must be a mapping (key: value), not "https://x/"`},
		{"no secret", sinks(`{name: a, webhook: {url: "https://x/"}}`), "3: webhook x: no secret_file; name a file with 16 bytes or more, by which the receiver can tell that a message is one of ours"},
		{"a relative secret", sinks(`{name: a, webhook: {url: "https://x/", secret_file: s}}`), `3: webhook: secret_file is "s", which is not an absolute path`},
		{"a bad scheme", sinks(`{name: a, webhook: {url: "ftp://x", secret_file: /x}}`), "3: webhook: the url ftp://x is not https, nor http to a loopback address"},
		{"no URL", sinks(`{name: a, webhook: {url: nonsense, secret_file: /x}}`), `3: webhook: the url "nonsense" is not that of a server, such as https://example.org/silk`},
		{"a long wait", sinks("{name: a, webhook: {" + hook + ", timeout: 5h}}"), "3: webhook x: timeout is 5h0m0s; it is between 0 and 1m0s"},
		{"a mapping of sinks", "handoffs:\n  sinks: {a: {vault: /v}}\n", "2: handoffs: sinks must be a list, not a mapping"},
		{"an unknown outcome", "handoffs:\n  routes: {failled: []}\n", `2: unknown key "failled" in handoffs: routes; did you mean "failed"?`},
		{"off, and something", "handoffs: {off: true, sinks: []}\n", ""},
		{"off, and a sink", "handoffs: {off: true, sinks: [{name: a, vault: /v}]}\n", "1: handoffs has off, and routes or sinks; leave one of them out"},
		{"keep", "handoffs: {keep: forever}\n", `1: handoffs: keep is "forever", which is not a duration above zero such as 5s, 12h or 30d`},
		{"notes", "notes: {auto: [x]}\n", `1: a vault of notes: auto is "x", which is not an absolute path`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseConfig("c.yaml", []byte(test.text))
			got := ""
			if err != nil {
				got = err.Error()
			}
			want := test.want
			if want != "" {
				want = "c.yaml:" + want
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}
