package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/webhook"
)

const hookKey = "an end to end test of hand-offs"

// explainer is a receiver of webhooks that can be away.
type explainer struct {
	*testing.T
	address string
	server  *http.Server

	mu  sync.Mutex
	got map[string]api.HandoffContent // by run and receiver
}

// newExplainer chooses an address, at which nobody is yet.
func newExplainer(t *testing.T) *explainer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &explainer{T: t, address: l.Addr().String(), got: map[string]api.HandoffContent{}}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.leave)
	return e
}

// come answers from now on.
func (e *explainer) come() {
	e.Helper()
	l, err := net.Listen("tcp", e.address)
	if err != nil {
		e.Fatal(err)
	}
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	go e.server.Serve(l)
}

func (e *explainer) leave() {
	if e.server != nil {
		e.server.Close()
		e.server = nil
	}
}

func (e *explainer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	id, at := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
	var c api.HandoffContent
	if err = errors.Join(err, json.Unmarshal(body, &c)); err != nil || r.Header.Get("Webhook-Signature") != "v1,"+webhook.Sign([]byte(hookKey), id, at, body) || id != "handoff_"+c.ID {
		e.Errorf("message %s: %v", id, err)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got[c.Run+" "+c.Receiver] = c
}

// has says what has come of a run.
func (e *explainer) has(run string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for key := range e.got {
		if strings.HasPrefix(key, run+" ") {
			n++
		}
	}
	return n
}

// handOver writes the configuration of hand-offs to the end of s's.
func (e *explainer) handOver(s silk, vault string) {
	e.Helper()
	key := filepath.Join(e.TempDir(), "key")
	err := os.WriteFile(key, []byte(hookKey), 0o600)
	f, openErr := os.OpenFile(s.Config, os.O_APPEND|os.O_WRONLY, 0)
	if err = errors.Join(err, openErr); err != nil {
		e.Fatal(err)
	}
	_, err = fmt.Fprintf(f, "handoffs:\n  sinks:\n    - name: notes\n      vault: %q\n    - name: explainer\n      webhook: {url: %q, secret_file: %q}\n", vault, "http://"+e.address+"/hook", key)
	if err = errors.Join(err, f.Close()); err != nil {
		e.Fatal(err)
	}
}

// verb is a silk that must end with a status.
func verb(t *testing.T, s silk, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := s.Command(t.Context(), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
		t.Fatalf("silk %s: %v, want status %d: %s", strings.Join(args, " "), err, want, errs.String())
	}
	return out.String(), errs.String()
}

// TestHandoffs: a service whose runs fail, break a rule and are killed with it, and a receiver that is away for all of that: each
// hand-off comes, with code and log, and the vault has its notes.
func TestHandoffs(t *testing.T) {
	vault, receiver := t.TempDir(), newExplainer(t)
	s := newServer(t, "")
	receiver.handOver(s.silk, vault)
	s.start()
	ask := func(code string) api.Run {
		body, err := json.Marshal(api.RunRequest{Language: "sh", Code: &code, Note: "Lab/Tour.md", Block: "2"})
		if err != nil {
			t.Fatal(err)
		}
		return decodeAs[api.Run](s, "POST", "/v1/runs", string(body))
	}
	failed, violated, fine := ask("echo out; echo err >&2; exit 3"), ask("cat /etc/shadow"), ask("true")
	for _, r := range []api.Run{failed, violated, fine} {
		s.outcome(r.ID)
	}
	lost := ask("echo before the kill; sleep 60")
	if err := s.frames(lost.ID, func(f api.Frame) bool { return f.Type == api.FrameOutput }); err != nil {
		t.Fatal(err)
	}
	_ = s.stop(syscall.SIGKILL) // which is how it ends
	s.start()
	await(t, func() bool {
		page := decodeAs[api.Page[api.Handoff]](s, "GET", "/v1/handoffs?run="+lost.ID, "")
		return len(page.Items) == 2
	})
	page := decodeAs[api.Page[api.Handoff]](s, "GET", "/v1/handoffs", "")
	if len(page.Items) != 6 {
		t.Errorf("%d hand-offs, want two of each of the three runs", len(page.Items))
	}
	for _, h := range page.Items {
		if h.State != "pending" || h.Run == fine.ID {
			t.Errorf("while the receiver is away: %+v", h)
		}
	}
	receiver.come()
	server := []string{"--server", "unix://" + filepath.Join(s.Home, "silk.sock")}
	for _, h := range page.Items { // whose next attempt may be minutes away
		verb(t, s.silk, 0, append(server, "handoffs", "retry", h.ID)...)
	}
	for _, r := range []api.Run{failed, violated, lost} {
		await(t, func() bool { return receiver.has(r.ID) == 2 })
	}
	c := receiver.got[failed.ID+" code_explainer"]
	if *c.Code.Text != "echo out; echo err >&2; exit 3" || *c.Log.Stdout.Text != "out\n" || *c.Log.Stderr.Text != "err\n" || *c.Outcome.ExitCode != 3 || c.Note != "Lab/Tour.md" || c.Block != "2" {
		t.Errorf("of the run that failed: %+v", c)
	}
	if c := receiver.got[violated.ID+" widow_weaver"]; len(c.Violations) == 0 || c.Violations[0].Rule != "file.accounts" || !c.Violations[0].Ended || c.Code != nil {
		t.Errorf("of the run that broke a rule: %+v", c)
	}
	if c := receiver.got[lost.ID+" code_explainer"]; *c.Code.Text != "echo before the kill; sleep 60" || *c.Log.Stdout.Text != "before the kill\n" || c.Outcome.Kind != "error" || c.Note != "Lab/Tour.md" {
		t.Errorf("of the run that was killed with its server: %+v", c)
	}
	notes, err := filepath.Glob(filepath.Join(vault, "*_*", "*.md"))
	if err != nil || len(notes) != 6 {
		t.Errorf("notes %q, %v", notes, err)
	}
	await(t, func() bool {
		return len(decodeAs[api.Page[api.Handoff]](s, "GET", "/v1/handoffs?state=delivered", "").Items) == 6
	})

	// The command line against the server.
	out, _ := verb(t, s.silk, 0, append(server, "handoffs", "ls", "--run", violated.ID, "--receiver", "code_explainer", "--json")...)
	var list []api.Handoff
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if out, _ := verb(t, s.silk, 0, append(server, "handoffs", "show", list[0].ID[:20])...); !strings.Contains(out, "file.accounts ended the run") || !strings.Contains(out, "cat /etc/shadow\n") {
		t.Errorf("show: %s", out)
	}
	verb(t, s.silk, 0, append(server, "handoffs", "ack", list[0].ID)...)
	if _, stderr := verb(t, s.silk, 1, append(server, "handoffs", "retry", list[0].ID)...); !strings.Contains(stderr, "acknowledged") {
		t.Errorf("retry of what was taken: %s", stderr)
	}
	if err := s.stop(syscall.SIGTERM); err != nil {
		t.Errorf("silk serve: %v: %s", err, s.log)
	}
	if strings.Contains(s.log.String(), "before the kill") || strings.Contains(s.log.String(), hookKey) {
		t.Errorf("the log has code, output or the key: %s", s.log)
	}
}

// TestHandoffsOfTheCommandLine: a receiver that is away does not hold silk run up, and the next one delivers.
func TestHandoffsOfTheCommandLine(t *testing.T) {
	vault, receiver := t.TempDir(), newExplainer(t)
	s := newSilk(t, "lab:text")
	receiver.handOver(s, vault)
	_, stderr := verb(t, s, 3, "run", "-p", "lab:text", "-c", "exit 3")
	if !strings.Contains(stderr, "for the next silk: ") || strings.Contains(stderr, "by notes") {
		t.Errorf("while the receiver is away: %s", stderr)
	}
	receiver.come()
	out, _ := verb(t, s, 0, "handoffs", "ls", "--state", "pending", "--json")
	var list []api.Handoff
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	// The second attempt is due after about five seconds: beside a run that lasts as long.
	verb(t, s, 0, "run", "-p", "lab:text", "-c", "sleep 8")
	if n := receiver.has(list[0].Run); n != 2 {
		t.Errorf("%d hand-offs came beside the next run, want 2", n)
	}
	if notes, err := filepath.Glob(filepath.Join(vault, "*_*", "*.md")); err != nil || len(notes) != 2 {
		t.Errorf("notes %q, %v", notes, err)
	}
	if out, _ := verb(t, s, 0, "handoffs", "ls", "--state", "pending", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("left: %s", out)
	}
	checkState(t, s)
}

// TestHandoffsOfNotes: a block that fails leads to the notes that it became, which lead back, and nothing of them is ever run.
func TestHandoffsOfNotes(t *testing.T) {
	v := newVault(t, "```sh\nexit 3\n```\n", "lab:text")
	newExplainer(t).handOver(v.silk, v.dir)
	if _, stderr, status := v.verb("run", v.note, "--all"); status != 3 {
		t.Errorf("status %d: %s", status, stderr)
	}
	notes, err := filepath.Glob(filepath.Join(v.dir, "Code_Explainer", "*.md"))
	if err != nil || len(notes) != 1 {
		t.Fatalf("notes %q, %v", notes, err)
	}
	name := strings.TrimSuffix(filepath.Base(notes[0]), ".md")
	if text := v.text(); !strings.Contains(text, "[[Code_Explainer/"+name) {
		t.Errorf("the result does not lead to the hand-off: %s", text)
	}
	text, err := os.ReadFile(notes[0])
	if err != nil || !strings.Contains(string(text), "[["+strings.TrimSuffix(filepath.Base(v.note), ".md")+"]]") || !strings.Contains(string(text), "exit 3\n") {
		t.Errorf("the hand-off does not lead back: %v\n%s", err, text)
	}
	v.note = notes[0]
	if stdout, _, _ := v.verb("ls", v.note); strings.Contains(stdout, "runnable") && !strings.Contains(stdout, "off") {
		t.Errorf("blocks of a hand-off: %s", stdout)
	}
	if _, stderr, _ := v.verb("run", v.note, "--all"); v.text() != string(text) {
		t.Errorf("a hand-off was run: %s\n%s", stderr, v.text())
	}
}
