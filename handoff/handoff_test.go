package handoff

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/webhook"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

func TestOnPostgres(t *testing.T) { storetest.OnPostgres(t) }

// clock is a clock that tests turn.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) turn(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// stand is an outbox with a database.
type stand struct {
	*testing.T
	*clock
	db *store.DB
}

func newStand(t *testing.T) *stand {
	t.Helper()
	db, err := storetest.Open(t.Context(), filepath.Join(t.TempDir(), store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &stand{t, &clock{now: time.Date(2026, 11, 30, 8, 12, 5, 0, time.UTC)}, db}
}

func (s *stand) outbox(cfg Config) *Outbox {
	s.Helper()
	cfg.Now = s.Now
	o, err := New(cfg)
	if err != nil {
		s.Fatal(err)
	}
	return o
}

const runID = "01KB00000000000000000000RN"

// end is the end of a Python program.
func end(kind run.Kind) run.End {
	code := 1
	return run.End{
		Record: record.Record{
			Run: runID, Profile: "lab:python", Client: "note", Command: "main.py --all", Image: "sha256:ab", StartedAtMs: 1, EndedAtMs: 42,
			Outcome: record.Outcome{Kind: string(kind), ExitCode: &code, Message: "the program exited with status 1", WallMs: 41},
		},
		Source: run.Source{Name: "main.py", Language: "python", Code: []byte("1/0\n"), Bytes: 4, SHA256: "c0de", Note: run.Note{Path: "Lab/Tour.md", Block: "3"}},
		Stdout: run.Log{Bytes: 3, SHA256: "00", Head: []byte("hi\n")},
		Stderr: run.Log{Bytes: 18, SHA256: "11", Head: []byte("ZeroDivisionError\n")},
	}
}

// put writes the hand-offs of an end.
func (s *stand) put(o *Outbox, e run.End) {
	s.Helper()
	if err := s.db.Update(s.Context(), func(tx *sql.Tx) error { return o.Put(s.Context(), tx, e) }); err != nil {
		s.Fatal(err)
	}
}

func (s *stand) list(f Filter) []Entry {
	s.Helper()
	list, err := List(s.Context(), s.db, f)
	if err != nil {
		s.Fatal(err)
	}
	return list
}

// to is the hand-off to a receiver, with its content.
func (s *stand) to(receiver string) Entry {
	s.Helper()
	list := s.list(Filter{Receiver: receiver})
	if len(list) != 1 {
		s.Fatalf("%d hand-offs to %s, want 1", len(list), receiver)
	}
	e, err := Get(s.Context(), s.db, list[0].ID)
	if err != nil {
		s.Fatal(err)
	}
	return e
}

// deliver delivers what is due, and returns how many were and how many failed.
func (s *stand) deliver(o *Outbox) (delivered, failed, dead int) {
	s.Helper()
	r, err := o.Deliver(s.Context(), s.db)
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range r.Failed {
		if f.Dead {
			dead++
		}
	}
	return r.Delivered, len(r.Failed), dead
}

// states are those of the deliveries of a receiver's hand-off, by sink.
func (s *stand) states(receiver string) map[string]string {
	s.Helper()
	states := map[string]string{}
	for _, d := range s.to(receiver).Deliveries {
		states[d.Sink] = fmt.Sprintf("%s after %d", d.State, d.Attempts)
	}
	return states
}

func TestRoutes(t *testing.T) {
	s := newStand(t)
	o := s.outbox(Config{})
	for kind, want := range map[run.Kind]bool{
		run.OK: false, run.Canceled: false, run.Failed: true, run.Timeout: true, run.OOM: true, run.Violated: true, run.Denied: true, run.Error: true, "": false,
	} {
		if got := o.Wants(kind); got != want {
			t.Errorf("Wants(%q) = %t, want %t", kind, got, want)
		}
	}
	s.put(o, end(run.OK))
	if n := len(s.list(Filter{})); n != 0 {
		t.Errorf("%d hand-offs of a run that ended well", n)
	}
	o = s.outbox(Config{Routes: Routes{run.OK: {WidowWeaver}}})
	if o.Wants(run.Failed) || !o.Wants(run.OK) {
		t.Error("the owner's routes do not take the place of the default")
	}
	s.put(o, end(run.OK))
	if s.to(WidowWeaver).State != "open" || len(s.list(Filter{})) != 1 {
		t.Errorf("%+v", s.list(Filter{}))
	}
}

func TestContent(t *testing.T) {
	s := newStand(t)
	o := s.outbox(Config{})
	e := end(run.Failed)
	s.put(o, e)
	s.put(o, e) // the end is written a second time when nobody knows whether it was: run.Engine
	if n := len(s.list(Filter{})); n != 2 {
		t.Fatalf("%d hand-offs, want one for each receiver", n)
	}
	got := s.to(CodeExplainer)
	text := func(s string) *string { return &s }
	one := 1
	want := api.HandoffContent{
		Schema: "silk.handoff/v1", ID: got.ID, Receiver: CodeExplainer, Receivers: []string{CodeExplainer, WidowWeaver}, CreatedAtMs: s.now.UnixMilli(),
		Run: runID, Name: "main.py", Profile: "lab:python", Client: "note", Command: "main.py --all", Image: "sha256:ab", StartedAtMs: 1, EndedAtMs: 42, Language: "python",
		Code: &api.HandoffCode{Name: "main.py", Bytes: 4, SHA256: "c0de", Text: text("1/0\n")},
		Log: api.HandoffLog{
			Stdout: api.HandoffChannel{Bytes: 3, SHA256: "00", Text: text("hi\n")},
			Stderr: api.HandoffChannel{Bytes: 18, SHA256: "11", Text: text("ZeroDivisionError\n")},
		},
		Outcome:    api.HandoffOutcome{Kind: "failed", ExitCode: &one, Message: "the program exited with status 1", WallMs: 41, Flags: map[string]int64{}},
		Violations: []api.HandoffViolation{}, Note: "Lab/Tour.md", Block: "3",
	}
	if diff := cmp.Diff(&want, got.Content); diff != "" {
		t.Error(diff)
	}
	weaver := s.to(WidowWeaver)
	want.ID, want.Receiver, want.Code = weaver.ID, WidowWeaver, nil
	if diff := cmp.Diff(&want, weaver.Content); diff != "" {
		t.Errorf("the other receiver: %s", diff)
	}
}

// TestContentOfBytes: what is no text is base64, and what is cut is cut between characters.
func TestContentOfBytes(t *testing.T) {
	e := end(run.Violated)
	e.Record.Outcome.Rule, e.Record.Outcome.Syscall, e.Record.Outcome.Argument = "file.accounts", "openat", "/etc/passwd"
	e.Record.Outcome.Refused = map[string]int64{"network.inet": 2, "file.default": 3}
	e.Source = run.Source{Name: "main", Code: []byte("ä\xc3"), Bytes: 4, Omitted: "only the first 3 bytes are here"}
	e.Stdout = run.Log{Bytes: 100, Head: []byte("漢\xe6\xbc"), Tail: []byte("\xa2ende")}
	e.Stderr = run.Log{Bytes: 2, Head: []byte{0xff, 0}}
	c := contentOf(e, "01X", CodeExplainer, nil, time.UnixMilli(7))
	if *c.Code.Text != "ä" || c.Code.Omitted == "" {
		t.Errorf("code %q", *c.Code.Text)
	}
	if o := c.Log.Stdout; *o.Text != "漢" || *o.Tail != "ende" || o.Omitted != 93 {
		t.Errorf("stdout %q, %d, %q", *o.Text, o.Omitted, *o.Tail)
	}
	if o := c.Log.Stderr; o.Text != nil || *o.B64 != "/wA=" || o.Omitted != 0 || o.Tail != nil {
		t.Errorf("stderr %+v", o)
	}
	want := []api.HandoffViolation{
		{Rule: "file.accounts", Ended: true, Syscall: "openat", Argument: "/etc/passwd", Count: 1}, {Rule: "file.default", Count: 3}, {Rule: "network.inet", Count: 2},
	}
	if diff := cmp.Diff(want, c.Violations); diff != "" {
		t.Error(diff)
	}
}

// receiver is a server that webhooks go to.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	status int
	got    map[string]int // by id: how often
	bodies map[string]string
	faults []string
}

const testKey = "0123456789abcdef0123456789abcdef"

func newReceiver(t *testing.T, status int) (*receiver, Sink) {
	t.Helper()
	r := &receiver{status: status, got: map[string]int{}, bodies: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		body, err := io.ReadAll(req.Body)
		id, at := req.Header.Get("Webhook-Id"), req.Header.Get("Webhook-Timestamp")
		if req.Header.Get("Webhook-Signature") != "v1,"+webhook.Sign([]byte(testKey), id, at, body) || err != nil {
			r.faults = append(r.faults, fmt.Sprintf("signature of %s, %v", id, err))
		}
		if old, ok := r.bodies[id]; ok && old != string(body) {
			r.faults = append(r.faults, "another body under the same id")
		}
		r.got[id]++
		r.bodies[id] = string(body)
		w.WriteHeader(r.status)
	}))
	t.Cleanup(func() {
		r.Close()
		if r.faults != nil {
			t.Error(r.faults)
		}
	})
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(testKey), 0o600); err != nil {
		t.Fatal(err)
	}
	return r, Sink{Name: "hook", URL: r.URL + "/hook", SecretFile: file}
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// TestReceiverDownThenUp: nothing is lost, each attempt comes when it is due and not before, and every one is the same message.
func TestReceiverDownThenUp(t *testing.T) {
	s := newStand(t)
	server, sink := newReceiver(t, http.StatusServiceUnavailable)
	o := s.outbox(Config{Sinks: []Sink{sink}})
	s.put(o, end(run.Failed))
	if d, f, _ := s.deliver(o); d != 0 || f != 2 {
		t.Fatalf("%d delivered, %d failed, want 2 that failed", d, f)
	}
	if d, f, _ := s.deliver(o); d+f != 0 {
		t.Errorf("%d attempts at once after one that failed", d+f)
	}
	e := s.to(CodeExplainer)
	if e.State != "pending" || e.Deliveries[0].Attempts != 1 || !strings.Contains(e.Deliveries[0].Error, "503") || e.Deliveries[0].DueAtMs <= s.now.UnixMilli() {
		t.Errorf("%+v", e)
	}
	server.answer(http.StatusNoContent)
	s.turn(6 * time.Second)
	if d, f, _ := s.deliver(o); d != 2 || f != 0 {
		t.Errorf("%d delivered, %d failed, want 2 that are delivered", d, f)
	}
	e = s.to(CodeExplainer)
	if e.State != "delivered" || e.Deliveries[0].Error != "" || e.Deliveries[0].DoneAtMs != s.now.UnixMilli() || e.Deliveries[0].DueAtMs != 0 {
		t.Errorf("%+v", e)
	}
	if n := server.got["handoff_"+e.ID]; n != 2 {
		t.Errorf("%d messages, want the one that was refused and the one that was taken", n)
	}
	var content api.HandoffContent
	if err := json.Unmarshal([]byte(server.bodies["handoff_"+e.ID]), &content); err != nil || !cmp.Equal(&content, e.Content) {
		t.Errorf("what was sent: %v, %s", err, cmp.Diff(e.Content, &content))
	}
}

// TestDead: the attempts end, the delivery waits for the owner, and a retry begins anew.
func TestDead(t *testing.T) {
	s := newStand(t)
	server, hook := newReceiver(t, http.StatusBadRequest)
	hook.Receivers = []string{CodeExplainer}
	vault := t.TempDir()
	o := s.outbox(Config{Sinks: []Sink{hook, {Name: "notes", Vault: vault}}})
	s.put(o, end(run.OOM))
	attempts := 0
	for began := s.now; s.now.Sub(began) < 100*time.Hour; s.turn(time.Minute) {
		_, failed, dead := s.deliver(o)
		attempts += failed
		if dead != 0 && attempts != len(waits)+1 {
			t.Errorf("dead after %d attempts, want %d", attempts, len(waits)+1)
		}
	}
	if attempts != len(waits)+1 {
		t.Errorf("%d attempts, want %d", attempts, len(waits)+1)
	}
	want := map[string]string{"hook": "dead after 10", "notes": "delivered after 1"}
	if diff := cmp.Diff(want, s.states(CodeExplainer)); diff != "" {
		t.Error(diff)
	}
	e := s.to(CodeExplainer)
	if dead := s.list(Filter{State: "dead"}); len(dead) != 1 || dead[0].ID != e.ID || dead[0].Deliveries[0].Error == "" {
		t.Errorf("the list of the dead: %+v", dead)
	}
	if s.to(WidowWeaver).State != "delivered" {
		t.Errorf("the other one is %s", s.to(WidowWeaver).State)
	}
	server.answer(http.StatusOK)
	if err := o.Retry(t.Context(), s.db, e.ID); err != nil {
		t.Fatal(err)
	}
	if d, f, _ := s.deliver(o); d != 1 || f != 0 {
		t.Errorf("after the retry %d are delivered, %d failed", d, f)
	}
	want = map[string]string{"hook": "delivered after 1", "notes": "delivered after 1"}
	if diff := cmp.Diff(want, s.states(CodeExplainer)); diff != "" || s.to(CodeExplainer).State != "delivered" {
		t.Error(diff)
	}
}

// TestKilledWhileDelivering: a process that dies after its claim costs time, not the hand-off; and it keeps others off until then.
func TestKilledWhileDelivering(t *testing.T) {
	s := newStand(t)
	_, sink := newReceiver(t, http.StatusOK)
	o := s.outbox(Config{Sinks: []Sink{sink}, Routes: Routes{run.Failed: {WidowWeaver}}})
	s.put(o, end(run.Failed))
	if _, ok, err := o.claim(t.Context(), s.db, o.sinks[0], s.Now()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if d, f, _ := s.deliver(o); d+f != 0 {
		t.Error("two processes make one delivery")
	}
	s.turn(webhook.DefaultTimeout + leaseMore)
	if d, _, _ := s.deliver(o); d != 1 {
		t.Error("it is lost")
	}
}

// TestCutShort: an attempt that the caller has no time for does not count.
func TestCutShort(t *testing.T) {
	s := newStand(t)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-release
	}))
	defer slow.Close()
	defer close(release)
	_, sink := newReceiver(t, http.StatusOK)
	there := sink.URL
	sink.URL = slow.URL
	o := s.outbox(Config{Sinks: []Sink{sink}, Routes: Routes{run.Failed: {WidowWeaver}}})
	s.put(o, end(run.Failed))
	if r, err := o.Deliver(ctx, s.db); err != nil || r.Delivered+len(r.Failed) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := s.states(WidowWeaver); got["hook"] != "pending after 0" {
		t.Errorf("after an attempt that was cut: %v", got)
	}
	sink.URL = there
	if d, _, _ := s.deliver(s.outbox(Config{Sinks: []Sink{sink}})); d != 1 {
		t.Error("it is not due at once")
	}
}

// TestTogether: many that deliver from one database make each delivery once.
func TestTogether(t *testing.T) {
	s := newStand(t)
	server, sink := newReceiver(t, http.StatusOK)
	o := s.outbox(Config{Sinks: []Sink{sink}})
	const runs = 10
	for i := range runs {
		e := end(run.Failed)
		e.Record.Run = fmt.Sprintf("01KB0000000000000000000%03d", i)
		s.put(o, e)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if _, err := o.Deliver(t.Context(), s.db); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if len(server.got) != 2*runs {
		t.Errorf("%d hand-offs came, want %d", len(server.got), 2*runs)
	}
	for id, n := range server.got {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
}

func TestAck(t *testing.T) {
	s := newStand(t)
	_, sink := newReceiver(t, http.StatusServiceUnavailable)
	o := s.outbox(Config{Sinks: []Sink{sink}})
	s.put(o, end(run.Timeout))
	s.deliver(o)
	e := s.to(WidowWeaver)
	for range 2 {
		if err := Ack(t.Context(), s.db, e.ID, "01TOKEN", s.now); err != nil {
			t.Fatal(err)
		}
		s.turn(time.Hour)
	}
	e = s.to(WidowWeaver)
	if e.State != "acked" || e.AckedBy != "01TOKEN" || e.AckedAtMs != s.now.Add(-2*time.Hour).UnixMilli() || e.Deliveries[0].State != "dropped" {
		t.Errorf("%+v", e)
	}
	if _, f, _ := s.deliver(o); f != 1 { // the other receiver's
		t.Errorf("%d attempts after it was acknowledged, want those of the other one", f)
	}
	if err := o.Retry(t.Context(), s.db, e.ID); !errors.Is(err, ErrAcked) {
		t.Errorf("retry: %v, want ErrAcked", err)
	}
	for _, err := range []error{Ack(t.Context(), s.db, "01NONE", "x", s.now), o.Retry(t.Context(), s.db, "01NONE")} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("of one that is not there: %v", err)
		}
	}
}

// TestRetryFindsNewSinks: what was open goes to a sink that was configured since.
func TestRetryFindsNewSinks(t *testing.T) {
	s := newStand(t)
	s.put(s.outbox(Config{}), end(run.Failed))
	id := s.to(CodeExplainer).ID
	if err := s.outbox(Config{}).Retry(t.Context(), s.db, id); !errors.Is(err, ErrNoSink) {
		t.Errorf("without a sink: %v, want ErrNoSink", err)
	}
	server, sink := newReceiver(t, http.StatusOK)
	o := s.outbox(Config{Sinks: []Sink{sink}})
	for want := range 2 { // the second time, of what was delivered, it is sent again
		if err := o.Retry(t.Context(), s.db, id); err != nil {
			t.Fatal(err)
		}
		if d, _, _ := s.deliver(o); d != 1 || server.got["handoff_"+id] != want+1 {
			t.Errorf("%d delivered, %d came, want %d", d, server.got["handoff_"+id], want+1)
		}
	}
}

// TestOthersSinks: a process leaves alone what is for a sink that it does not have.
func TestOthersSinks(t *testing.T) {
	s := newStand(t)
	_, sink := newReceiver(t, http.StatusOK)
	s.put(s.outbox(Config{Sinks: []Sink{sink}}), end(run.Failed))
	if d, f, _ := s.deliver(s.outbox(Config{Sinks: []Sink{{Name: "other", Vault: t.TempDir()}}})); d+f != 0 {
		t.Errorf("%d deliveries", d+f)
	}
}

// TestClean: what needs nobody goes after a while, what was not delivered stays.
func TestClean(t *testing.T) {
	s := newStand(t)
	_, sink := newReceiver(t, http.StatusBadRequest)
	sink.Receivers = []string{CodeExplainer}
	o := s.outbox(Config{Sinks: []Sink{sink}, Keep: 24 * time.Hour})
	s.put(o, end(run.Failed))
	s.turn(23 * time.Hour)
	later := end(run.Failed)
	later.Record.Run = "01KB00000000000000000000R2"
	s.put(o, later)
	if n := len(s.list(Filter{Run: runID})); n != 2 {
		t.Errorf("%d are left after 23 hours, want 2", n)
	}
	s.turn(2 * time.Hour)
	later.Record.Run = "01KB00000000000000000000R3"
	s.put(o, later)
	if left := s.list(Filter{Run: runID}); len(left) != 1 || left[0].State != "pending" {
		t.Errorf("left %+v, want the one that was not delivered", left)
	}
	if n := len(s.list(Filter{})); n != 5 {
		t.Errorf("%d in all, want 5", n)
	}
}

// TestCleanLeavesHeld: the hand-offs of a run under hold stay, until it is released.
func TestCleanLeavesHeld(t *testing.T) {
	s := newStand(t)
	o := s.outbox(Config{Keep: 24 * time.Hour})
	s.put(o, end(run.Failed))
	hold := func(query string, args ...any) {
		t.Helper()
		if err := s.db.Update(t.Context(), func(tx *sql.Tx) error { _, err := tx.ExecContext(t.Context(), query, args...); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Update(t.Context(), func(tx *sql.Tx) error {
		return record.Begin(t.Context(), tx, "", record.Entry{Record: end(run.Failed).Record})
	}); err != nil {
		t.Fatal(err)
	}
	hold("INSERT INTO holds (run, reason, held_at, first_seq) VALUES (?, '', 0, 1)", runID)
	for i, want := range []int{2, 0} {
		s.turn(25 * time.Hour)
		later := end(run.Failed)
		later.Record.Run = fmt.Sprintf("01KB00000000000000000000R%d", 5+i)
		s.put(o, later)
		if n := len(s.list(Filter{Run: runID})); n != want {
			t.Errorf("%d hand-offs are left, want %d", n, want)
		}
		hold("DELETE FROM holds")
	}
}

func TestList(t *testing.T) {
	s := newStand(t)
	o := s.outbox(Config{})
	for i, kind := range []run.Kind{run.Failed, run.Timeout, run.Violated} {
		e := end(kind)
		e.Record.Run = fmt.Sprintf("01KB00000000000000000000R%d", i)
		s.put(o, e)
		s.turn(time.Second)
	}
	err := s.db.Update(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO requests (run, token, session, hash, request, state, cancel, worker, accepted_at)
			VALUES ('01KB00000000000000000000R1', '01TOKEN', '', '', '', 'ended', 0, '', 1)`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if all := s.list(Filter{}); !slices.IsSortedFunc(all, func(a, b Entry) int { return strings.Compare(b.ID, a.ID) }) || all[0].Receiver != WidowWeaver || all[2].Receiver != WidowWeaver || all[4].Receiver != WidowWeaver {
		t.Errorf("the hand-offs of a run stand in different orders: %+v", all)
	}
	for _, test := range []struct {
		name string
		f    Filter
		want int
	}{
		{"all", Filter{}, 6},
		{"a receiver's", Filter{Receiver: WidowWeaver}, 3},
		{"an outcome's", Filter{Outcome: "timeout"}, 2},
		{"a token's", Filter{Token: "01TOKEN"}, 2},
		{"another token's", Filter{Token: "01OTHER"}, 0},
		{"a state's", Filter{State: "dead"}, 0},
		{"a few", Filter{Limit: 4}, 4},
		{"two conditions", Filter{Outcome: "violated", Receiver: CodeExplainer}, 1},
	} {
		if got := s.list(test.f); len(got) != test.want {
			t.Errorf("%s: %d, want %d", test.name, len(got), test.want)
		}
	}
	var pages []string
	for cursor := ""; ; {
		page := s.list(Filter{Before: cursor, Limit: 2})
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			pages = append(pages, e.ID)
			cursor = e.ID
		}
	}
	if len(pages) != 6 || !slices.IsSortedFunc(pages, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("the pages: %v", pages)
	}
	if e, err := Get(t.Context(), s.db, strings.ToLower(pages[0][:20])); err != nil || e.ID != pages[0] {
		t.Errorf("by the begin of its id: %s, %v", e.ID, err)
	}
	if _, err := Get(t.Context(), s.db, pages[0][:4]); !errors.As(err, new(*AmbiguousError)) {
		t.Errorf("by the begin of all: %v", err)
	}
	for _, id := range []string{"", "01", "01ZZZZZZ", "%", "01KB' OR 1=1 --"} {
		if _, err := Get(t.Context(), s.db, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v, want ErrNotFound", id, err)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	good := Sink{Name: "x", Vault: "/vault"}
	for _, test := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"unknown receiver of a route", Config{Routes: Routes{run.Failed: {"oracle"}}}, "no receiver"},
		{"unknown receiver of a sink", Config{Sinks: []Sink{{Name: "x", Vault: "/v", Receivers: []string{"oracle"}}}}, "no receiver"},
		{"two of one name", Config{Sinks: []Sink{good, good}}, "two sinks"},
		{"bad name", Config{Sinks: []Sink{{Name: "My Vault", Vault: "/v"}}}, "name"},
		{"neither", Config{Sinks: []Sink{{Name: "x"}}}, "give it vault or webhook"},
		{"both", Config{Sinks: []Sink{{Name: "x", Vault: "/v", URL: "https://example.org"}}}, "make two sinks of them"},
		{"relative vault", Config{Sinks: []Sink{{Name: "x", Vault: "notes"}}}, "plain absolute path"},
		{"vault with dots", Config{Sinks: []Sink{{Name: "x", Vault: "/v/../etc"}}}, "plain absolute path"},
		{"no secret", Config{Sinks: []Sink{{Name: "x", URL: "https://example.org"}}}, "secret_file"},
		{"in the clear", Config{Sinks: []Sink{{Name: "x", URL: "http://example.org", SecretFile: "/k"}}}, "not https"},
	} {
		if _, err := New(test.cfg); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// TestKeepOfWhatNobodyAskedFor: without a sink, code and output of runs stay for a week, else for a month, and as long as somebody says.
func TestKeepOfWhatNobodyAskedFor(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct {
		cfg  Config
		want time.Duration
	}{
		{Config{}, 7 * day},
		{Config{Sinks: []Sink{{Name: "x", Vault: "/v"}}}, 30 * day},
		{Config{Keep: 90 * day}, 90 * day},
	} {
		if o, err := New(test.cfg); err != nil || o.cfg.Keep != test.want {
			t.Errorf("%+v keeps for %v, %v", test.cfg, o.cfg.Keep, err)
		}
	}
}
