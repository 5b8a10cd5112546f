// Package approval is the owner's yes to one request.
//
// A run that asks for more than its profile and the owner's configuration allow waits: [Ask] keeps what it would do, under
// the hash of the request, in the transaction that accepts the run. The owner reads the code and what has changed since the
// last version that was approved ([Get], [Previous], [Diff]) and answers with [Decide]; without an answer in time
// [Expire] denies, and [Withdraw] takes the question back when the run is canceled. A yes is for that run; if the owner says
// so also for some hours, in which [Covered] finds it for the same token's request with the same hash, until [Revoke].
// Changed code is another hash, and so another question.
//
// The promises, each of them a test: only an owner decides, never the token that asked; nobody grants without naming the
// hash that is stored; of two deciders one wins; what time ran out for is not granted; a clock that is set back makes no
// grant last longer; a grant of a token that has been revoked covers nothing more; every step is an audit event of the
// same transaction. Text of the requester's (code, names, details) is stored as it can be shown ([Show]): what steers a
// terminal, turns the direction of reading or is invisible is a visible code point, and what is not shown is said.
//
// It does not decide what needs an approval (package policy does), starts nothing, and knows no HTTP.
package approval

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/audit"
)

// Errors that callers tell apart, besides auth.ErrForbidden: the decider is no owner.
var (
	ErrNotFound   = errors.New("no such approval")                                     // Get, Decide, Revoke
	ErrOwnRequest = errors.New("a request is never decided by the token that made it") // Decide
	ErrHash       = errors.New("this is not the hash of the request")                  // Decide: what waits is not what was seen
	ErrDecided    = errors.New("it is decided already")                                // Decide
	ErrExpired    = errors.New("the time for a decision is over")                      // Decide
	ErrNoGrant    = errors.New("there is no grant that still covers anything")         // Revoke
	ErrTooLarge   = errors.New("the request is too large to be shown to an owner")     // Ask
)

// Bounds on what one request may bring along.
const (
	MaxCodeBytes    = 256 << 10 // shown to the owner; of longer code the beginning is, and that is said
	MaxFilesBytes   = 512 << 10 // shown of all files and the input together; what does not fit is named
	MaxFiles        = 200       // named; that there are more is said
	MaxPlanBytes    = 1 << 20   // of a larger one Ask says ErrTooLarge
	MaxSubjectBytes = 1024
	MaxTextBytes    = 2048               // of Rule, Detail and Reason; the rest is cut, and that is said
	MaxFor          = 7 * 24 * time.Hour // the longest that a grant lasts
)

// State is where an approval stands. All but Pending are final.
type State string

// The states.
const (
	Pending   State = "pending"
	Granted   State = "granted"
	Denied    State = "denied"
	Expired   State = "expired"   // nobody decided in time, so it is denied
	Withdrawn State = "withdrawn" // the run was canceled before
)

// Request is what the owner is asked for.
type Request struct {
	Run        string          // id of the run, which waits in table requests
	Hash       string          // of the request: SHA-256 in lower-case hex, of all that decides what is run and granted
	CodeSHA256 string          // of Code; empty if there is none
	Subject    string          // what successive versions of one program have in common: see [Subject]
	Token      string          // who asks
	Rule       string          // the ceiling that it is beyond
	Detail     string          // what is asked for, where what is allowed: the sentence of policy.Denial
	Plan       json.RawMessage // what would happen: policy.Plan
	Code       string          // the program as it would run; empty if the plan's arguments are all of it
	Files      []Upload        // what else lies in /workspace when it starts
	Stdin      string          // its input, if that came with the request
	StdinOpen  bool            // its input is sent while it runs, so nobody can see it before
	At         time.Time       // zero: now
	Expires    time.Time       // without a decision until then it is denied
}

// Approval is a request and what became of it. Rule, Detail, Code, Files and Reason are as [Show] makes them, safe to print.
type Approval struct {
	Run        string
	Hash       string
	CodeSHA256 string
	Subject    string
	Token      string
	Rule       string
	Detail     string
	Plan       json.RawMessage
	Code       string
	Omitted    string // why Code is not the whole code, as a sentence; empty if it is
	Files      []File // what else the program gets
	State      State
	Requested  time.Time
	Expires    time.Time
	Decided    time.Time // zero: not yet
	DecidedBy  string    // id of a token, or auth.LocalToken; empty before, and when time ran out
	Reason     string    // the decider's words
	ValidUntil time.Time // of a grant: the same request by the same token needs no other until then; zero: this run only
}

// Upload is one file of a request.
type Upload struct {
	Name       string // below /workspace
	Content    string
	Executable bool
}

// Ask keeps a request that waits for the owner, and adds approval_requested to the audit trail. tx is the transaction that
// accepts the run (of store.DB.Update): there is no question without a run, and no waiting run without a question. The
// code must be that of the hash: an owner is never shown other code than what would run.
func Ask(ctx context.Context, tx *sql.Tx, r Request) (Approval, error) {
	a, err := r.approval()
	if err != nil {
		return Approval{}, fmt.Errorf("ask for approval of run %q: %w", r.Run, err)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO approvals ("+columns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, '', '', NULL)`,
		a.Run, a.Hash, a.CodeSHA256, a.Subject, a.Token, a.Rule, a.Detail, string(a.Plan), a.Code, a.Omitted, encodeFiles(a.Files),
		string(a.State), a.Requested.UnixMilli(), a.Expires.UnixMilli())
	if err == nil {
		err = event(ctx, tx, a.Run, audit.ApprovalRequested, a.Requested, map[string]any{
			"requestHash": a.Hash, "codeSha256": a.CodeSHA256, "token": a.Token, "rule": a.Rule, "detail": a.Detail,
			"expiresAtMs": a.Expires.UnixMilli(),
		})
	}
	if err != nil {
		return Approval{}, fmt.Errorf("ask for approval of run %s: %w", a.Run, err)
	}
	return a, nil
}

// approval checks r and makes what is stored of it.
func (r Request) approval() (Approval, error) {
	if r.At.IsZero() {
		r.At = time.Now()
	}
	sum := sha256.Sum256([]byte(r.Code))
	switch {
	case r.Run == "" || r.Token == "" || r.Rule == "":
		return Approval{}, errors.New("it has no run, no token or no rule")
	case !isHash(r.Hash):
		return Approval{}, fmt.Errorf("%q is not a hash", r.Hash)
	case r.CodeSHA256 != hex.EncodeToString(sum[:]) && (r.CodeSHA256 != "" || r.Code != ""):
		return Approval{}, fmt.Errorf("%q is not the hash of its code", r.CodeSHA256)
	case r.Subject == "" || len(r.Subject) > MaxSubjectBytes || !isVisible(r.Subject):
		return Approval{}, fmt.Errorf("its subject has %d bytes, not 1 to %d, or is not made by Subject", len(r.Subject), MaxSubjectBytes)
	case len(r.Plan) > MaxPlanBytes:
		return Approval{}, fmt.Errorf("%w: its plan has %d bytes, more than %d", ErrTooLarge, len(r.Plan), MaxPlanBytes)
	case !json.Valid(r.Plan):
		return Approval{}, errors.New("its plan is not JSON")
	case !r.Expires.After(r.At):
		return Approval{}, errors.New("its time is over before it began")
	}
	a := Approval{
		Run: r.Run, Hash: r.Hash, CodeSHA256: r.CodeSHA256, Subject: r.Subject, Token: r.Token,
		Rule: short(r.Rule), Detail: short(r.Detail), Plan: r.Plan,
		State: Pending, Requested: wholeMs(r.At), Expires: wholeMs(r.Expires),
	}
	a.Code, a.Omitted = Show(r.Code)
	a.Files = r.files()
	return a, nil
}

func isHash(s string) bool {
	return len(s) == hex.EncodedLen(sha256.Size) && strings.Trim(s, "0123456789abcdef") == ""
}

// short makes text visible and bounds it.
func short(text string) string {
	shown := visible(text)
	if len(shown) <= MaxTextBytes {
		return shown
	}
	cut := strings.ToValidUTF8(shown[:MaxTextBytes], "")
	return fmt.Sprintf("%s (and %d bytes more)", cut, len(shown)-len(cut))
}

func event(ctx context.Context, tx *sql.Tx, run string, name audit.Name, at time.Time, data map[string]any) error {
	data["intentId"] = run
	e, err := audit.New(run, name, at, data)
	if err != nil {
		return err
	}
	return audit.Append(ctx, tx, &e)
}

func wholeMs(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()) }
