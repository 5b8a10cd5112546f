package auth_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/store"
)

// A token from its making to its end.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "auth")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := store.Open(ctx, filepath.Join(dir, store.FileName))
	if err != nil {
		panic(err)
	}
	defer db.Close()

	_, s, err := auth.Create(ctx, db, auth.New{By: auth.LocalOwner, Name: "obsidian", Role: auth.Runner, MaxRunning: 2})
	if err != nil {
		panic(err)
	}
	verifier := auth.NewVerifier(db, auth.VerifierConfig{})
	id, err := verifier.Verify(ctx, s)
	if err != nil {
		panic(err)
	}
	fmt.Println(id.Name, "may start runs:", id.Can(auth.ActRun))
	fmt.Println(id.Name, "may approve them:", id.Can(auth.ActDecide))

	// A browser cannot put the secret into a header of a WebSocket, so it asks for a ticket first.
	tickets := auth.NewTickets(verifier, auth.TicketsConfig{})
	ticket, _, err := tickets.Issue(id, "/v1/runs/01A/stream")
	if err != nil {
		panic(err)
	}
	id, err = tickets.Redeem(ctx, ticket, "/v1/runs/01A/stream")
	fmt.Println(id.Name, err)
	_, err = tickets.Redeem(ctx, ticket, "/v1/runs/01A/stream")
	fmt.Println("again:", err)

	if _, err := verifier.Revoke(ctx, auth.LocalOwner, "obsidian"); err != nil {
		panic(err)
	}
	_, err = verifier.Verify(ctx, s)
	fmt.Println("revoked:", err)
	// Output:
	// obsidian may start runs: true
	// obsidian may approve them: false
	// obsidian <nil>
	// again: not authorized
	// revoked: not authorized
}

func ExampleCheckSecret() {
	err := auth.CheckSecret(secret.New("silk_ckrnvz8ptb6y7mytt359tknph466t4ngd9nwvqapg272n08em5vknmr0an"))
	fmt.Println(errors.Is(err, auth.ErrMistyped), err)
	// Output: true mistyped token: its checksum is wrong, so a character was changed or two were swapped
}

func ExampleOrigins() {
	origins, err := auth.ParseOrigins([]string{"app://obsidian.md", "http://localhost:*"})
	if err != nil {
		panic(err)
	}
	for _, header := range [][]string{nil, {"app://obsidian.md"}, {"http://localhost:5173"}, {"https://evil.example"}, {"null"}} {
		fmt.Println(header, origins.Allowed(header))
	}
	_, err = auth.ParseOrigins([]string{"https://Notes.example.org/"})
	fmt.Println(err)
	// Output:
	// [] true
	// [app://obsidian.md] true
	// [http://localhost:5173] true
	// [https://evil.example] false
	// [null] false
	// origin "https://Notes.example.org/" is not as browsers write it; write https://notes.example.org
}

// Attempts that fail are slowed down; those that succeed never are.
func ExampleLimiter_Peek() {
	failures := auth.NewLimiter(auth.LimiterConfig{Every: time.Minute, Burst: 2, Clock: func() time.Time { return time.UnixMilli(0) }})
	key := auth.AddressKey("192.0.2.7:4711")
	for _, good := range []bool{false, true, false, true} {
		if ok, retryAfter := failures.Peek(key); !ok {
			fmt.Println("not tried, again in", retryAfter)
			continue
		}
		if !good {
			failures.Allow(key)
		}
		fmt.Println("tried:", good)
	}
	// Output:
	// tried: false
	// tried: true
	// tried: false
	// not tried, again in 1m0s
}
