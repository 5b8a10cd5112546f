//go:build unix

package retention

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/lockfile"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// stand is a state directory with a keeper.
type stand struct {
	*testing.T
	Keeper
}

func newStand(t *testing.T) *stand { return standAt(t, t.TempDir()) }

func standAt(t *testing.T, home string) *stand {
	t.Helper()
	db, err := storetest.Open(t.Context(), filepath.Join(home, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	images, err := image.Open(image.Config{Home: filepath.Join(home, "images")})
	if err != nil {
		t.Fatal(err)
	}
	return &stand{t, Keeper{Home: home, DB: db, Images: images}}
}

// id is that of a run that began so long ago.
func id(age time.Duration, n byte) string {
	u := ulid.ULID{15: n}
	if err := u.SetTime(ulid.Timestamp(time.Now().Add(-age))); err != nil {
		panic(err)
	}
	return u.String()
}

// image stores one.
func (s *stand) image(text string, tags ...string) image.Image {
	s.Helper()
	tree, err := image.NewTree(image.TreeConfig{})
	if err != nil {
		s.Fatal(err)
	}
	defer tree.Close()
	if err := tree.AddFile("/etc/text", 0o644, time.Unix(0, 0), strings.NewReader(text)); err != nil {
		s.Fatal(err)
	}
	img, err := s.Images.Put(s.Context(), tree.WriteEROFS, image.Meta{Source: "test"}, tags...)
	if err != nil {
		s.Fatal(err)
	}
	return img
}

// run makes one that has ended and left inline stdout, stderr in a file, two artifacts, a hand-off and two audit events.
func (s *stand) run(age time.Duration, n byte, digest string) string {
	s.Helper()
	run := id(age, n)
	at := time.Now().Add(-age)
	rec := record.Record{Run: run, StartedAtMs: at.UnixMilli(), EndedAtMs: at.UnixMilli() + 1, Image: digest}
	begun, err := audit.New(run, audit.SandboxStarted, at, map[string]any{"intentId": run})
	ended, err2 := audit.New(run, audit.SandboxCompleted, at, map[string]any{"intentId": run})
	if err := errors.Join(err, err2); err != nil {
		s.Fatal(err)
	}
	err = s.DB.Update(s.Context(), func(tx *sql.Tx) error {
		if err := record.Begin(s.Context(), tx, "engine", record.Entry{Record: rec}); err != nil {
			return err
		}
		rec.Outcome.Kind = "ok"
		rec.Artifacts = []record.Artifact{{Path: "a/b.txt", Type: "file", Size: 3, SHA256: "abc"}}
		sealed, err := record.Seal(record.Entry{Record: rec}, nil)
		if err == nil {
			err = record.Finish(s.Context(), tx, sealed)
		}
		if err == nil {
			err = record.PutOutput(s.Context(), tx, run, "stdout", []byte("inline"))
		}
		if err == nil {
			_, err = tx.ExecContext(s.Context(), `INSERT INTO handoffs (id, run, receiver, outcome, content, state, created_at, acked_by) VALUES (?, ?, 'x', 'ok', '{}', 'open', 1, '')`, run, run)
		}
		if err != nil {
			return err
		}
		return audit.Append(s.Context(), tx, &begun, &ended)
	})
	if err != nil {
		s.Fatal(err)
	}
	f, err := record.CreateOutputFile(s.Home, run, "stderr")
	if err == nil {
		_, err = f.WriteString("in a file")
		err = errors.Join(err, f.Close())
	}
	dir := filepath.Join(s.Home, ArtifactsDir, run, "a")
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "b.txt"), []byte("abc"), 0o600), os.WriteFile(filepath.Join(dir, "c.txt"), []byte("defg"), 0o600))
	}
	if err != nil {
		s.Fatal(err)
	}
	return run
}

// has says what is there of a run.
func (s *stand) has(run string) (kinds []Kind) {
	s.Helper()
	files := 0
	for _, name := range []string{"b.txt", "c.txt"} {
		if _, err := os.Stat(filepath.Join(s.Home, ArtifactsDir, run, "a", name)); err == nil {
			files++
		}
	}
	if files > 0 {
		kinds = append(kinds, Artifacts)
	}
	outputs := 0
	for _, channel := range []string{"stdout", "stderr"} {
		r, err := record.Output(s.Context(), s.DB, s.Home, run, channel)
		if errors.Is(err, record.ErrNotFound) || errors.Is(err, record.ErrRemoved) {
			continue
		}
		if err != nil {
			s.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || len(text) == 0 {
			s.Errorf("%s of run %s: %q, %v", channel, run, text, err)
		}
		outputs++
	}
	if outputs > 0 {
		kinds = append(kinds, Output)
	}
	_, err := record.Get(s.Context(), s.DB, run)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		s.Fatal(err)
	}
	if err == nil {
		kinds = append(kinds, Record)
	}
	if files == 1 || outputs == 1 {
		s.Errorf("of run %s are left %d of 2 artifacts, %d of 2 channels", run, files, outputs)
	}
	return kinds
}

func (s *stand) keep(dry bool) Report {
	s.Helper()
	report, err := s.Keep(s.Context(), dry)
	if err != nil {
		s.Fatal(err)
	}
	return report
}

func (s *stand) want(run string, kinds ...Kind) {
	s.Helper()
	if got := s.has(run); !slices.Equal(got, kinds) {
		s.Errorf("of run %s there is %v, want %v", run, got, kinds)
	}
}

func TestKeep(t *testing.T) {
	s := newStand(t)
	s.Policy = Policy{Records: 300 * day, Output: 60 * day}
	young, month, quarter, year := s.run(day, 1, ""), s.run(31*day, 2, ""), s.run(61*day, 3, ""), s.run(301*day, 4, "")
	orphan := id(31*day, 5) // the database that knew it is gone
	if err := os.Mkdir(filepath.Join(s.Home, ArtifactsDir, orphan), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.Home, ArtifactsDir, "notes"), 0o700); err != nil {
		t.Fatal(err)
	}
	dry := s.keep(true)
	for _, run := range []string{young, month, quarter, year} {
		s.want(run, Artifacts, Output, Record)
	}
	wet := s.keep(false)
	byID := func(a, b Removal) int { return strings.Compare(a.ID+string(a.Kind), b.ID+string(b.Kind)) }
	slices.SortFunc(dry.Removals, byID)
	slices.SortFunc(wet.Removals, byID)
	if diff := cmp.Diff(dry, wet); diff != "" {
		t.Errorf("a dry run says another thing:\n%s", diff)
	}
	s.want(young, Artifacts, Output, Record)
	s.want(month, Output, Record)
	s.want(quarter, Record)
	s.want(year)
	if _, err := os.Stat(filepath.Join(s.Home, ArtifactsDir, orphan)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("old artifacts of a run that nothing knows stay: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.Home, ArtifactsDir, "notes")); err != nil {
		t.Errorf("what is not ours is gone: %v", err)
	}
	if _, err := record.Output(t.Context(), s.DB, s.Home, quarter, "stderr"); !errors.Is(err, record.ErrRemoved) {
		t.Errorf("output that was removed: %v", err)
	}
	if again := s.keep(false); len(again.Removals) > 0 {
		t.Errorf("a second time: %+v", again.Removals)
	}
	events, err := audit.List(t.Context(), s.DB, audit.Filter{Prefix: string(audit.RunsRemoved)})
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, e := range events {
		var data struct {
			What string
			Runs []string
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		for _, run := range data.Runs {
			said[data.What+run] = true
		}
	}
	for _, r := range wet.Removals {
		if !said[string(r.Kind)+r.ID] {
			t.Errorf("the audit trail does not say that this went: %+v", r)
		}
	}
	if len(said) != len(wet.Removals) {
		t.Errorf("the audit trail says %d removals, there were %d", len(said), len(wet.Removals))
	}
}

// everything goes, with such a policy.
var everything = Policy{Records: 1, Output: 1, Artifacts: 1, Images: 1, BudgetBytes: 1}

func TestHeldStays(t *testing.T) {
	s := newStand(t)
	s.Policy = everything
	img, other := s.image("held"), s.image("other", "other")
	run, free := s.run(400*day, 1, img.Digest.String()), s.run(399*day, 2, other.Digest.String())
	before := s.run(401*day, 3, "")
	h, missing, err := s.Place(t.Context(), run, "case 1", "local")
	if err != nil || missing || h.FirstSeq != 1 || h.Reason != "case 1" {
		t.Fatalf("%+v, %t, %v", h, missing, err)
	}
	if r := s.keep(false); r.HeldBytes == 0 || r.OverBytes != r.LeftBytes-1 {
		t.Errorf("%+v", r)
	}
	s.want(run, Artifacts, Output, Record)
	s.want(free)
	s.want(before)
	if _, err := s.Images.Resolve(img.Digest.String()); err != nil {
		t.Error(err)
	}
	if _, err := s.Images.Resolve("other"); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("the image that nothing holds: %v", err)
	}
	if err := s.Images.Remove(img.Digest.String()); !errors.As(err, new(*image.HeldError)) {
		t.Errorf("its image is removed by name: %v", err)
	}
	// Whoever asks the database.
	for _, statement := range []string{"DELETE FROM runs WHERE id = ?", "DELETE FROM outputs WHERE run = ?", "DELETE FROM handoffs WHERE run = ?"} {
		if _, err := s.DB.ExecContext(t.Context(), statement, run); err == nil {
			t.Errorf("%s is done", statement)
		}
	}
	if named, err := Named(t.Context(), s.DB); err != nil || !named["abc"] || len(named) != 1 {
		t.Errorf("%v, %v", named, err)
	}
	if err := s.Lift(t.Context(), run, "local"); err != nil {
		t.Fatal(err)
	}
	if err := s.Lift(t.Context(), run, "local"); !errors.Is(err, ErrNotHeld) {
		t.Errorf("released twice: %v", err)
	}
	s.keep(false)
	s.want(run)
	if _, err := s.Images.Resolve(img.Digest.String()); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("its image after that: %v", err)
	}
	events, err := audit.List(t.Context(), s.DB, audit.Filter{Run: run, Prefix: "record_"})
	if err != nil || len(events) != 2 || events[1].Name != audit.RecordHeld || !strings.Contains(string(events[1].Data), "case 1") || events[0].Name != audit.RecordReleased {
		t.Errorf("%+v, %v", events, err)
	}
	if _, err := Place(t.Context(), s.DB, id(0, 9), "", "local"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("a run that nothing knows: %v", err)
	}
}

// A hold may come when it is decided already what goes.
func TestHeldMeanwhile(t *testing.T) {
	s := newStand(t)
	s.Policy = everything
	img := s.image("held", "held")
	run := s.run(400*day, 1, img.Digest.String())
	defer func(old func(string)) { atStep = old }(atStep)
	atStep = func(step string) {
		if step == "decided" {
			atStep = func(string) {}
			if _, _, err := s.Place(t.Context(), run, "", "local"); err != nil {
				t.Error(err)
			}
		}
	}
	if r := s.keep(false); len(r.Removals) > 0 {
		t.Errorf("%+v", r.Removals)
	}
	s.want(run, Artifacts, Output, Record)
}

// What a run needs stays that waits, or that has not ended, and an image that a sandbox has open.
func TestNeededImages(t *testing.T) {
	s := newStand(t)
	s.Policy = everything
	s.Now = func() time.Time { return time.Now().Add(day) } // nothing has used them for a day
	waited, used, opened, loose := s.image("waited", "waited"), s.image("used"), s.image("opened", "opened"), s.image("loose")
	s.Waiting = func(context.Context) ([]string, error) { return []string{waited.Digest.String()}, nil }
	err := s.DB.Update(t.Context(), func(tx *sql.Tx) error {
		return record.Begin(t.Context(), tx, "engine", record.Entry{Record: record.Record{Run: id(day, 1), Image: used.Digest.String()}})
	})
	if err != nil {
		t.Fatal(err)
	}
	root, err := s.Images.OpenRoot(opened)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	images := func() (gone []string) {
		for _, r := range s.keep(false).Removals {
			gone = append(gone, r.ID)
		}
		return gone
	}
	if got := images(); !slices.Equal(got, []string{loose.Digest.String()}) {
		t.Errorf("%v are gone, want the one that nothing needs, %s", got, loose.Digest)
	}
	if err := root.Close(); err != nil {
		t.Fatal(err)
	}
	if got := images(); !slices.Equal(got, []string{opened.Digest.String()}) {
		t.Errorf("%v are gone, want %s", got, opened.Digest)
	}
	s.Waiting = func(context.Context) ([]string, error) { return nil, errors.New("away") }
	if _, err := s.Keep(t.Context(), false); err == nil {
		t.Error("it goes on without knowing what waits")
	}
	if _, err := s.Images.Resolve("waited"); err != nil {
		t.Error(err)
	}
}

// The trail is kept from a held run's first event on, and no longer than it is held.
func TestHeldEvents(t *testing.T) {
	s := newStand(t)
	if s.DB.Shared() {
		t.Skip("there are no files of events")
	}
	var runs []string
	for n := range byte(30) {
		runs = append(runs, s.run(time.Duration(100-int(n))*day, n, ""))
	}
	p := audit.Policy{MaxBytes: 3000, Keep: 5}
	if did, err := audit.Rotate(t.Context(), s.DB, p); err != nil || len(did.Segments) < 3 {
		t.Fatalf("%+v, %v", did, err)
	}
	h, err := Place(t.Context(), s.DB, runs[10], "", "local")
	if err != nil || h.FirstSeq != 21 {
		t.Fatalf("%+v, %v", h, err)
	}
	p.Retention = 1
	_, preview, err := audit.Preview(t.Context(), s.DB, p)
	if err != nil {
		t.Fatal(err)
	}
	did, err := audit.Rotate(t.Context(), s.DB, p)
	if err != nil || len(did.Removed) == 0 || !slices.Equal(did.Removed, preview) {
		t.Fatalf("%+v, %v; the preview says %v", did, err, preview)
	}
	if events, err := audit.List(t.Context(), s.DB, audit.Filter{Run: runs[10]}); err != nil || len(events) != 3 {
		t.Errorf("of the held run there are %d events, %v, want 3", len(events), err)
	}
	if events, err := audit.List(t.Context(), s.DB, audit.Filter{Run: runs[0]}); err != nil || len(events) != 0 {
		t.Errorf("of the oldest run there are %d events, %v", len(events), err)
	}
	// Not even where the trail says that it goes.
	e, err := audit.New("system", audit.Removed, time.Now(), map[string]any{"intentId": "system", "lastSeq": 1000})
	if err == nil {
		err = s.DB.Update(t.Context(), func(tx *sql.Tx) error { return audit.Append(t.Context(), tx, &e) })
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB.ExecContext(t.Context(), "UPDATE audit_segments SET state = 'removing' WHERE state = 'sealed' AND last_seq = (SELECT min(last_seq) FROM audit_segments WHERE state = 'sealed')"); err == nil {
		t.Error("the database lets the file go that the hold keeps")
	}
	if _, err := audit.Verify(t.Context(), s.DB); err != nil {
		t.Error(err)
	}
	if err := Lift(t.Context(), s.DB, runs[10], "local"); err != nil {
		t.Fatal(err)
	}
	if did, err := audit.Rotate(t.Context(), s.DB, p); err != nil || len(did.Removed) == 0 {
		t.Errorf("after the release: %+v, %v", did, err)
	}
	if events, err := audit.List(t.Context(), s.DB, audit.Filter{Run: runs[10], Prefix: "sandbox_"}); err != nil || len(events) != 0 {
		t.Errorf("after the release there are %d events, %v", len(events), err)
	}
}

// Two at once remove each thing once; one alone at a time is at it.
func TestTwoAtOnce(t *testing.T) {
	s := newStand(t)
	s.Policy = everything
	for n := range byte(20) {
		s.run(400*day, n, "")
	}
	lock, err := lockfile.Take(filepath.Join(s.Home, lockName))
	if err != nil {
		t.Fatal(err)
	}
	if r := s.keep(false); !r.Busy || len(r.Removals) > 0 {
		t.Errorf("beside another: %+v", r)
	}
	if err := lock.Leave(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	removed := map[string]int{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			report, err := s.Keep(t.Context(), false)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, r := range report.Removals {
				removed[string(r.Kind)+r.ID]++
			}
		})
	}
	wg.Wait()
	if len(removed) != 60 {
		t.Errorf("%d things are removed, want 60", len(removed))
	}
	for what, times := range removed {
		if times != 1 {
			t.Errorf("%s is removed %d times", what, times)
		}
	}
}

// TestKilled kills a process at each step of a removal. What is held then stays whole, and the next keeper removes the rest.
func TestKilled(t *testing.T) {
	if step := os.Getenv("SILK_RETENTION_TEST_STEP"); step != "" {
		s := standAt(t, os.Getenv("SILK_RETENTION_TEST_HOME"))
		s.Policy = everything
		atStep = func(at string) {
			if at == step {
				os.Stdout.WriteString("here\n")
				select {}
			}
		}
		s.keep(false)
		return
	}
	for _, step := range []string{"decided", "removal is recorded", "files are removed"} {
		t.Run(step, func(t *testing.T) {
			s := newStand(t)
			s.Policy = everything
			held, a, b := s.run(400*day, 1, ""), s.run(399*day, 2, ""), s.run(398*day, 3, "")
			if _, err := Place(t.Context(), s.DB, held, "", "local"); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
			cmd.Env = append(os.Environ(), "SILK_RETENTION_TEST_STEP="+step, "SILK_RETENTION_TEST_HOME="+s.Home)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := io.ReadAll(io.LimitReader(out, 5)); err != nil || string(line) != "here\n" {
				t.Fatalf("it said %q, %v; %s", line, err, said.String())
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the killed process ended well")
			}
			s.want(held, Artifacts, Output, Record)
			s.keep(false)
			s.want(held, Artifacts, Output, Record)
			s.want(a)
			s.want(b)
			for _, dir := range []string{ArtifactsDir, record.RunsDir} {
				if entries, err := os.ReadDir(filepath.Join(s.Home, dir)); err != nil || len(entries) != 1 {
					t.Errorf("%s has %v, %v, want the held run's alone", dir, entries, err)
				}
			}
			if _, err := audit.Verify(t.Context(), s.DB); err != nil {
				t.Error(err)
			}
		})
	}
}

// A crash between hold and image, or while a hold is made, keeps too much and never too little; holding again makes it right.
func TestHoldAgain(t *testing.T) {
	s := newStand(t)
	img := s.image("x")
	first, run := s.run(3*day, 1, ""), s.run(2*day, 2, img.Digest.String())
	err := s.DB.Update(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO holds (run, reason, held_at, first_seq) VALUES (?, 'old', 5, ?)", run, allEvents)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := s.Place(t.Context(), run, "new", "local")
	if want := (Hold{Run: run, Reason: "new", AtMs: 5, FirstSeq: 3}); err != nil || h != want {
		t.Errorf("got %+v, %v, want %+v", h, err, want)
	}
	if err := s.Images.Remove(img.Digest.String()); !errors.As(err, new(*image.HeldError)) {
		t.Errorf("its image: %v", err)
	}
	if _, err := s.Keep(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	s.Policy = everything
	s.keep(false)
	s.want(first)
	if holds, err := Holds(t.Context(), s.DB); err != nil || len(holds) != 1 {
		t.Errorf("%v, %v", holds, err)
	}
	if _, err := Place(t.Context(), s.DB, run, strings.Repeat("x", MaxReason+1), "local"); err == nil || !strings.Contains(err.Error(), fmt.Sprint(MaxReason)) {
		t.Errorf("a long reason: %v", err)
	}
}

// What had been removed before a hold is said.
func TestHoldSaysWhatIsGone(t *testing.T) {
	s := newStand(t)
	s.Policy = Policy{Output: 1}
	run := s.run(31*day, 1, "sha256:"+strings.Repeat("1", 64))
	s.keep(false)
	h, missing, err := s.Place(t.Context(), run, "", "local")
	if err != nil || !missing || h.OutputGoneMs == 0 || h.ArtifactsGoneMs == 0 {
		t.Errorf("%+v, %t, %v", h, missing, err)
	}
	if _, err := s.DB.ExecContext(t.Context(), "DELETE FROM runs WHERE id = ?", run); err == nil {
		t.Error("the record of a held run without output can be deleted")
	}
}
