package skill

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

func TestOnPostgres(t *testing.T) { storetest.OnPostgres(t) }

func openStore(t *testing.T) *store.DB {
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
	return db
}

// made is a directory with a skill that holds, and its manifest.
func made(t *testing.T, change func(*Manifest)) (dir string, m Manifest) {
	t.Helper()
	dir = tree(t, map[string]string{"index.js": "console.log(1)\n", "lib/x.js": "module.exports = 2\n"})
	m = good()
	var err error
	if m.Files, err = HashFiles(dir, []string{"index.js", "lib/x.js"}); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&m)
	}
	m.Sign(keyOf(t))
	return dir, m
}

// at is when everything happens.
var at = time.UnixMilli(1_800_000_000_123)

func events(t *testing.T, db *store.DB) (all []string) {
	t.Helper()
	list, err := audit.List(t.Context(), db, audit.Filter{Prefix: "skill_"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		all = append(all, e.Run+" "+string(e.Name)+" "+string(e.Data))
	}
	return all
}

func TestRegister(t *testing.T) {
	db := openStore(t)
	dir, m := made(t, nil)
	r, err := Register(t.Context(), db, m.Text(), Origin{Dir: dir}, at)
	if want := (Result{Registered: true, Name: "price-check", ManifestHash: m.Hash()}); err != nil || !cmp.Equal(r, want) {
		t.Fatalf("%+v, %v", r, err)
	}
	got, err := Get(t.Context(), db, "price-check")
	if err != nil || got.PublisherAddress != testAddress || got.PublisherName != "Ann" || got.ManifestHash != m.Hash() || got.Status != Active || got.RegisteredAt != at.UnixMilli() ||
		got.RevokedAt != nil || got.Dir != dir {
		t.Errorf("%+v, %v", got, err)
	}
	var stored Manifest
	if err := json.Unmarshal(got.Manifest, &stored); err != nil || !cmp.Equal(stored, m) {
		t.Errorf("stored %+v, %v", stored, err)
	}
	s, err := Load(t.Context(), db, "price-check")
	if err != nil || s.Hash != m.Hash() || len(s.Files) != 2 || string(s.Files[0].Bytes) != "console.log(1)\n" || s.Files[1].Path != "lib/x.js" {
		t.Errorf("%+v, %v", s, err)
	}

	r, err = Register(t.Context(), db, m.Text(), Origin{Dir: dir}, at)
	if err != nil || r.Registered || r.Error != Duplicate || r.ManifestHash != "" {
		t.Errorf("a second time: %+v, %v", r, err)
	}
	if err := Revoke(t.Context(), db, "price-check", at.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := Revoke(t.Context(), db, "price-check", at); !errors.Is(err, ErrRevoked) {
		t.Errorf("revoked twice: %v", err)
	}
	if _, err := Load(t.Context(), db, "price-check"); !errors.Is(err, ErrRevoked) {
		t.Errorf("a revoked skill loads: %v", err)
	}
	if r, err := Register(t.Context(), db, m.Text(), Origin{Dir: dir}, at); err != nil || r.Error != Duplicate {
		t.Errorf("a revoked name is free: %+v, %v", r, err)
	}
	got, err = Get(t.Context(), db, "price-check")
	if err != nil || got.Status != Revoked || got.RevokedAt == nil || *got.RevokedAt != at.UnixMilli()+1000 {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := List(t.Context(), db, false); err != nil || len(list) != 0 {
		t.Errorf("active: %+v, %v", list, err)
	}
	if list, err := List(t.Context(), db, true); err != nil || len(list) != 1 {
		t.Errorf("all: %+v, %v", list, err)
	}
	for _, err := range []error{Revoke(t.Context(), db, "other", at), func() error { _, err := Load(t.Context(), db, "other"); return err }()} {
		if !errors.Is(err, ErrNotFound) || err.Error() != NotFound {
			t.Errorf("of another name: %v", err)
		}
	}
	want := []string{
		`system skill_registration_failed {"intentId":"system","reason":"duplicate_skill","skillName":"price-check"}`,
		`system skill_revoked {"intentId":"system","skillName":"price-check"}`,
		`system skill_registration_failed {"intentId":"system","reason":"duplicate_skill","skillName":"price-check"}`,
		`system skill_registered {"intentId":"system","manifestHash":"` + m.Hash() + `","publisherAddress":"` + testAddress + `","skillName":"price-check"}`,
	}
	if diff := cmp.Diff(want, events(t, db)); diff != "" {
		t.Error(diff)
	}
}

// TestRegisterRefuses: each step by its published name, and the first one that fails counts.
func TestRegisterRefuses(t *testing.T) {
	write := func(name, text string) func(t *testing.T, dir string, m *Manifest) {
		return func(t *testing.T, dir string, m *Manifest) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	rehash := func(t *testing.T, dir string, m *Manifest) {
		files, err := HashFiles(dir, []string{"index.js", "lib/x.js"})
		if err != nil {
			t.Fatal(err)
		}
		m.Files = files
		m.Sign(keyOf(t))
	}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir string, m *Manifest)
		want   string
		where  string // of the first fault, file or finding
	}{
		{"a limit", func(t *testing.T, _ string, m *Manifest) { m.Sandbox.MemoryMb = 513; m.Sign(keyOf(t)) }, SchemaFailed, "/sandbox/memoryMb"},
		{"a limit, and everything else too", func(t *testing.T, dir string, m *Manifest) {
			m.Sandbox.MemoryMb = 513
			write("index.js", "eval(x)")(t, dir, m)
		}, SchemaFailed, "/sandbox/memoryMb"},
		{"a field that was changed", func(_ *testing.T, _ string, m *Manifest) { m.Sandbox.MemoryMb = 512 }, SignatureFailed, "/signature"},
		{"a signature that was changed", func(_ *testing.T, _ string, m *Manifest) {
			m.Signature = strings.Replace(m.Signature, m.Signature[2:4], "00", 1)
		}, SignatureFailed, "/signature"},
		{"a signature and a file", func(t *testing.T, dir string, m *Manifest) { m.Name = "x"; write("index.js", "eval(x)")(t, dir, m) }, SignatureFailed, "/signature"},
		{"a byte of a file", write("lib/x.js", "module.exports = 3\n"), file, "lib/x.js"},
		{"a file that is gone", func(t *testing.T, dir string, _ *Manifest) {
			if err := os.Remove(filepath.Join(dir, "lib/x.js")); err != nil {
				t.Fatal(err)
			}
		}, file, "lib/x.js"},
		{"a file and what is in it", write("index.js", "eval(x)"), file, "index.js"},
		{"code", func(t *testing.T, dir string, m *Manifest) {
			write("index.js", "\nfetch(x)")(t, dir, m)
			rehash(t, dir, m)
		}, ScanFailed, "index.js"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := openStore(t)
			dir, m := made(t, nil)
			tt.change(t, dir, &m)
			r, err := Register(t.Context(), db, m.Text(), Origin{Dir: dir}, at)
			if err != nil {
				t.Fatal(err)
			}
			first := ""
			switch {
			case len(r.ValidationErrors) > 0:
				first = r.ValidationErrors[0].Path
			case len(r.HashMismatches) > 0:
				first = r.HashMismatches[0].Path
			case len(r.ScanFindings) > 0:
				first = r.ScanFindings[0].File
			}
			if r.Registered || r.Error != tt.want || first != tt.where || r.ManifestHash != "" || r.Name != m.Name {
				t.Errorf("%+v, want %s at %s", r, tt.want, tt.where)
			}
			if list, err := List(t.Context(), db, true); err != nil || len(list) != 0 {
				t.Errorf("kept %+v, %v", list, err)
			}
			want := []string{`system skill_registration_failed {"intentId":"system","reason":"` + tt.want + `","skillName":"` + m.Name + `"}`}
			if diff := cmp.Diff(want, events(t, db)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

const file = HashMismatched

func TestRegisterWarns(t *testing.T) {
	dir, m := made(t, func(m *Manifest) { m.Permissions.NetworkAccess = true })
	if err := os.WriteFile(filepath.Join(dir, "index.js"), []byte("fetch(x)"), 0o644); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.Files, err = HashFiles(dir, []string{"index.js", "lib/x.js"}); err != nil {
		t.Fatal(err)
	}
	m.Sign(keyOf(t))
	r, err := Register(t.Context(), openStore(t), m.Text(), Origin{Dir: dir}, at)
	if err != nil || !r.Registered || r.Error != "" || len(r.ScanFindings) != 1 || r.ScanFindings[0].Severity != SeverityWarning {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRegisterNowhere(t *testing.T) {
	_, m := made(t, nil)
	db := openStore(t)
	r, err := Register(t.Context(), db, m.Text(), Origin{}, at)
	if err != nil || r.Error != SchemaFailed || len(r.ValidationErrors) != 1 || r.ValidationErrors[0].Path != "/basePath" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Register(t.Context(), db, m.Text(), Origin{Dir: "/nonexistent"}, at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// TestRegisterImage: the image is kept with the skill, and what cannot be kept undoes the registration.
func TestRegisterImage(t *testing.T) {
	db := openStore(t)
	dir, m := made(t, nil)
	digest := "sha256:" + strings.Repeat("ab", 32)
	lost := errors.New("no room")
	if _, err := Register(t.Context(), db, m.Text(), Origin{Dir: dir, Image: digest, Keep: func(string) error { return lost }}, at); !errors.Is(err, lost) {
		t.Fatalf("a tag that cannot be written: %v", err)
	}
	if _, err := Get(t.Context(), db, m.Name); !errors.Is(err, ErrNotFound) {
		t.Errorf("it was registered all the same: %v", err)
	}
	var kept string
	r, err := Register(t.Context(), db, m.Text(), Origin{Dir: dir, Image: digest, Keep: func(name string) error { kept = name; return nil }}, at)
	if err != nil || !r.Registered || kept != m.Name {
		t.Fatalf("%+v, %v, kept %q", r, err, kept)
	}
	if s, err := Load(t.Context(), db, m.Name); err != nil || s.Image != digest {
		t.Errorf("loaded with %q, %v", s.Image, err)
	}
	row, err := Get(t.Context(), db, m.Name)
	if text, _ := json.Marshal(row); err != nil || !strings.Contains(string(text), `"image":"`+digest+`"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestTampered: whatever changes after the registration is found before a run, also in the database.
func TestTampered(t *testing.T) {
	set := func(column, value string) func(context.Context, *testing.T, *store.DB, string) {
		return func(ctx context.Context, t *testing.T, db *store.DB, _ string) {
			err := db.Update(ctx, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE registered_skills SET "+column+" = ?", value)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	_, other := made(t, func(m *Manifest) { m.Sandbox.AllowSpawn = true })
	_, m := made(t, nil)
	m.Sandbox.MemoryMb = 512
	for _, tt := range []struct {
		name   string
		change func(context.Context, *testing.T, *store.DB, string)
		want   string
	}{
		{"a byte of a file", func(_ context.Context, t *testing.T, _ *store.DB, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "index.js"), []byte("console.log(2)\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, HashMismatched},
		{"a link in place of a file", func(_ context.Context, t *testing.T, _ *store.DB, dir string) {
			if err := errors.Join(os.Rename(filepath.Join(dir, "index.js"), filepath.Join(dir, "real.js")), os.Symlink("real.js", filepath.Join(dir, "index.js"))); err != nil {
				t.Fatal(err)
			}
		}, HashMismatched},
		{"a limit in the database", set("manifest", string(m.Text())), SignatureFailed},
		{"no JSON in the database", set("manifest", "{"), SchemaFailed},
		{"another manifest of the publisher", set("manifest", string(other.Text())), SignatureFailed},
		{"the hash in the database", set("manifest_hash", "0x00"), SignatureFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := openStore(t)
			dir, m := made(t, nil)
			if r, err := Register(t.Context(), db, m.Text(), Origin{Dir: dir}, at); err != nil || !r.Registered {
				t.Fatalf("%+v, %v", r, err)
			}
			tt.change(t.Context(), t, db, dir)
			_, err := Load(t.Context(), db, m.Name)
			var tampered *TamperedError
			if !errors.As(err, &tampered) || tampered.Result.Error != tt.want || tampered.Result.Name != m.Name || !strings.Contains(err.Error(), tt.want+"; ") {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// tree makes a directory with files.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
