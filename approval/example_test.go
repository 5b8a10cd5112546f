package approval_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/silk-sandbox/silk/approval"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/store"
)

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// A runner asks, the owner reads what it would run, and says yes for two hours.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "approval")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := store.Open(ctx, filepath.Join(dir, store.FileName))
	if err != nil {
		panic(err)
	}
	defer db.Close()

	now := time.UnixMilli(1_780_000_000_000)
	ask := func(run, code string) (asked approval.Approval, waits bool) {
		err := db.Update(ctx, func(tx *sql.Tx) error {
			request := approval.Request{
				Run: run, Hash: sum("request " + code), CodeSHA256: sum(code), Subject: approval.Subject("lab:python", "fit.py"), Token: "01RUNNER",
				Rule: "memory", Detail: "memory 2GiB, where profile lab:python allows 512MiB",
				Plan: []byte(`{"memory":2147483648}`), Code: code, At: now, Expires: now.Add(10 * time.Minute),
			}
			grant, covered, err := approval.Covered(ctx, tx, approval.Use{Run: run, Token: request.Token, Hash: request.Hash, At: now})
			if err != nil || covered {
				fmt.Printf("%s is covered by %s\n", run, grant.Run)
				return err
			}
			_, err = tx.ExecContext(ctx, `INSERT INTO requests (run, token, session, hash, request, state, cancel, worker, accepted_at)
				VALUES (?, '01RUNNER', '', ?, '{}', 'pending', 0, '', 0)`, run, request.Hash)
			if err != nil {
				return err
			}
			waits = true
			asked, err = approval.Ask(ctx, tx, request)
			return err
		})
		if err != nil {
			panic(err)
		}
		return asked, waits
	}

	first, _ := ask("01A", "fit()\n")
	_, err = approval.Decide(ctx, db, approval.Decision{Run: "01A", Hash: first.Hash, By: auth.LocalOwner, Grant: true, For: 2 * time.Hour, At: now})
	fmt.Println("granted:", err == nil)

	ask("01B", "fit()\n") // the same again

	second, waits := ask("01C", "fit()\nimport socket\n") // not the same
	previous, _, err := approval.Previous(ctx, db, second)
	if err != nil {
		panic(err)
	}
	fmt.Println("waits:", waits)
	fmt.Print(approval.Diff(previous, second))

	_, err = approval.Decide(ctx, db, approval.Decision{Run: "01C", Hash: first.Hash, By: auth.LocalOwner, Grant: true, At: now})
	fmt.Println("with the old hash:", errors.Is(err, approval.ErrHash))
	// Output:
	// granted: true
	// 01B is covered by 01A
	// waits: true
	// # compared with what was approved on 2026-05-28T20:26:40Z
	// --- run 01A code
	// +++ run 01C code
	// @@ -1,1 +1,2 @@
	//  fit()
	// +import socket
	// with the old hash: true
}

func ExampleShow() {
	shown, _ := approval.Show("if admin: \u2066# only for \u202eadmins\n")
	fmt.Print(shown)
	for _, w := range approval.Warnings(shown) {
		fmt.Println(w)
	}
	// Output:
	// if admin: ⟨U+2066⟩# only for ⟨U+202E⟩admins
	// 2 characters are invisible or steering how others are shown: ⟨U+202E⟩, ⟨U+2066⟩
}
