package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// State is where a run stands.
type State string

// The states, in their order. A run skips those that it does not need.
const (
	Pending State = "pending" // it waits for an approval
	Queued  State = "queued"  // it waits for its turn
	Running State = "running" // a worker has it
	Ended   State = "ended"
)

// Need is what a run may use at most, and what the host must have left before it starts. Zero counts for nothing.
type Need struct {
	MemoryBytes int64
	CPUs        float64
}

// Entry is one accepted run as it stands in the table.
type Entry struct {
	Run     string
	Token   string // id of the token that asked for it
	Session string // "" for none
	Key     string // idempotency key; "" for none
	Hash    string // of the canonical request
	Request []byte // as it was accepted; empty once it has ended
	State   State
	// Canceled says that somebody asked for its end. One that still waits will not start: whoever canceled it ends it.
	Canceled   bool
	Worker     string // that runs it; before, that is to run it: "" is any
	MaxRunning int    // runs of its token at once, as it was when this one was accepted
	Need       Need
	// Times are the zero time until it has come that far, and have milliseconds.
	AcceptedAt, QueuedAt, StartedAt, EndedAt time.Time
}

// Waiting says that no worker has it yet.
func (e *Entry) Waiting() bool { return e.State == Pending || e.State == Queued }

// Errors that callers branch on.
var (
	ErrNotFound  = errors.New("no such run")                                      // Get, Release, Cancel, Done
	ErrEnded     = errors.New("the run has ended")                                // Release, Cancel, Done
	ErrKeyReused = errors.New("the idempotency key was used for another request") // Submit
	ErrCanceled  = errors.New("the run was canceled")                             // Release; cause of the context of a run
	ErrStopped   = errors.New("the service stops")                                // cause of the context of a run, after the grace
	ErrClosed    = errors.New("the queue is closed")                              // Submit, Work
)

// notEnded has the condition of the index requests_open and its first column: by one of them alone SQLite walks all that have ended.
const notEnded = "state <> 'ended' AND state IN ('pending', 'queued', 'running')"

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// entries reads what the rest of a query over requests finds.
func entries(ctx context.Context, db querier, rest string, args ...any) (all []Entry, err error) {
	rows, err := db.QueryContext(ctx, `SELECT run, token, session, coalesce(idempotency_key, ''), hash, request, state, cancel, worker,
		max_running, memory_bytes, cpus, accepted_at, coalesce(queued_at, 0), coalesce(started_at, 0), coalesce(ended_at, 0) FROM requests `+rest, args...)
	if err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e Entry
		var accepted, queued, started, ended int64
		err := rows.Scan(&e.Run, &e.Token, &e.Session, &e.Key, &e.Hash, &e.Request, &e.State, &e.Canceled, &e.Worker,
			&e.MaxRunning, &e.Need.MemoryBytes, &e.Need.CPUs, &accepted, &queued, &started, &ended)
		if err != nil {
			return nil, fmt.Errorf("read requests: %w", err)
		}
		e.AcceptedAt, e.QueuedAt, e.StartedAt, e.EndedAt = fromMs(accepted), fromMs(queued), fromMs(started), fromMs(ended)
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read requests: %w", err)
	}
	return all, nil
}

// entry reads one row, or returns [ErrNotFound].
func entry(ctx context.Context, db querier, run string) (Entry, error) {
	all, err := entries(ctx, db, "WHERE run = ?", run)
	if err != nil {
		return Entry{}, err
	}
	if len(all) == 0 {
		return Entry{}, fmt.Errorf("run %s: %w", run, ErrNotFound)
	}
	return all[0], nil
}

func fromMs(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
