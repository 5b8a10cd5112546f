package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/auth"
)

func (a *app) tokenCommand() *cobra.Command {
	n := auth.New{By: auth.LocalOwner}
	var role, expires string
	create := &cobra.Command{
		Use: "new NAME", Short: "Make a token and print its secret", Args: needArgs(1, 1, "one name"),
		Long: `Make a token, with which a program or a device may use the service, and print its secret on stdout: once, because it is
kept nowhere. Roles: a runner starts runs, sees and ends its own; a viewer sees all runs and starts none; an owner does
everything, and approves what runners ask for.`,
		Example: "  silk token new obsidian-laptop\n  silk token new ci --expires 30d --max-running 4 --max-queued 50 > ci.token\n  silk token new phone --role owner",
		RunE: func(_ *cobra.Command, args []string) error {
			n.Name, n.Role = args[0], auth.Role(role)
			return a.tokenNew(n, expires)
		},
	}
	create.Flags().StringVar(&role, "role", string(auth.Runner), "what it may do: owner, runner or viewer")
	create.Flags().StringVar(&expires, "expires", "90d", "how long it is good, such as 12h or 30d, or never")
	create.Flags().IntVar(&n.MaxRunning, "max-running", 0, "runs of it at once at most (default what the service allows each token)")
	create.Flags().IntVar(&n.MaxQueued, "max-queued", 0, "runs of it that wait at most (default what the service allows each token)")

	ls := &cobra.Command{
		Use: "ls", Short: "List the tokens, those that are no good any more too", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk token ls\n  silk token ls --json",
		RunE:    func(*cobra.Command, []string) error { return a.tokenList() },
	}
	revoke := &cobra.Command{
		Use: "revoke NAME|ID", Short: "End a token", Args: needArgs(1, 1, "one name or id"),
		Long:    "End a token: within a second the service takes it no more. What it has started goes on. Its name is free for another one.",
		Example: "  silk token revoke obsidian-laptop",
		RunE:    func(_ *cobra.Command, args []string) error { return a.tokenRevoke(args[0]) },
	}
	return group("token", "Make, list and revoke the tokens with which programs use the service",
		"  silk token new obsidian-laptop\n  silk token ls\n  silk token revoke obsidian-laptop", create, a.jsonFlag(ls), revoke)
}

func (a *app) tokenNew(n auth.New, expires string) error {
	if !slices.Contains(auth.Roles, n.Role) {
		return usagef("--role %s is not owner, runner or viewer", printable(string(n.Role)))
	}
	for flag, value := range map[string]int{"--max-running": n.MaxRunning, "--max-queued": n.MaxQueued} {
		if value < 0 || value > auth.MaxQuota {
			return usagef("%s %d is not from 0 to %d", flag, value, auth.MaxQuota)
		}
	}
	n.At = time.Now()
	if expires != "never" {
		d, ok := longDuration(expires)
		if !ok {
			return usagef("--expires %s is not a duration above zero such as 12h or 30d, and not never", printable(expires))
		}
		n.Expires = n.At.Add(d)
	}
	db, err := a.tokenStore(true)
	if err != nil {
		return err
	}
	defer db.Close()
	t, s, err := auth.Create(a.ctx, db, n)
	if errors.Is(err, auth.ErrName) {
		return usagef("%v", err)
	}
	if err != nil {
		return err
	}
	until := "until it is revoked"
	if !t.Expires.IsZero() {
		until = "until " + timeText(t.Expires.UnixMilli())
	}
	if err := a.print("%s", s.Reveal()); err != nil {
		return err // nobody has seen the secret: the token is of no use, and in the list
	}
	a.errorf("token %s (%s), %s, is good %s; its secret is not shown again", t.Name, t.ID, t.Role, until)
	return nil
}

// tokenAnswer is a token in the JSON of `silk token ls`.
type tokenAnswer struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Role        string `json:"role"`
	State       string `json:"state"`
	MaxRunning  int    `json:"max_running"`
	MaxQueued   int    `json:"max_queued"`
	CreatedAtMs int64  `json:"created_at_ms"`
	ExpiresAtMs *int64 `json:"expires_at_ms"`
	RevokedAtMs *int64 `json:"revoked_at_ms"`
}

func (a *app) tokenList() error {
	var tokens []auth.Token
	db, err := a.tokenStore(false)
	switch {
	case errors.Is(err, errNoRuns):
	case err != nil:
		return err
	default:
		defer db.Close()
		if tokens, err = auth.List(a.ctx, db); err != nil {
			return err
		}
	}
	now := time.Now()
	if a.json {
		list := make([]tokenAnswer, len(tokens))
		for i, t := range tokens {
			list[i] = tokenAnswer{
				t.ID, t.Name, string(t.Role), t.State(now), t.MaxRunning, t.MaxQueued,
				t.Created.UnixMilli(), msOrNull(t.Expires), msOrNull(t.Revoked),
			}
		}
		return a.printJSON(list)
	}
	rows := [][]string{{"NAME", "ROLE", "STATE", "CREATED", "EXPIRES", "RUNNING", "QUEUED", "ID"}}
	for _, t := range tokens {
		expires := "never"
		if !t.Expires.IsZero() {
			expires = timeText(t.Expires.UnixMilli())
		}
		rows = append(rows, []string{t.Name, string(t.Role), t.State(now), timeText(t.Created.UnixMilli()), expires, quotaText(t.MaxRunning), quotaText(t.MaxQueued), t.ID})
	}
	return a.table(rows)
}

func msOrNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

func quotaText(n int) string {
	if n == 0 {
		return "default"
	}
	return strconv.Itoa(n)
}

func (a *app) tokenRevoke(nameOrID string) error {
	db, err := a.tokenStore(false)
	if err == nil {
		defer db.Close()
		var t auth.Token
		if t, err = auth.Revoke(a.ctx, db, auth.LocalOwner, nameOrID, time.Time{}); err == nil {
			a.errorf("token %s (%s) is revoked", t.Name, t.ID)
		}
	}
	switch {
	case errors.Is(err, errNoRuns), errors.Is(err, auth.ErrNotFound):
		return missingf("there is no token %s; silk token ls lists them", printable(nameOrID))
	case errors.Is(err, auth.ErrRevoked):
		return findingf("token %s is revoked already", printable(nameOrID))
	}
	return err
}

// longDuration reads a duration above zero that may be in days: 90s, 12h, 30d.
func longDuration(text string) (time.Duration, bool) {
	const maxDays = 36500 // a century; far below what a Duration holds
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour, err == nil && n > 0 && n <= maxDays
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0
}
