//go:build unix

package httpapi_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// schema is the published one.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("../api/handoff.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:silk:schema:handoff:v1", doc); err != nil {
		t.Fatal(err)
	}
	sch, err := c.Compile("urn:silk:schema:handoff:v1")
	if err != nil {
		t.Fatal(err)
	}
	return sch
}

// TestHandoffs: a run of a note fails; what is handed on of it is what the schema says, seen by whom its run is, and taken once.
func TestHandoffs(t *testing.T) {
	o, err := handoff.New(handoff.Config{Sinks: []handoff.Sink{{Name: "notes", Vault: t.TempDir()}}})
	if err != nil {
		t.Fatal(err)
	}
	s := newStand(t, servetest.Config{Serve: serve.Config{Handoffs: o}})
	run := get[api.Run](s, call{
		role: auth.Runner, method: "POST", path: "/v1/runs",
		body: `{"profile":"test","code":"the code","name":"main.sh","args":["print:out\\n","eprint:err\\n","exit:3"],"note":"Lab/Tour.md","block":"b1"}`,
	}, 201)
	s.ended(run.ID)
	fine := get[api.Run](s, call{role: auth.Owner, method: "POST", path: "/v1/runs", body: `{"profile":"test","args":["fake"]}`}, 201)
	s.ended(fine.ID)
	denied := get[api.Page[api.Handoff]](s, call{role: auth.Owner, path: "/v1/handoffs?outcome=denied"}, 200)
	if len(denied.Items) != 0 {
		t.Errorf("of runs that were denied: %+v", denied)
	}

	list := get[api.Page[api.Handoff]](s, call{role: auth.Runner, path: "/v1/handoffs"}, 200)
	if len(list.Items) != 2 || list.Next != "" || list.Items[0].Run != run.ID || list.Items[0].State != "pending" || list.Items[0].Content != nil || list.Items[0].Outcome != "failed" {
		t.Fatalf("%+v", list)
	}
	page := get[api.Page[api.Handoff]](s, call{role: auth.Viewer, path: "/v1/handoffs?limit=1"}, 200)
	if len(page.Items) != 1 || page.Next != page.Items[0].ID {
		t.Errorf("%+v", page)
	}
	page = get[api.Page[api.Handoff]](s, call{role: auth.Viewer, path: "/v1/handoffs?limit=1&cursor=" + page.Next}, 200)
	if len(page.Items) != 1 || page.Next != "" || page.Items[0].ID != list.Items[1].ID {
		t.Errorf("the second page: %+v", page)
	}
	list = get[api.Page[api.Handoff]](s, call{role: auth.Runner, path: "/v1/handoffs?receiver=code_explainer&run=" + run.ID}, 200)
	if len(list.Items) != 1 {
		t.Fatalf("%+v", list)
	}
	path := "/v1/handoffs/" + list.Items[0].ID

	_, text := s.do(call{role: auth.Runner, path: path})
	var whole struct {
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(whole.Content))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema(t).Validate(doc); err != nil {
		t.Error(err)
	}
	doc.(map[string]any)["added later"] = true
	if err := schema(t).Validate(doc); err != nil {
		t.Errorf("a field that was added later: %v", err)
	}
	delete(doc.(map[string]any), "outcome")
	if schema(t).Validate(doc) == nil {
		t.Error("the schema takes one without an outcome")
	}
	h := get[api.Handoff](s, call{role: auth.Runner, path: path}, 200)
	c := h.Content
	if *c.Code.Text != "the code" || c.Code.Name != "main.sh" || c.Note != "Lab/Tour.md" || c.Block != "b1" || *c.Log.Stdout.Text != "out\n" || *c.Log.Stderr.Text != "err\n" ||
		c.Run != run.ID || c.Outcome.Kind != "failed" || *c.Outcome.ExitCode != 3 {
		t.Errorf("%s", text)
	}

	// Who only watches does not get the code; who has another token, not even this.
	if h := get[api.Handoff](s, call{role: auth.Viewer, path: path}, 200); h.Content.Code.Text != nil || h.Content.Code.Omitted == "" || *h.Content.Log.Stdout.Text != "out\n" {
		t.Errorf("a viewer sees %+v", h.Content.Code)
	}
	if h := get[api.Handoff](s, call{role: auth.Owner, path: path}, 200); h.Content.Code.Text == nil {
		t.Error("the owner does not see the code")
	}
	_, secret, err := auth.Create(t.Context(), s.DB, auth.New{By: auth.LocalOwner, Name: "another", Role: auth.Runner})
	if err != nil {
		t.Fatal(err)
	}
	s.secrets["another"] = secret.Reveal()
	for _, below := range []string{"", "/ack", "/retry"} {
		method := http.MethodPost
		if below == "" {
			method = http.MethodGet
		}
		for role, want := range map[auth.Role]int{"another": 404, auth.Viewer: 403, "": 401} {
			if below == "" && role == auth.Viewer {
				continue
			}
			if resp, text := s.do(call{role: role, method: method, path: path + below}); resp.StatusCode != want {
				t.Errorf("%s%s by %q: %d %s, want %d", method, below, role, resp.StatusCode, text, want)
			}
		}
		if resp, _ := s.do(call{role: auth.Owner, method: method, path: "/v1/handoffs/01KB0000000000000000000000" + below}); resp.StatusCode != 404 {
			t.Errorf("%s of one that is not there: %d", below, resp.StatusCode)
		}
	}
	if list := get[api.Page[api.Handoff]](s, call{role: "another", path: "/v1/handoffs"}, 200); len(list.Items) != 0 {
		t.Errorf("another token sees %+v", list)
	}

	if h := get[api.Handoff](s, call{role: auth.Runner, method: "POST", path: path + "/retry"}, 200); h.State != "pending" || len(h.Deliveries) != 1 || h.Deliveries[0].Sink != "notes" {
		t.Errorf("%+v", h)
	}
	// What is wrong with the owner's sinks is for owners.
	if err := s.DB.Update(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE handoff_deliveries SET error = 'open /home/ann: gone'")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, text := s.do(call{role: auth.Runner, path: path}); strings.Contains(string(text), "/home/ann") {
		t.Errorf("a runner sees %s", text)
	}
	if _, text := s.do(call{role: auth.Owner, path: path}); !strings.Contains(string(text), "/home/ann") {
		t.Errorf("the owner sees %s", text)
	}
	for range 2 {
		if h := get[api.Handoff](s, call{role: auth.Runner, method: "POST", path: path + "/ack"}, 200); h.State != "acked" || h.AckedAtMs == 0 || h.Deliveries[0].State != "dropped" {
			t.Errorf("%+v", h)
		}
	}
	if resp, text := s.do(call{role: auth.Runner, method: "POST", path: path + "/retry"}); resp.StatusCode != 409 || !strings.Contains(string(text), "urn:silk:acked") {
		t.Errorf("a retry of what was taken: %d %s", resp.StatusCode, text)
	}
}

// TestRequestHashWithoutNote: where the code is from is no part of what an owner approves.
func TestRequestHashWithoutNote(t *testing.T) {
	s := newStand(t, servetest.Config{Idle: true})
	hashes := map[string]bool{}
	for _, body := range []string{`{"profile":"test","args":["x"]}`, `{"profile":"test","args":["x"],"note":"a.md","block":"1"}`} {
		hashes[get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: body}, 201).Hash] = true
	}
	if len(hashes) != 1 {
		t.Errorf("%d hashes, want one", len(hashes))
	}
}
