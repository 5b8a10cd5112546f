package audit

import (
	"database/sql"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/store"
)

// fill writes until nothing more fits, and returns what makes room again.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// On a full disk no event is lost that was appended, none is half there, and rotation goes on when there is room again.
func TestRotateOnAFullDisk(t *testing.T) {
	dir := testenv.SmallDisk(t, "4m")
	db := openFile(t, filepath.Join(dir, store.FileName))
	grow(t, db, 50)
	before := verified(t, db).Head
	empty := fill(t, dir)
	if _, err := Rotate(t.Context(), db, small); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ENOSPC", err)
	}
	if got := verified(t, db).Head; got != before || inTable(t, db) != 50 {
		t.Errorf("the trail is %+v, %d events in the table", got, inTable(t, db))
	}
	if names := files(t, db); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
	empty()
	rotate(t, db, small)
	if got := verified(t, db); got.Head != before || got.Segments != 4 {
		t.Errorf("with room again: %+v", got)
	}
}

// The disk fills after the first file: what is in it need not be in the table, and nothing is there twice.
func TestRotateOnADiskThatFills(t *testing.T) {
	dir := testenv.SmallDisk(t, "4m")
	db := openFile(t, filepath.Join(dir, store.FileName))
	grow(t, db, 50)
	before := verified(t, db).Head
	var empty func()
	defer func(old func(string)) { atStep = old }(atStep)
	atStep = func(step string) {
		if step == "file is durable" && empty == nil {
			empty = fill(t, dir)
		}
	}
	if did, err := Rotate(t.Context(), db, small); err == nil {
		t.Errorf("it did %+v on a full disk", did)
	}
	if got := verified(t, db).Head; got != before || len(list(t, db, Filter{Limit: 100})) != 50 {
		t.Errorf("the trail is %+v, %d events", got, len(list(t, db, Filter{Limit: 100})))
	}
	empty()
	rotate(t, db, small)
	if got := verified(t, db); got.Head != before || got.Segments != 4 || inTable(t, db) != 10 {
		t.Errorf("with room again: %+v, %d events in the table", got, inTable(t, db))
	}
}

// An event that does not fit is refused, so that its caller knows.
func TestAppendOnAFullDisk(t *testing.T) {
	dir := testenv.SmallDisk(t, "4m")
	db := openFile(t, filepath.Join(dir, store.FileName))
	grow(t, db, 5)
	fill(t, dir)
	refused := false
	for range 2000 { // pages that are there already take some
		e, err := New("r", SandboxStarted, time.Now(), map[string]any{"intentId": "r", "text": strings.Repeat("x", 4000)})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Update(t.Context(), func(tx *sql.Tx) error { return Append(t.Context(), tx, &e) }); err != nil {
			if !strings.Contains(err.Error(), "disk") {
				t.Errorf("got %v", err)
			}
			refused = true
			break
		}
	}
	if !refused {
		t.Error("8 MB fitted on a full disk of 4 MiB")
	}
	verified(t, db)
}

// Another user of the host reads nothing of root's trail, though the state directory itself is open to all for the images.
func TestOthersCannotReadTheTrail(t *testing.T) {
	testenv.Require(t, testenv.Root)
	db := long(t, 50)
	rotate(t, db, small)
	home := filepath.Dir(db.Path())
	for dir := home; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	control := filepath.Join(home, "control")
	if err := os.WriteFile(control, []byte("open"), 0o644); err != nil {
		t.Fatal(err)
	}
	read := func(tool, name string) error {
		cmd := exec.CommandContext(t.Context(), tool, name)
		cmd.Stdout = io.Discard
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		return cmd.Run()
	}
	if err := read("cat", control); err != nil {
		t.Fatalf("the other user cannot read what is open to all: %v", err)
	}
	secret := []string{db.Path(), db.Path() + "-wal", db.Path() + "-shm"}
	for _, name := range files(t, db) {
		secret = append(secret, filepath.Join(Dir(db), name))
	}
	for _, name := range secret {
		if _, err := os.Stat(name); err != nil {
			t.Fatal(err)
		}
		if err := read("cat", name); err == nil {
			t.Errorf("the other user reads %s", name)
		}
	}
	if err := read("ls", Dir(db)); err == nil {
		t.Error("the other user lists the segments")
	}
	// The files are closed by themselves, not only behind their directory.
	if err := os.Chmod(Dir(db), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range files(t, db) {
		if err := read("cat", filepath.Join(Dir(db), name)); err == nil {
			t.Errorf("the other user reads %s", name)
		}
	}
	if len(secret) == 3 {
		t.Error("there are no segments to try")
	}
}
