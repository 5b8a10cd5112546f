package queue_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/queuetest"
	"github.com/silk-sandbox/silk/store"
)

// on is a bench over a store in a directory.
func on(t *testing.T, dir string, cfg queue.Config) *bench {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(dir, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{
		t: t, db: db, stream: new(queuetest.Stream), gates: map[string]chan struct{}{}, causes: map[string]error{},
		news: make(chan string, 100), failed: make(chan error, 100),
	}
	b.reopen(cfg)
	return b
}

// Another process has the table locked for longer than anybody waits: what would end or start meanwhile does so when it is
// free again.
func TestTableLocked(t *testing.T) {
	t.Parallel() // it waits
	dir := t.TempDir()
	ended := make(chan string, 10)
	var b *bench
	b = on(t, dir, queue.Config{Running: 1, End: func(ctx context.Context, e queue.Entry) {
		if err := b.Done(ctx, e.Run, nil); err == nil {
			ended <- e.Run
		}
	}})
	b.work()
	b.submit("a", "a1", "a2")
	b.start("a1")
	other, err := store.Open(t.Context(), filepath.Join(dir, store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin() // immediate: it has the write lock
	if err != nil {
		t.Fatal(err)
	}
	b.let("a1") // its Done fails
	if err := <-b.failed; !strings.Contains(err.Error(), "another process holds it") {
		t.Errorf("got %v, want what is wrong", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if run := <-ended; run != "a1" {
		t.Errorf("%s was to be ended", run)
	}
	b.start("a2")
	b.let("a2")
	if len(b.started) != 2 {
		t.Errorf("started %v", b.started)
	}
}

func TestTableOnAFullDisk(t *testing.T) {
	testenv.Require(t, testenv.Root)
	disk := testenv.SmallDisk(t, "8m")
	b := on(t, disk, queue.Config{Running: 1})
	b.submit("a", "a1")
	filler := filepath.Join(disk, "filler")
	if err := fill(filler); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	s := queue.Submission{Run: "big", Token: "a", Key: "k", Request: []byte(strings.Repeat("x", 1<<20))}
	if _, _, err := b.Submit(t.Context(), s, nil); err == nil || !strings.Contains(err.Error(), "disk") {
		t.Errorf("got %v, want what is wrong", err)
	}
	b.listed("a1")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	b.open = true
	b.work()
	b.start("a1")
	if e, existed, err := b.Submit(t.Context(), s, nil); err != nil || existed || e.Run != "big" {
		t.Errorf("after that: %s, existed %t, %v", e.Run, existed, err)
	}
	b.start("big")
	b.halt()
}

// fill writes until the disk is full.
func fill(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for size := 64 << 10; size > 0; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return err
}
