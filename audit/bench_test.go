//go:build unix

package audit

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/store"
)

// runs adds the events of n runs that went well.
func runs(b *testing.B, db *store.DB, n int) {
	b.Helper()
	for i := 0; i < n; i += 1000 {
		err := db.Update(b.Context(), func(tx *sql.Tx) error {
			for j := range min(1000, n-i) {
				id := fmt.Sprintf("01JF4Z7M6W8V4Y2K%010d", i+j)
				started, err := New(id, SandboxStarted, time.Now(), map[string]any{
					"intentId": id, "profile": "lab:python", "memoryMb": 512, "networkMode": "deny", "driver": "gvisor",
					"image": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
				})
				if err != nil {
					return err
				}
				ended, err := New(id, SandboxCompleted, time.Now(), map[string]any{"intentId": id, "profile": "lab:python", "outcome": "ok", "exitCode": 0, "durationMs": 41})
				if err != nil {
					return err
				}
				if err := Append(b.Context(), tx, &started, &ended); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRotate moves the events of 5,000 runs: what a run waits for that meets a full table.
func BenchmarkRotate(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		db, err := store.Open(b.Context(), b.TempDir()+"/"+store.FileName)
		if err != nil {
			b.Fatal(err)
		}
		runs(b, db, 5500)
		b.StartTimer()
		did, err := Rotate(b.Context(), db, Policy{})
		b.StopTimer()
		if err != nil || len(did.Segments) != 1 {
			b.Fatalf("%v, %v", did, err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkNothingDue is what each engine pays.
func BenchmarkNothingDue(b *testing.B) {
	db, err := store.Open(b.Context(), b.TempDir()+"/"+store.FileName)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	runs(b, db, 4000)
	for b.Loop() {
		if _, err := Rotate(b.Context(), db, Policy{}); err != nil {
			b.Fatal(err)
		}
	}
}
