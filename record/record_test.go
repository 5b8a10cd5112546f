package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

var update = flag.Bool("update", false, "write the golden files")

func open(t *testing.T) (db *store.DB, home string) {
	t.Helper()
	home = t.TempDir()
	db, err := storetest.Open(t.Context(), filepath.Join(home, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, home
}

// full has every field set.
func full() Record {
	code := 3
	return Record{
		Run: "01JDXYZ0000000000000000001", Client: "cli", Profile: "lab:python", StartedAtMs: 1764424800000, EndedAtMs: 1764424800412,
		Command: "x.py 'a b' <ä>", RequestSHA256: strings.Repeat("a", 64), PolicySHA256: strings.Repeat("b", 64),
		Policy: Policy{
			TimeoutMs: 120000, MemoryBytes: 512 << 20, MilliCPUs: 500, Processes: 64, WorkspaceBytes: 256 << 20, TmpBytes: 64 << 20,
			ShmBytes: 64 << 20, OutputBytes: 10 << 20, Network: "deny", NoSpawn: true,
		},
		Input:  Input{CodeSHA256: strings.Repeat("c", 64), WorkspaceSHA256: strings.Repeat("d", 64), StdinBytes: 12, StdinSHA256: strings.Repeat("e", 64), SHA256: strings.Repeat("f", 64)},
		Driver: "gvisor", Image: "sha256:" + strings.Repeat("1", 64), Tools: []Tool{{"python3", "3.13.5-1"}},
		Outcome: Outcome{Kind: "failed", Message: "the program exited with status 3 <ä>\u2028", ExitCode: &code, WallMs: 380, Flags: map[string]int64{"tmp_full": 2}},
		Usage:   Usage{CPUMs: 120, PeakMemoryBytes: 31 << 20, Processes: 2},
		Stdout:  Channel{Bytes: 20 << 20, Kept: 10 << 20, Truncated: true, SHA256: strings.Repeat("2", 64)},
		Stderr:  Channel{SHA256: strings.Repeat("3", 64)},
		Artifacts: []Artifact{
			{Path: "out/plot.png", Type: "file", Size: 1234, SHA256: strings.Repeat("4", 64), MIME: "image/png"},
			{Path: "bad\ufffdname", PathB64: "YmFk/25hbWU=", Type: "link"},
		},
		Decisions: []Decision{{"grant", "memory 2GiB (invoker)"}},
	}
}

// TestGolden holds the stored form to silk.run-record/v1: who changes a golden file changes what others have stored.
func TestGolden(t *testing.T) {
	for _, test := range []struct {
		name string
		r    Record
	}{
		{"full", full()},
		{"denied", Record{
			Run: "01JDXYZ0000000000000000002", Client: "mcp", Profile: "lab:text", StartedAtMs: 1764424800000, EndedAtMs: 1764424800001,
			RequestSHA256: strings.Repeat("a", 64), Outcome: Outcome{Kind: "denied", Rule: "memory", Message: "memory 4 GiB is beyond profile lab:text"},
			Decisions: []Decision{{"denied", "memory 4 GiB is beyond profile lab:text"}},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.r.encode()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", test.name+".json")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			var back Record
			if err := json.Unmarshal([]byte(got), &back); err != nil {
				t.Fatal(err)
			}
			if again, err := back.encode(); err != nil || again != got {
				t.Errorf("decoded and encoded again it differs (%v):\n%s", err, cmp.Diff(got, again))
			}
		})
	}
}

func finish(t *testing.T, db *store.DB, r Record) {
	t.Helper()
	err := db.Update(t.Context(), func(tx *sql.Tx) error { return unsigned(t, tx, Entry{Record: r}) })
	if err != nil {
		t.Fatal(err)
	}
}

func run(id string, at int64, kind, profile string) Record {
	return Record{Run: id, StartedAtMs: at, Profile: profile, Outcome: Outcome{Kind: kind}}
}

func TestGet(t *testing.T) {
	db, _ := open(t)
	finish(t, db, run("01AAAA0001", 1, "ok", "p"))
	finish(t, db, run("01AAAA0002", 1, "ok", "p"))
	finish(t, db, run("01BBBB0001", 1, "ok", "p"))
	for _, test := range []struct{ name, id, want, err string }{
		{"whole id", "01AAAA0002", "01AAAA0002", ""},
		{"unique beginning", "01BB", "01BBBB0001", ""},
		{"lower case", "01bbbb", "01BBBB0001", ""},
		{"ambiguous", "01AAAA", "", "01AAAA is the beginning of several runs: 01AAAA0001, 01AAAA0002, ..."},
		{"unknown", "01CCCC", "", "no such run"},
		{"too short", "01B", "", "no such run"},
		{"empty", "", "", "no such run"},
		{"wildcard", "01B%", "", "no such run"},
		{"path", "../../../../etc", "", "no such run"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := Get(t.Context(), db, test.id)
			if e.Record.Run != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %q, %v; want %q, %q", e.Record.Run, err, test.want, test.err)
			}
			var ambiguous *AmbiguousError
			if err != nil && !errors.As(err, &ambiguous) && !errors.Is(err, ErrNotFound) {
				t.Errorf("%v is neither ambiguous nor not found", err)
			}
		})
	}
}

func TestList(t *testing.T) {
	db, _ := open(t)
	for i, kind := range []string{"ok", "denied", "ok", "timeout"} {
		finish(t, db, run(fmt.Sprintf("01AAAA000%d", i), int64(1000*i), kind, "p"+fmt.Sprint(i%2)))
	}
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		return Begin(t.Context(), tx, "engine", Entry{Record: run("01AAAA0004", 4000, "", "p0")})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		filter Filter
		want   string
	}{
		{"all, the newest first", Filter{}, "[4 3 2 1 0]"},
		{"by outcome", Filter{Outcome: "ok"}, "[2 0]"},
		{"running", Filter{Outcome: "running"}, "[4]"},
		{"by profile", Filter{Profile: "p1"}, "[3 1]"},
		{"by start", Filter{Since: time.UnixMilli(2000)}, "[4 3 2]"},
		{"a page", Filter{Limit: 2}, "[4 3]"},
		{"the next page", Filter{Limit: 2, Before: "01AAAA0003"}, "[2 1]"},
		{"together", Filter{Outcome: "ok", Profile: "p0", Since: time.UnixMilli(1)}, "[2]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			entries, err := List(t.Context(), db, test.filter)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, e := range entries {
				got = append(got, strings.TrimPrefix(e.Record.Run, "01AAAA000"))
			}
			if fmt.Sprint(got) != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}

func TestAFinishedRecordNeverChanges(t *testing.T) {
	db, _ := open(t)
	finish(t, db, run("01AAAA0001", 1, "violated", "p"))
	finish(t, db, run("01AAAA0001", 1, "ok", "p"))
	if e, err := Get(t.Context(), db, "01AAAA0001"); err != nil || e.Record.Outcome.Kind != "violated" {
		t.Errorf("got %+v, %v", e.Record.Outcome, err)
	}
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		return unsigned(t, tx, Entry{Record: run("01AAAA0002", 1, "", "p")})
	})
	if err == nil {
		t.Error("a record without an outcome was finished")
	}
}

func TestBeginAndFinish(t *testing.T) {
	db, _ := open(t)
	r := full()
	end := r.Outcome
	r.Outcome = Outcome{}
	plan := json.RawMessage(`{"args":["a"]}`)
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		return Begin(t.Context(), tx, "engine", Entry{Record: r})
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Outcome = end
	err = db.Update(t.Context(), func(tx *sql.Tx) error {
		return unsigned(t, tx, Entry{Record: r, Plan: plan})
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Get(t.Context(), db, r.Run)
	if err != nil {
		t.Fatal(err)
	}
	r.Schema, r.Policy.Hosts = Schema, []string{}
	if diff := cmp.Diff(Entry{Record: r, Plan: plan}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLost(t *testing.T) {
	db, _ := open(t)
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		return errors.Join(
			Begin(t.Context(), tx, "dead", Entry{Record: run("01AAAA0001", 1, "", "p")}),
			Begin(t.Context(), tx, "alive", Entry{Record: run("01AAAA0002", 1, "", "p")}),
			Begin(t.Context(), tx, "dead", Entry{Record: run("01AAAA0003", 1, "", "p")}),
			unsigned(t, tx, Entry{Record: run("01AAAA0003", 1, "ok", "p")}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *sql.Tx) error {
		lost, err := Lost(t.Context(), tx, func(owner string) bool { return owner == "alive" })
		if err != nil || len(lost) != 1 || lost[0].Record.Run != "01AAAA0001" {
			t.Errorf("lost %+v, %v", lost, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOutput(t *testing.T) {
	db, home := open(t)
	finish(t, db, run("01AAAA0001", 1, "ok", "p"))
	err := db.Update(t.Context(), func(tx *sql.Tx) error {
		return PutOutput(t.Context(), tx, "01AAAA0001", "stdout", []byte("small\x00"))
	})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, db, run("01AAAA0002", 1, "ok", "p"))
	f, err := CreateOutputFile(home, "01AAAA0002", "stderr")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("large"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateOutputFile(home, "01AAAA0002", "stderr"); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second file of one channel: %v", err)
	}
	if err := os.WriteFile(filepath.Join(home, RunsDir, "stdout"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, run, channel, want, err string }{
		{"in the database", "01AAAA0001", "stdout", "small\x00", ""},
		{"nothing printed", "01AAAA0001", "stderr", "", ""},
		{"in a file", "01AAAA0002", "stderr", "large", ""},
		{"unknown run", "01AAAA0003", "stdout", "", "no such run"},
		{"no id at all", ".", "stdout", "", "no such run"},
		{"unknown channel", "01AAAA0002", "../../silk.db", "", "no channel"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := readOutput(t.Context(), db, home, test.run, test.channel)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, test.want, test.err)
			}
		})
	}
}

func readOutput(ctx context.Context, db *store.DB, home, run, channel string) (string, error) {
	r, err := Output(ctx, db, home, run, channel)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

func TestHashIsCanonical(t *testing.T) {
	a, err := Hash(map[string]any{"b": 1.0, "a": "ä"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Hash(struct {
		A string  `json:"a"`
		B float64 `json:"b"`
	}{"ä", 1})
	if err != nil || a != b {
		t.Errorf("%s and %s, %v", a, b, err)
	}
}

// TestHugeNumbersDoNotMakeARecordUnreadable: sizes are chosen by the program, and a list must survive them.
func TestHugeNumbersDoNotMakeARecordUnreadable(t *testing.T) {
	db, _ := open(t)
	r := full()
	r.Artifacts[0].Size, r.Policy.MemoryBytes = math.MaxInt64, math.MaxInt64
	finish(t, db, r)
	got, err := Get(t.Context(), db, r.Run)
	if err != nil {
		t.Fatal(err)
	}
	if got.Record.Artifacts[0].Size != maxExact || got.Record.Policy.MemoryBytes != maxExact {
		t.Errorf("size %d, memory %d", got.Record.Artifacts[0].Size, got.Record.Policy.MemoryBytes)
	}
	if r.Artifacts[0].Size != math.MaxInt64 {
		t.Error("the caller's record was changed")
	}
}

func BenchmarkEncode(b *testing.B) {
	r := full()
	for i := range 200 {
		r.Tools = append(r.Tools, Tool{fmt.Sprintf("python3-package-%d", i), "1.2.3-4+deb13u1"})
	}
	for b.Loop() {
		if _, err := r.encode(); err != nil {
			b.Fatal(err)
		}
	}
}

// unsigned is [Finish] where nobody signs.
func unsigned(t *testing.T, tx *sql.Tx, e Entry) error {
	t.Helper()
	s, err := Seal(e, nil)
	if err != nil {
		return err
	}
	return Finish(t.Context(), tx, s)
}
