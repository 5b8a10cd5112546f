//go:build unix

package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// FuzzAPI sends requests that are made from api/openapi.yaml, good ones and others, to a whole service, and compares what comes
// back with what the description promises: see check. What the service must never do in between is in the steps themselves.
func FuzzAPI(f *testing.F) {
	for seed := range 20 {
		f.Add([]byte{byte(seed), byte(seed >> 8)})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x := explore(t, data[:min(len(data), 4096)]) // more says no more
		for range 30 {
			x.step()
		}
		x.end()
	})
}

const (
	// other is a runner whose runs the others' tokens may not see.
	other auth.Role = "other"
	// hidden is in everything that belongs to other.
	hidden = "h1dd3n-0f-0ther"
	// patience is how long any answer may take.
	patience = 20 * time.Second
)

// explorer is one run of the fuzzer against a service of its own.
type explorer struct {
	*stand
	*source

	client  *http.Client
	ids     map[string][]string // what there is, by the names of parameters
	revoked map[auth.Role]bool
	foreign map[string]bool     // ids that belong to other
	keys    map[string]accepted // by token and idempotency key
	made    map[string]bool     // runs that were accepted
}

// accepted is what a request with a key was answered with.
type accepted struct{ body, run string }

// explore makes a service in which something is going on.
func explore(t *testing.T, data []byte) *explorer {
	x := &explorer{
		stand: newStand(t, servetest.Config{Queue: queue.Config{Running: 500, Queued: 500, MemoryBytes: 1 << 50, CPUs: 1 << 20, TokenRunning: 500, TokenQueued: 500}}), source: newSource(data), ids: map[string][]string{}, foreign: map[string]bool{}, revoked: map[auth.Role]bool{}, keys: map[string]accepted{},
		made: map[string]bool{},
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	x.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	_, secret, err := auth.Create(t.Context(), x.DB, auth.New{By: auth.LocalOwner, Name: "other", Role: auth.Runner})
	if err != nil {
		t.Fatal(err)
	}
	x.secrets[other] = secret.Reveal()
	marks := map[auth.Role]string{other: hidden, auth.Runner: "own"}
	for _, role := range []auth.Role{other, auth.Runner} {
		session := get[api.Session](x.stand, call{role: role, method: "POST", path: "/v1/sessions", body: `{"name":"` + marks[role] + `"}`}, 201).ID
		ended := fmt.Sprintf(`{"profile":"test","session":%q,"name":"%[2]s.txt","code":"%[2]s","args":["fake","print:x"],"env":["A=%[2]s"],"stdin":%[2]q}`, session, hidden)
		runs := []string{
			ended,
			`{"profile":"test","args":["fake","print:` + hidden + `","eprint:x","write:a.txt=` + hidden + `"]}`,
			`{"profile":"test","session":"` + session + `","args":["fake","print:x","cat","sleep"],"stdin_open":true,"env":["A=` + hidden + `"]}`,
			`{"profile":"test","args":["fake","cat","sleep","` + hidden + `"],"terminal":{"columns":80,"rows":24}}`,
			`{"profile":"test","args":["fake","print:` + hidden + `"],"limits":{"timeout_ms":7200000}}`, // waits for the owner
		}
		x.ids["session"] = append(x.ids["session"], session)
		x.foreign[session] = role == other
		for i, body := range runs {
			body = strings.ReplaceAll(body, hidden, marks[role])
			r := get[api.Run](x.stand, call{role: role, method: "POST", path: "/v1/runs", body: body}, 201)
			x.ids["run"] = append(x.ids["run"], r.ID)
			x.ids["hash"] = append(x.ids["hash"], r.Hash)
			x.foreign[r.ID], x.made[r.ID] = role == other, true
			if i == 1 {
				x.ended(r.ID)
			}
		}
	}
	x.ids["token"] = []string{"test-viewer", "other"}
	return x
}

// known gives places values that mean something to the service, mostly.
func (x *explorer) known(at string) (any, bool) {
	if x.once(4) {
		return nil, false
	}
	switch at {
	case "body.profile":
		return servetest.Profile, true
	case "body.args":
		if x.once(3) {
			return nil, false
		}
		ops := []any{"fake"}
		for range x.under(4) {
			ops = append(ops, choose(x.source, "print:a\\n", "eprint:\\xff\\x00", "flood:70000", "cat", "read:a.txt", "write:b.txt=b", "write:d/c\\xff=c", "disk:1000", "fork:3",
				"env", "sleep", "exit:7", "signal:9", "violate:file.accounts,openat,/etc/passwd", "alloc:99999999999", "nonsense", ""))
		}
		return ops, true
	case "body.session":
		return choose(x.source, x.ids["session"]...), true
	case "body.hash":
		return choose(x.source, x.ids["hash"]...), true
	case "body.path":
		return "/v1/" + choose(x.source, "runs/"+choose(x.source, x.ids["run"]...), "sessions/"+choose(x.source, x.ids["session"]...)) + "/stream", true
	case "command.type":
		return choose(x.source, "stdin", "stdin_end", "resize", "cancel"), true
	case "command.run":
		return choose(x.source, x.ids["run"]...), true
	case "body.language", "body.driver", "body.isolation", "body.network", "body.require_watch": // which nearly always refuse
		return nil, false
	}
	return nil, false
}

// end ends what runs, as the owner may, and looks whether all ended.
func (x *explorer) end() {
	for id := range x.made {
		resp, text := x.do(call{role: auth.Owner, method: "POST", path: "/v1/runs/" + id + "/cancel"})
		if resp.StatusCode != http.StatusAccepted && resp.StatusCode != http.StatusConflict {
			x.Errorf("cancel run %s: %d %s", id, resp.StatusCode, text)
		}
	}
	for id := range x.made {
		ctx, cancel := context.WithTimeout(x.Context(), patience)
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, x.url+"/v1/runs/"+id+"/stream", nil)
		r.Header.Set("Authorization", "Bearer "+x.secrets[auth.Owner])
		resp, err := x.client.Do(r)
		if err != nil {
			x.Fatalf("watch run %s: %v", id, err)
		}
		text, err := io.ReadAll(resp.Body)
		cancel()
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			x.Errorf("watch run %s: %v", id, err)
		}
		if !strings.Contains(string(text), `"type":"exit"`) {
			x.Fatalf("run %s has no end: %d %s", id, resp.StatusCode, text)
		}
	}
	seen := map[string]bool{}
	for cursor := ""; ; {
		page := get[api.Page[api.Run]](x.stand, call{role: auth.Owner, path: "/v1/runs?state=ended&limit=7&cursor=" + url.QueryEscape(cursor)}, 200)
		for _, r := range page.Items {
			if seen[r.ID] {
				x.Errorf("run %s is listed twice", r.ID)
			}
			seen[r.ID] = true
			if r.Outcome == nil {
				x.Errorf("run %s has ended without an outcome", r.ID)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for id := range x.made {
		if !seen[id] {
			x.Errorf("run %s was accepted and is not among those that have ended", id)
		}
	}
	for began := time.Now(); ; <-time.After(10 * time.Millisecond) { // a log goes after its last viewer has heard the end
		left, err := os.ReadDir(filepath.Join(x.Home, "streams"))
		if err != nil || len(left) == 0 {
			break
		}
		if time.Since(began) > time.Minute {
			x.Errorf("logs of %d runs are left", len(left))
			break
		}
	}
}
