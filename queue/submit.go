package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"
)

// Submission is a run that somebody wants accepted.
type Submission struct {
	Run     string // id; letters and digits
	Token   string // id of who asks; letters, digits, - and _
	Session string // "" for none
	Key     string // idempotency key, unique for the token; "" for none
	Hash    string // of the canonical request
	Request []byte // kept until the run has ended
	Pending bool   // it waits for an approval before it is queued
	Need    Need

	MaxQueued  int // of the token; 0: Config.TokenQueued
	MaxRunning int // of the token; 0: Config.TokenRunning
}

// FullError says that no more runs may wait. Nothing was written.
type FullError struct {
	Token      string        // whose runs are too many; "" for all of the host
	Limit      int           // that may wait
	RetryAfter time.Duration // when it is worth another try: whole seconds, a guess
}

func (e *FullError) Error() string {
	if e.Token == "" {
		return fmt.Sprintf("the queue is full: %d runs wait", e.Limit)
	}
	return fmt.Sprintf("the queue of the token is full: %d of its runs wait", e.Limit)
}

// TooBigError says that a run needs more than the host lets all runs have together. Nothing was written.
type TooBigError struct {
	What        string // "memory" or "cpus"
	Need, Limit float64
}

func (e *TooBigError) Error() string {
	return fmt.Sprintf("the run needs %s %g, more than the %g that all runs of this host may have", e.What, e.Need, e.Limit)
}

// name is what ids look like: they become parts of subjects of the stream.
var name = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (q *Queue) check(s Submission) error {
	var faults []error
	if !name.MatchString(s.Run) || !name.MatchString(s.Token) {
		faults = append(faults, fmt.Errorf("run %q and token %q must have 1 to 64 letters, digits, - or _", s.Run, s.Token))
	}
	if s.Need.MemoryBytes < 0 || !(s.Need.CPUs >= 0) || math.IsInf(s.Need.CPUs, 0) || s.MaxQueued < 0 || s.MaxRunning < 0 { // NaN is not >= 0
		faults = append(faults, errors.New("a need or bound is no number from 0"))
	}
	if s.Need.MemoryBytes > q.cfg.MemoryBytes {
		faults = append(faults, &TooBigError{"memory", float64(s.Need.MemoryBytes), float64(q.cfg.MemoryBytes)})
	}
	if s.Need.CPUs > q.cfg.CPUs {
		faults = append(faults, &TooBigError{"cpus", s.Need.CPUs, q.cfg.CPUs})
	}
	return errors.Join(faults...)
}

// Submit accepts a run: when it returns without an error, the row and what also wrote are on the disk, and the run is
// published, or will be as soon as the stream can take it.
//
// With a key that the token has used, for a request of the same hash, it returns that run and existed, and calls also
// not; for another hash it is [ErrKeyReused]. Errors besides are [*FullError], [*TooBigError] and those of also and the
// store; after each nothing was written, but for one: a row whose way to the disk is unsure is canceled, and
// Config.End gets it.
func (q *Queue) Submit(ctx context.Context, s Submission, also func(tx *sql.Tx) error) (e Entry, existed bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("submit run %s: %w", s.Run, err)
		}
	}()
	if err := q.check(s); err != nil {
		return Entry{}, false, err
	}
	if s.MaxQueued == 0 {
		s.MaxQueued = q.cfg.TokenQueued
	}
	if s.MaxRunning == 0 {
		s.MaxRunning = q.cfg.TokenRunning
	}
	err = q.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if e, existed, err = known(ctx, tx, s); existed || err != nil {
			return err
		}
		if err := q.full(ctx, tx, s); err != nil {
			return err
		}
		if e, err = q.insert(ctx, tx, s); err != nil {
			return err
		}
		if also != nil {
			return also(tx)
		}
		return nil
	})
	if err != nil {
		return Entry{}, false, err
	}
	q.cfg.step("submit: committed", e.Run)
	synced := make(chan error, 1)
	go func() { synced <- q.cfg.sync() }() // also for one that exists: its own Submit may not have come so far
	// Meanwhile the run is published. Who takes it waits for what comes of its acceptance.
	if !existed {
		defer q.accepting(e.Run)()
		q.mu.Lock()
		q.perToken = max(q.perToken, perToken(s.MaxQueued, s.MaxRunning))
		q.mu.Unlock()
		if e.State == Queued {
			q.publish(ctx, e)
		}
	}
	if err := <-synced; err != nil {
		if !existed {
			err = errors.Join(err, q.withdraw(ctx, e.Run))
		}
		return Entry{}, false, err
	}
	q.cfg.step("submit: synced", e.Run)
	return e, existed, nil
}

// known looks for the run that was accepted with the key of s.
func known(ctx context.Context, tx *sql.Tx, s Submission) (e Entry, existed bool, err error) {
	if s.Key == "" {
		return Entry{}, false, nil
	}
	all, err := entries(ctx, tx, "WHERE token = ? AND idempotency_key = ?", s.Token, s.Key)
	if err != nil || len(all) == 0 {
		return Entry{}, false, err
	}
	if all[0].Hash != s.Hash {
		return Entry{}, false, ErrKeyReused
	}
	return all[0], true, nil
}

// full refuses s if too many wait.
func (q *Queue) full(ctx context.Context, tx *sql.Tx, s Submission) error {
	var all, own int
	err := tx.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE token = ?) FROM requests
		WHERE state <> 'ended' AND state IN ('pending', 'queued')`, s.Token).Scan(&all, &own) // the first condition is that of the index
	if err != nil {
		return fmt.Errorf("count requests: %w", err)
	}
	var full *FullError
	switch {
	case own >= s.MaxQueued:
		full = &FullError{Token: s.Token, Limit: s.MaxQueued}
	case all >= q.cfg.Queued:
		full = &FullError{Limit: q.cfg.Queued}
	default:
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	atOnce := q.cfg.Running
	if full.Token != "" {
		atOnce = min(atOnce, s.MaxRunning)
	}
	full.RetryAfter = min(max(q.average.wait(1, atOnce), time.Second), time.Minute).Round(time.Second)
	return full
}

func (q *Queue) insert(ctx context.Context, tx *sql.Tx, s Submission) (Entry, error) {
	now := q.now()
	e := Entry{
		Run: s.Run, Token: s.Token, Session: s.Session, Key: s.Key, Hash: s.Hash, Request: s.Request, State: Queued,
		Worker: q.owner(), MaxRunning: s.MaxRunning, Need: s.Need, AcceptedAt: time.UnixMilli(now), QueuedAt: time.UnixMilli(now),
	}
	key, queued := sql.NullString{String: s.Key, Valid: s.Key != ""}, sql.NullInt64{Int64: now, Valid: true}
	if s.Pending {
		e.State, e.QueuedAt, queued = Pending, time.Time{}, sql.NullInt64{}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO requests (run, token, session, idempotency_key, hash, request, state, cancel, worker,
		max_running, memory_bytes, cpus, accepted_at, queued_at) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)`,
		e.Run, e.Token, e.Session, key, e.Hash, string(e.Request), e.State, e.Worker, e.MaxRunning, e.Need.MemoryBytes, e.Need.CPUs, now, queued)
	if err != nil {
		return Entry{}, fmt.Errorf("insert request: %w", err)
	}
	return e, nil
}

// Refused notes a run that is over before it began, so that it is found like others: its key stays free, and nothing of what it asked
// for is kept.
func (q *Queue) Refused(ctx context.Context, s Submission) error {
	now := q.now()
	err := q.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO requests (run, token, session, hash, request, state, cancel, worker, accepted_at, ended_at)
			VALUES (?, ?, ?, ?, '', ?, 0, ?, ?, ?)`, s.Run, s.Token, s.Session, s.Hash, Ended, q.owner(), now, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("note refused run %s: %w", s.Run, err)
	}
	return nil
}

// accepting says that the acceptance of a run is under way, until done is called.
func (q *Queue) accepting(run string) (done func()) {
	over := make(chan struct{})
	q.mu.Lock()
	defer q.mu.Unlock()
	q.accepts[run] = over
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.accepts, run)
		close(over)
	}
}

// accepted waits until a run is accepted, or withdrawn.
func (q *Queue) accepted(run string) {
	q.mu.Lock()
	over := q.accepts[run]
	q.mu.Unlock()
	if over != nil {
		<-over
	}
}

// withdraw cancels a row that its client does not know to be accepted.
func (q *Queue) withdraw(ctx context.Context, run string) error {
	return q.change(context.WithoutCancel(ctx), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE requests SET cancel = 1 WHERE run = ?", run)
		return err
	})
}
