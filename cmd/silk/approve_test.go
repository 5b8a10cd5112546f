//go:build linux

package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/internal/pty"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

// TestAskApproval: a yes on the terminal is an approval of this plan, everything else is none, and who cannot be asked is not.
func TestAskApproval(t *testing.T) {
	open := policy.Request{Client: policy.ClientCLI, Profile: "lab:text", Args: []string{"true"}, Network: profile.NetworkAllow}
	plain, given, beyond, denied := open, open, open, open
	plain.Network = ""
	given.Approve = "x"
	beyond.Client, beyond.Network, beyond.Limits.Timeout = policy.ClientNote, "", 100*profile.Defaults.Timeout
	denied.Mounts = []policy.Mount{{Source: "/nowhere"}}
	for _, test := range []struct {
		name         string
		req          policy.Request
		answer       string
		json         bool
		in, err      bool // are terminals
		asked, grant bool
	}{
		{"yes", open, "yes\n", false, true, true, true, true},
		{"y", open, "y\n", false, true, true, true, true},
		{"Y", open, "Y\n", false, true, true, true, true},
		{"no", open, "n\n", false, true, true, true, false},
		{"nothing", open, "\n", false, true, true, true, false},
		{"something else", open, "yesterday\n", false, true, true, true, false},
		{"the end of the input", open, "\x04", false, true, true, true, false},
		{"a note's limit", beyond, "y\n", false, true, true, true, true},
		{"nothing to ask", plain, "y\n", false, true, true, false, false},
		{"an answer that was given", given, "y\n", false, true, true, false, false},
		{"what no approval grants", denied, "y\n", false, true, true, false, false},
		{"a program reads", open, "y\n", true, true, true, false, false},
		{"no terminal to read from", open, "y\n", false, false, true, false, false},
		{"no terminal to ask on", open, "y\n", false, true, false, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			user, terminal, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer user.Close()
			pipe, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer pipe.Close()
			for _, to := range []io.WriteCloser{user, w} {
				if _, err := io.WriteString(to, test.answer); err != nil {
					t.Fatal(err)
				}
			}
			_ = w.Close()
			var text bytes.Buffer
			a := newApp(nil)
			a.in, a.err, a.json = pipe, &text, test.json
			if test.in {
				a.in = terminal
			}
			if test.err {
				a.err = terminal
			}
			req := test.req
			a.askApproval(&host{config: config{profiles: profile.NewSet()}}, &req, "")
			_ = terminal.Close()
			shown, _ := io.ReadAll(user) // ends with EIO: pts(4)
			if asked := strings.Contains(string(shown)+text.String(), "run it?"); asked != test.asked {
				t.Errorf("asked: %t, want %t: %s%s", asked, test.asked, shown, &text)
			}
			plan, _ := policy.Decide(test.req, mustLookup(t, "lab:text"), policy.Grants{})
			if granted := req.Approve == plan.Hash() && req.Approve != ""; granted != test.grant {
				t.Errorf("approved: %t, want %t", granted, test.grant)
			}
			if !test.grant && req.Approve != test.req.Approve {
				t.Errorf("the approval is %q", req.Approve)
			}
		})
	}
}

func mustLookup(t *testing.T, name string) profile.Profile {
	t.Helper()
	p, err := profile.NewSet().Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
