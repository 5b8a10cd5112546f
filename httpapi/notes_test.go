//go:build unix

package httpapi_test

import (
	"encoding/json"
	"path"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// asJSON is a request body.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNotes goes through what a plugin does: find a block, run it, put the result into the note.
func TestNotes(t *testing.T) {
	s := newStand(t, servetest.Config{})
	const note = "# T\r\n\r\n- ```sh {silk profile=test timeout=5s}\r\n  echo hi\r\n  ```\r\n\r\n```sh {silk profile=test}\r\nother\r\n```\r\n\r\n```rust\r\nfn main() {}\r\n```\r\n"
	blocks := get[api.NoteBlocks](s, call{role: auth.Viewer, method: "POST", path: "/v1/notes/blocks", body: asJSON(t, api.NoteRequest{Text: note})}, 200).Blocks
	if len(blocks) != 3 || !blocks[0].Runnable || blocks[0].Line != 2 || blocks[0].EndLine != 4 || blocks[0].Request.Limits.TimeoutMs != 5000 || blocks[2].Runnable || blocks[2].Reason == "" {
		t.Fatalf("blocks %+v", blocks)
	}
	request := *blocks[0].Request
	request.Args = []string{"print:hi\\n", "write:a/plot.gif=GIF89a"}
	r := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: asJSON(t, request)}, 201)
	s.ended(r.ID)

	ask := api.NoteResultRequest{Text: note, Line: 2, CodeHash: blocks[0].CodeHash, Run: r.ID, Attachments: "files/pictures"}
	put := func(ask api.NoteResultRequest, status int) (out api.NoteText, problem api.Problem) {
		c := call{role: auth.Runner, method: "POST", path: "/v1/notes/result", body: asJSON(t, ask)}
		if status == 200 {
			return get[api.NoteText](s, c, status), problem
		}
		resp, text := s.do(c)
		if err := json.Unmarshal(text, &problem); err != nil || resp.StatusCode != status {
			t.Fatalf("%d %s, want %d", resp.StatusCode, text, status)
		}
		return out, problem
	}
	got, _ := put(ask, 200)
	title := "  > [!quote]- silk-sandbox output · ok · exit 0 · "
	if !strings.Contains(got.Text, "  ```\r\n"+title) || !strings.Contains(got.Text, " · run "+r.ID+"\r\n") || strings.Count(got.Text, "\n") != strings.Count(got.Text, "\r\n") || got.Line != 2 {
		t.Errorf("note %q", got.Text)
	}
	if len(got.Images) != 1 || got.Images[0].Artifact != "a/plot.gif" || !strings.Contains(got.Text, "![["+got.Images[0].Path+"]]") || !strings.HasPrefix(got.Images[0].Path, "files/pictures/silk-"+r.ID+"/") {
		t.Errorf("images %+v in %q", got.Images, got.Text)
	}
	again := ask
	again.Text = got.Text
	if twice, _ := put(again, 200); twice.Text != got.Text {
		t.Errorf("a second time: %q, want %q", twice.Text, got.Text)
	}
	found := get[api.NoteBlocks](s, call{role: auth.Runner, method: "POST", path: "/v1/notes/blocks", body: asJSON(t, api.NoteRequest{Text: got.Text})}, 200).Blocks
	if len(found) != 3 || found[0].Result == nil || found[0].Result.Run != r.ID || found[0].CodeHash != blocks[0].CodeHash {
		t.Errorf("blocks of the new note %+v", found)
	}

	clean := api.NoteCleanRequest{Text: got.Text, Line: 2, CodeHash: blocks[0].CodeHash}
	cleanCall := func() call {
		return call{role: auth.Viewer, method: "POST", path: "/v1/notes/clean", body: asJSON(t, clean)}
	}
	if out := get[api.NoteText](s, cleanCall(), 200); out.Text != note || out.Line != 2 || len(out.Images) != 0 || len(out.Unused) != 1 || out.Unused[0] != got.Images[0].Path {
		t.Errorf("cleaned: %+v", out)
	}
	for _, shown := range []string{got.Images[0].Path, path.Base(got.Images[0].Path) + "|200"} {
		clean.Text = got.Text + "\r\nAs ![[" + shown + "]] shows.\r\n"
		if out := get[api.NoteText](s, cleanCall(), 200); len(out.Unused) != 0 {
			t.Errorf("unused is what the note shows elsewhere: %q", out.Unused)
		}
	}
	clean.Text = note
	if out := get[api.NoteText](s, cleanCall(), 200); out.Text != note || len(out.Unused) != 0 {
		t.Errorf("nothing to clean: %+v", out)
	}
	clean.Text = "# T"
	if resp, text := s.do(cleanCall()); resp.StatusCode != 409 || !strings.Contains(string(text), "urn:silk:block-not-found") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	bare := again
	bare.Attachments = ""
	if out, _ := put(bare, 200); len(out.Unused) != 1 || out.Unused[0] != got.Images[0].Path {
		t.Errorf("a result without its picture: unused %q", out.Unused)
	}

	for _, test := range []struct {
		name   string
		change func(*api.NoteResultRequest)
		status int
		kind   string
	}{
		{"the block is gone", func(a *api.NoteResultRequest) { a.Text = "# T" }, 409, "block-not-found"},
		{"another block's code", func(a *api.NoteResultRequest) { a.Line, a.CodeHash = 6, blocks[1].CodeHash }, 409, "other-code"},
		{"an unknown run", func(a *api.NoteResultRequest) { a.Run = someRun }, 404, "not-found"},
		{"too large a note", func(a *api.NoteResultRequest) { a.Text += strings.Repeat("x", 4<<20) }, 413, "note-too-large"},
		{"too large a note before", func(a *api.NoteResultRequest) { long := strings.Repeat("é", 2<<20+1); a.Before = &long }, 413, "note-too-large"},
		{"a folder outside of the vault", func(a *api.NoteResultRequest) { a.Attachments = "../x" }, 422, "invalid"},
		{"a copy that nothing tells apart", func(a *api.NoteResultRequest) { a.Text, a.Line = note+note, 1 }, 409, "block-not-found"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ask := ask
			test.change(&ask)
			if _, p := put(ask, test.status); p.Type != "urn:silk:"+test.kind {
				t.Errorf("problem %+v", p)
			}
		})
	}
	for _, path := range []string{"/v1/notes/blocks", "/v1/notes/clean"} {
		body := asJSON(t, api.NoteCleanRequest{Text: strings.Repeat("x", 4<<20+1), CodeHash: blocks[0].CodeHash})
		if path == "/v1/notes/blocks" {
			body = asJSON(t, api.NoteRequest{Text: strings.Repeat("x", 4<<20+1)})
		}
		if resp, text := s.do(call{role: auth.Viewer, method: "POST", path: path, body: body}); resp.StatusCode != 413 || !strings.Contains(string(text), "it has 4194305 bytes, and a note 4194304 at most") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	moved := ask
	moved.Before, moved.Text = &moved.Text, "new\r\n"+note+"\r\n"+note
	before := note + "\r\n" + note
	moved.Before = &before
	if out, _ := put(moved, 200); out.Line != 3 {
		t.Errorf("a copy of the block, moved: line %d", out.Line)
	}
	waits := get[api.Run](s, call{role: auth.Runner, method: "POST", path: "/v1/runs", body: wideBody()}, 201)
	ask.Run = waits.ID
	if _, p := put(ask, 409); p.Type != "urn:silk:state" {
		t.Errorf("a run that has not ended: %+v", p)
	}
}
