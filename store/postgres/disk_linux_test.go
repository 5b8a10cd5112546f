package postgres_test

import (
	"errors"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// The disk of the database's server is full; then somebody makes room.
func TestFullDisk(t *testing.T) {
	testenv.Require(t, testenv.Root)
	address := storetest.Database(t)
	disk := testenv.SmallDisk(t, "6m")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(u.Query().Get("host")) // the directory of the socket is the server's
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if who, err := user.LookupId(strconv.Itoa(int(owner))); err == nil {
		t.Logf("the server runs as %s", who.Username)
	}
	for _, dir := range []string{disk, disk + "/.."} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(disk, int(owner), -1); err != nil {
		t.Fatal(err)
	}
	admin(t, address, "CREATE TABLESPACE silk_small LOCATION '"+disk+"'")
	t.Cleanup(func() { admin(t, address, "DROP SCHEMA small CASCADE", "DROP TABLESPACE silk_small") })
	admin(t, address, "CREATE SCHEMA small", "CREATE TABLE small.filler TABLESPACE silk_small AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
	db := open(t, change(t, address, func(_ *url.URL, q url.Values) {
		q.Set("search_path", "small")
		q.Set("default_tablespace", "silk_small")
	}))
	for i := 0; ; i++ {
		if err = insert(db, t.Context(), strconv.Itoa(i)); err != nil {
			break
		}
		if i > 20000 {
			t.Fatal("the disk does not become full")
		}
	}
	if !errors.Is(err, store.ErrFull) {
		t.Errorf("got %v, want %v", err, store.ErrFull)
	}
	admin(t, address, "DROP TABLE small.filler")
	if err := insert(db, t.Context(), "after"); err != nil {
		t.Errorf("after room was made: %v", err)
	}
}
