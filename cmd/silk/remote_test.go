//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/httpapi"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/serve/servetest"
)

// remoteStand is a whole service behind its door, and command lines for it.
type remoteStand struct {
	*testing.T
	Stand  *servetest.Stand
	url    string
	tokens map[auth.Role]string
	dir    string // working directory of what the user names
}

func newRemoteStand(t *testing.T) *remoteStand { return newRemoteStandOf(t, servetest.Config{}) }

func newRemoteStandOf(t *testing.T, cfg servetest.Config) *remoteStand {
	t.Helper()
	stand := servetest.New(t, cfg)
	s := &remoteStand{T: t, Stand: stand, tokens: map[auth.Role]string{}, dir: t.TempDir()}
	verifier := auth.NewVerifier(stand.DB, auth.VerifierConfig{})
	handler, err := httpapi.New(httpapi.Config{
		Server: stand.Server, DB: stand.DB, Verifier: verifier, Tickets: auth.NewTickets(verifier, auth.TicketsConfig{}),
		Profiles: func() ([]api.Profile, error) {
			return []api.Profile{{Name: servetest.Profile, Image: servetest.Profile, Language: "sh", Network: "deny", Limits: toLimits(profile.Defaults)}}, nil
		},
		SkillDir: (&host{config: config{grants: policy.Grants{Stores: []string{s.dir}}}}).skillDir,
		Images:   func() ([]api.Image, error) { return nil, nil },
		Metrics:  http.NotFoundHandler(), Ready: func() error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s.url = server.URL
	for _, role := range auth.Roles {
		_, secret, err := auth.Create(t.Context(), stand.DB, auth.New{By: auth.LocalOwner, Name: "test-" + string(role), Role: role})
		if err != nil {
			t.Fatal(err)
		}
		s.tokens[role] = secret.Reveal()
	}
	return s
}

// said is what a command line left.
type said struct {
	status   int
	out, err string
}

// syncBuffer may be read while a command line writes.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// command is one command line on the way.
type command struct {
	out, err syncBuffer
	status   chan int
}

// start begins a command line with the token of role. stdin is all of its input.
func (s *remoteStand) start(role auth.Role, stdin string, args ...string) *command {
	s.Helper()
	in := filepath.Join(s.TempDir(), "stdin")
	if err := os.WriteFile(in, []byte(stdin), 0o600); err != nil {
		s.Fatal(err)
	}
	file, err := os.Open(in)
	if err != nil {
		s.Fatal(err)
	}
	c := &command{status: make(chan int, 1)}
	env := map[string]string{"SILK_SERVER_URL": s.url, "SILK_TOKEN": s.tokens[role], "HOME": s.dir}
	a := &app{in: file, out: &c.out, err: &c.err, env: func(name string) string { return env[name] }}
	go func() {
		defer file.Close()
		c.status <- a.main(args)
	}()
	return c
}

func (c *command) wait() said { return said{<-c.status, c.out.String(), c.err.String()} }

func (s *remoteStand) silk(args ...string) said {
	s.Helper()
	return s.start(auth.Runner, "", args...).wait()
}

func (s *remoteStand) file(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		s.Fatal(err)
	}
	return path
}

// A run on a server looks like one on this host.
func TestRemoteRun(t *testing.T) {
	s := newRemoteStand(t)
	words := s.file("words", "some words")
	s.file("tree/sub/f", "deep \xff")
	for _, test := range []struct {
		name   string
		stdin  string
		args   []string
		status int
		out    string
		err    string // a part
	}{
		{"both channels and a status", "", []string{"--", "fake", `print:hi\n`, `eprint:err\n`, "exit:3"}, 3, "hi\n", "err\nsilk: failed: the program exited with status 3\n"},
		{"bytes that are no text", "", []string{"--", "fake", `print:\xff\x00`}, 0, "\xff\x00", ""},
		{"a signal", "", []string{"--", "fake", "signal:15"}, 143, "", "silk: failed: the program was ended by signal 15 (SIGTERM)\n"},
		{"a violation", "", []string{"--", "fake", "open:/etc/passwd"}, 159, "", "WIDOW RED run "},
		{"memory", "", []string{"--memory", "64MiB", "--", "fake", "alloc:100000000"}, 137, "", "silk: oom: the memory limit of 64MiB ended the run; raise the limit with --memory\n"},
		{"a command that is not there", "", []string{"--", "no-such-command"}, 127, "", "silk: failed: "},
		{"the time limit", "", []string{"--timeout", "100ms", "--", "fake", "print:a", "sleep"}, 124, "a", "silk: timeout: the time limit of 100ms ended the run"},
		{"stdin", "input", []string{"-i", "--", "fake", "cat"}, 0, "input", ""},
		{"stdin from a file", "", []string{"--stdin", words, "--", "fake", "cat"}, 0, "some words", ""},
		{"stdin that nobody reads", strings.Repeat("x", 3<<20), []string{"-i", "--", "fake", "exit:0"}, 0, "", ""},
		{"a file", "", []string{"--file", words, "--", "fake", "read:words"}, 0, "some words", ""},
		{"a directory", "", []string{"--dir", filepath.Join(s.dir, "tree"), "--", "fake", "read:sub/f"}, 0, "deep \xff", ""},
		{"the environment", "", []string{"--env", "A=b", "--", "fake", "env"}, 0, "HOME=/workspace\nA=b\n", ""},
		{"a driver that is not there", "", []string{"--driver", "nope", "--", "fake"}, 125, "", `there is no driver "nope"`},
		{"an environment that makes no sense", "", []string{"--env", "1=2", "--", "fake"}, 125, "", "silk: error: "},
		{"artifacts that are not kept", "", []string{"--", "fake", "write:a=1"}, 0, "", "silk: the server has 1 artifact; --artifacts DIR receives a copy\n"},
		{"a host without a port", "", []string{"--net", "example.org,a:443", "--", "fake"}, 125, "", `host "example.org" has no port`},
		{"a secret", "", []string{"--net", "a.org:443", "--secret", "T@a.org:443/X", "--", "fake"}, 126, "", "the owner has no secret T for others"},
		{"more output than is kept", "", []string{"--", "fake", "flood:100000"}, 0, strings.Repeat("0123456789", 10000), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := s.start(auth.Runner, test.stdin, append([]string{"run", "-p", servetest.Profile}, test.args...)...).wait()
			if got.status != test.status || got.out != test.out && test.name != "the environment" || !strings.Contains(got.err, test.err) || test.err == "" && got.err != "" {
				t.Errorf("got %d %.200q %q\nwant %d %.200q %q", got.status, got.out, got.err, test.status, test.out, test.err)
			}
		})
	}
}

func TestRemoteJSON(t *testing.T) {
	s := newRemoteStand(t)
	got := s.silk("run", "-p", servetest.Profile, "--json", "--", "fake", "print:hi", `eprint:\xff`, "write:a=1", "exit:3")
	var o run.Outcome
	if err := json.Unmarshal([]byte(got.out), &o); err != nil || got.status != 3 {
		t.Fatalf("status %d, %v: %s", got.status, err, got.out)
	}
	if o.Kind != run.Failed || *o.ExitCode != 3 || *o.Stdout.Text != "hi" || *o.Stderr.B64 != "/w==" || len(o.Artifacts) != 1 || o.Driver != "fake" || o.Run == "" {
		t.Errorf("got %s", got.out)
	}
	got = s.silk("run", "-p", servetest.Profile, "--jsonl", "--", "fake", "print:hi", "open:/etc/passwd")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	want := []string{`{"type":"started","run":"01`, `{"type":"output","seq":1,"at_ms":`, `{"type":"violation","rule":"file.accounts","syscall":"openat","detail":"/etc/passwd"}`, `{"type":"exit","outcome":"violated"`}
	if len(lines) != len(want) {
		t.Fatalf("got %s", got.out)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d is %s, want %s", i, line, want[i])
		}
	}
	if !strings.Contains(lines[0], `"image":"`+servetest.Digest+`","limits":{"timeout_ms":120000`) {
		t.Errorf("the first line is %s", lines[0])
	}
}

// waitFor waits until a command line has said something on stderr.
func waitFor(t *testing.T, c *command, text string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !strings.Contains(c.err.String()+c.out.String(), text) {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("it never said %q, but %q and %q", text, c.out.String(), c.err.String())
		}
	}
}

func TestRemoteApproval(t *testing.T) {
	s := newRemoteStand(t)
	ask := func() (*command, api.Approval) {
		c := s.start(auth.Runner, "", "run", "-p", servetest.Profile, "--memory", "1GiB", "--", "fake", "print:big")
		waitFor(t, c, "waits for the owner's approval: ")
		var list []api.Approval
		if got := s.start(auth.Owner, "", "runs", "pending", "--json").wait(); json.Unmarshal([]byte(got.out), &list) != nil || len(list) != 1 {
			t.Fatalf("pending: %+v", got)
		}
		return c, list[0]
	}
	owner := func(args ...string) said { return s.start(auth.Owner, "y\n", args...).wait() }

	c, a := ask()
	if got := owner("runs", "pending"); !strings.Contains(got.out, a.Run+" ") {
		t.Errorf("pending: %+v", got)
	}
	if got := s.silk("runs", "approve", a.Run, "--hash", a.Hash); got.status != 125 || !strings.Contains(got.err, "the server refuses the token: the role does not allow this") {
		t.Errorf("the runner approves: %+v", got)
	}
	got := owner("runs", "approve", a.Run[:24]) // a y that no terminal has given
	if got.status != 125 || !strings.Contains(got.err, "there is no terminal to ask on: approve what is shown with --hash "+a.Hash) ||
		!strings.Contains(got.out, "memory       1GiB") || !strings.Contains(got.out, "hash         "+a.Hash) {
		t.Errorf("without a hash: %+v", got)
	}
	if got := owner("runs", "approve", a.Run, "--hash", strings.Repeat("0", 64)); got.status != 1 || !strings.Contains(got.err, "look at it again") {
		t.Errorf("with another hash: %+v", got)
	}
	if got := owner("runs", "approve", a.Run, "--hash", a.Hash, "--for", "8h"); got.status != 0 || !strings.Contains(got.err, "is approved, as is the same request until ") {
		t.Errorf("with the hash: %+v", got)
	}
	if got := c.wait(); got.status != 0 || got.out != "big" || !strings.Contains(got.err, "is approved") {
		t.Errorf("the run: %+v", got)
	}
	if got := s.silk("run", "-p", servetest.Profile, "--memory", "1GiB", "--", "fake", "print:big"); got.status != 0 || got.err != "" {
		t.Errorf("the same again: %+v", got)
	}
	if got := owner("runs", "deny", a.Run); got.status != 1 || !strings.Contains(got.err, "does not wait for a decision: it is granted") {
		t.Errorf("denied afterwards: %+v", got)
	}

	c = s.start(auth.Runner, "", "run", "-p", servetest.Profile, "--memory", "2GiB", "--json", "--", "fake")
	waitFor(t, c, "silk runs approve ")
	id := c.err.String()[strings.LastIndex(c.err.String(), " ")+1 : len(c.err.String())-1]
	if got := owner("runs", "deny", id, "--reason", "too much"); got.status != 0 {
		t.Errorf("deny: %+v", got)
	}
	var o run.Outcome
	if got := c.wait(); got.status != 126 || json.Unmarshal([]byte(got.out), &o) != nil || o.Kind != run.Denied || o.Rule != "approval" || !strings.Contains(got.err, "the owner denied it: too much") {
		t.Errorf("the run that was denied: %+v", got)
	}
}

func TestRemoteRuns(t *testing.T) {
	s := newRemoteStand(t)
	c := s.start(auth.Runner, "", "run", "-p", servetest.Profile, "--", "fake", `print:a\n`, "sleep")
	waitFor(t, c, "a\n")
	got := s.silk("runs", "ls", "--outcome", "running", "--json")
	var list []struct{ Run, Profile string }
	if json.Unmarshal([]byte(got.out), &list) != nil || len(list) != 1 || list[0].Profile != servetest.Profile {
		t.Fatalf("ls: %+v", got)
	}
	id := list[0].Run
	watching := s.start(auth.Runner, "", "runs", "attach", id, "--all")
	waitFor(t, watching, "a\n")
	if got := s.silk("runs", "logs", id); got.status != 1 || !strings.Contains(got.err, "has not ended; follow it with silk runs attach") {
		t.Errorf("logs of a run that runs: %+v", got)
	}
	if got := s.silk("runs", "kill", id[:25]); got != (said{}) {
		t.Errorf("kill: %+v", got)
	}
	for name, c := range map[string]*command{"run": c, "attach": watching} {
		if got := c.wait(); got != (said{130, "a\n", "silk: canceled: the run was canceled\n"}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := s.silk("runs", "kill", id); got != (said{1, "", "silk: run " + id + " has ended already\n"}) {
		t.Errorf("kill again: %+v", got)
	}
	if got := s.silk("runs", "logs", id, "--channel", "stdout"); got != (said{0, "a\n", ""}) {
		t.Errorf("logs: %+v", got)
	}
	if got := s.silk("runs", "show", id); got.status != 0 || !strings.Contains(got.out, "outcome   canceled") {
		t.Errorf("show: %+v", got)
	}
	if got := s.silk("runs", "ls"); !strings.Contains(got.out, id) || !strings.Contains(got.out, "canceled") {
		t.Errorf("ls: %+v", got)
	}
	for _, verb := range []string{"show", "logs", "kill", "attach"} {
		if got := s.silk("runs", verb, "0000"); got.status != 125 || !strings.Contains(got.err, "there is no run 0000") {
			t.Errorf("%s of no run: %+v", verb, got)
		}
	}
	if got := s.start("", "", "runs", "ls").wait(); got.status != 125 || !strings.Contains(got.err, "the server refuses the token: the credentials are no good") {
		t.Errorf("ls without a token: %+v", got)
	}
}

func TestRemoteArtifacts(t *testing.T) {
	s := newRemoteStand(t)
	out := filepath.Join(s.dir, "out")
	got := s.silk("run", "-p", servetest.Profile, "--artifacts", out, "--", "fake", "write:a b?&.txt=one", "write:sub/c=")
	if got.status != 0 || strings.Count(got.err, "silk: artifact ") != 2 {
		t.Errorf("got %+v", got)
	}
	for name, want := range map[string]string{"a b?&.txt": "one", "sub/c": ""} {
		if text, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
}

// hostile is a server whose answers a test chooses.
func hostile(t *testing.T, frames []api.Frame, files map[string]string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/runs", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"run":%q}`, hostileRun) })
	mux.HandleFunc("GET /v1/runs/{run}/stream", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.Subprotocol}})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for _, f := range frames {
			f.Run = hostileRun
			if err := conn.Write(r.Context(), websocket.MessageText, jsonLine(f)); err != nil {
				return
			}
		}
		_ = conn.Close(websocket.StatusNormalClosure, "")
	})
	mux.HandleFunc("GET /v1/runs/{run}/artifact", func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[r.FormValue("path")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", `"x"`)
		http.ServeContent(w, r, "", time.Unix(0, 0), strings.NewReader(text))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

const hostileRun = "01M8MWS8RGMEFM6Z2M0J3QXY1A"

func endFrames(o api.Outcome) []api.Frame {
	o.Run = hostileRun
	return []api.Frame{{Type: api.FrameHello, State: "running", TailFrom: &api.Tail{}}, {Type: api.FrameExit, Outcome: &o}}
}

// Names of artifacts come from a program that nobody trusts: none leads out of the directory.
func TestRemoteArtifactsOfAHostileServer(t *testing.T) {
	s := &remoteStand{T: t, dir: t.TempDir(), tokens: map[auth.Role]string{}}
	out := filepath.Join(s.dir, "out")
	outside := s.file("outside/f", "mine")
	if err := errors.Join(os.MkdirAll(out, 0o755), os.Symlink(filepath.Dir(outside), filepath.Join(out, "link")), os.Symlink(outside, filepath.Join(out, "file"))); err != nil {
		t.Fatal(err)
	}
	const x = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // sha256 of "x"
	zero, files := 0, map[string]string{}
	o := api.Outcome{Kind: "ok", ExitCode: &zero, Flags: map[string]int64{}}
	for _, name := range []string{"../outside/f", "/etc/silk-test", "link/f", "link/new", "a/../../outside/f", "file", "good", "nul\x00"} {
		files[name] = "x"
		o.Artifacts = append(o.Artifacts, api.Artifact{Path: name, Type: "file", Size: 1, SHA256: x})
	}
	o.Artifacts = append(o.Artifacts, api.Artifact{Path: "gone", Type: "file", Size: 1, SHA256: x}, api.Artifact{Path: "pipe", Type: "fifo"})
	s.url = hostile(t, endFrames(o), files)
	got := s.silk("run", "-p", "lab:text", "--artifacts", out, "--", "true")
	for name, want := range map[string]string{outside: "mine", filepath.Join(out, "good"): "x"} {
		if text, err := os.ReadFile(name); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v, want %q", name, text, err, want)
		}
	}
	for _, name := range []string{"/etc/silk-test", filepath.Join(filepath.Dir(outside), "new")} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	if !strings.Contains(got.err, "the server does not keep it any more") || strings.Contains(got.err, "\x00") {
		t.Errorf("got %+v", got)
	}

	o.Artifacts = []api.Artifact{{Path: "good", Type: "file", Size: 1, SHA256: strings.Repeat("0", 64)}}
	s.url = hostile(t, endFrames(o), files)
	if got := s.silk("run", "-p", "lab:text", "--artifacts", out, "--", "true"); got.status != 125 || !strings.Contains(got.err, "what came is not what the program wrote") {
		t.Errorf("content of another hash: %+v", got)
	}
}

// A program that succeeded does not make a success of output that is not whole, nor does a server that goes away.
func TestRemoteLoss(t *testing.T) {
	s := &remoteStand{T: t, dir: t.TempDir(), tokens: map[auth.Role]string{}}
	zero := 0
	s.url = hostile(t, endFrames(api.Outcome{Kind: "ok", ExitCode: &zero, Stdout: api.Channel{Bytes: 5000}}), nil)
	if got := s.silk("run", "-p", "lab:text", "--", "true"); got.status != 125 || !strings.Contains(got.err, "silk: the output is not whole: 4.9 KiB of it were lost on the way, from byte 0 of stdout on") {
		t.Errorf("a gap: %+v", got)
	}
	s.url = hostile(t, []api.Frame{{Type: api.FrameHello, TailFrom: &api.Tail{}}, {Type: api.FrameExit}}, nil)
	if got := s.silk("run", "-p", "lab:text", "--", "true"); got.status != 125 || !strings.Contains(got.err, "silk: error: how the run ended is unknown: ") {
		t.Errorf("an exit that says nothing: %+v", got)
	}
}

// Input waits for a program that does not read, and is sent once.
func TestFeeder(t *testing.T) {
	var got []byte
	var ended bool
	full, state := 3, "running"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			fmt.Fprintf(w, `{"run":%q,"state":%q}`, hostileRun, state)
		case full > 0 || state == "ended":
			full--
			w.WriteHeader(http.StatusConflict)
		default:
			var in api.Input
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Offset == nil || *in.Offset != int64(len(got)) {
				t.Errorf("%v, offset %v after %d bytes", err, in.Offset, len(got))
			}
			defer func() { fmt.Fprintf(w, `{"offset":%d}`, len(got)) }()
			f := api.Frame{Data: in.Data, B64: in.B64}
			data, _ := f.Bytes()
			got, ended = append(got, data...), in.End
		}
	}))
	defer server.Close()
	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("text\n\xff\x00"), 200_000)
	feeder, _ := newFeeder(c, hostileRun, bytes.NewReader(want))
	if err := feeder.feed(t.Context()); err != nil || !bytes.Equal(got, want) || !ended {
		t.Errorf("%v: %d bytes came, want %d; the end %v", err, len(got), len(want), ended)
	}
	state, ended = "ended", false
	feeder, _ = newFeeder(c, hostileRun, bytes.NewReader(want))
	if err := feeder.feed(t.Context()); err != nil || ended {
		t.Errorf("input of a run that has ended: %v", err)
	}
	server.Close()
	feeder.patience = 0
	if err := feeder.feed(t.Context()); err == nil {
		t.Error("input that nobody took is no error")
	}
}

// TestHowToApprove: the sentence names what the server takes, and what came over the socket is not decided over it.
func TestHowToApprove(t *testing.T) {
	for server, want := range map[string]string{
		"":                               "with: silk runs approve R", // attach, on the server's host
		"https://lab.example:7455":       "with: silk runs approve R",
		"unix:///var/lib/silk/silk.sock": "with an owner's token over the port: silk --server URL --token-file FILE runs approve R",
		"UNIX:///var/lib/silk/silk.sock": "with an owner's token over the port: silk --server URL --token-file FILE runs approve R",
	} {
		if got := howToApprove(server, "R"); got != want {
			t.Errorf("howToApprove(%q): got %q, want %q", server, got, want)
		}
	}
}
