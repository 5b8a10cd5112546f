package handoff

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/store"
)

var (
	// ErrNotFound is returned where no hand-off has the id.
	ErrNotFound = errors.New("no such hand-off")
	// ErrAcked is returned by [Outbox.Retry]: who should get it has taken it.
	ErrAcked = errors.New("the hand-off is acknowledged already")
	// ErrNoSink is returned by [Outbox.Retry]: there is nowhere to send it.
	ErrNoSink = errors.New("no sink is configured for its receiver")
)

// AmbiguousError is returned by [Get] when several hand-offs have an id that begins as asked.
type AmbiguousError struct{ Prefix string }

func (e *AmbiguousError) Error() string {
	return e.Prefix + " is the beginning of several hand-offs; give more of it"
}

// Filter chooses hand-offs. Its zero value chooses the newest 100.
type Filter struct {
	State    string
	Receiver string
	Outcome  string
	Run      string // its whole id
	Token    string // of runs that this token asked for
	Before   string // older than this hand-off: pass the last one of a page to get the next
	Limit    int    // at most; 0: 100
}

// Entry is a hand-off and whose run it is of.
type Entry struct {
	api.Handoff

	Token string // that asked for the run; "": the command line
}

// columns are those that scan reads, of handoffs as h and requests as q.
const columns = "h.id, h.run, h.receiver, h.outcome, h.state, h.created_at, coalesce(h.acked_at, 0), h.acked_by, coalesce(q.token, '')"

const from = " FROM handoffs h LEFT JOIN requests q ON q.run = h.run "

// List returns hand-offs without their content, the newest first.
func List(ctx context.Context, db *store.DB, f Filter) ([]Entry, error) {
	where, args := []string{"TRUE"}, []any{}
	for _, c := range []struct{ cond, value string }{
		{"h.state = ?", f.State},
		{"h.receiver = ?", f.Receiver},
		{"h.outcome = ?", f.Outcome},
		{"h.run = ?", f.Run},
		{"q.token = ?", f.Token},
		{"h.id < ?", f.Before},
	} {
		if c.value != "" {
			where, args = append(where, c.cond), append(args, c.value)
		}
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	var list []Entry
	err := db.View(ctx, func(tx *sql.Tx) (err error) {
		list, err = query(ctx, tx, "WHERE "+strings.Join(where, " AND ")+" ORDER BY h.id DESC LIMIT ?", append(args, f.Limit)...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list hand-offs: %w", err)
	}
	return list, nil
}

// Get returns the hand-off with the id, or the only one whose id begins with it (at least four characters, any case), with its
// content. Errors: [ErrNotFound], [*AmbiguousError].
func Get(ctx context.Context, db *store.DB, id string) (e Entry, err error) {
	const least = 4 // as for runs
	prefix := strings.ToUpper(id)
	if len(prefix) < least || strings.Trim(prefix, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
		return e, fmt.Errorf("hand-off %q: %w", id, ErrNotFound)
	}
	err = db.View(ctx, func(tx *sql.Tx) error {
		list, err := query(ctx, tx, "WHERE h.id >= ? AND h.id < ? ORDER BY h.id LIMIT 2", prefix, prefix+"~")
		switch {
		case err != nil:
			return err
		case len(list) == 0:
			return fmt.Errorf("hand-off %q: %w", id, ErrNotFound)
		case len(list) > 1:
			return &AmbiguousError{id}
		}
		e = list[0]
		var text string
		if err := tx.QueryRowContext(ctx, "SELECT content FROM handoffs WHERE id = ?", e.ID).Scan(&text); err != nil {
			return err
		}
		content, err := decode([]byte(text))
		e.Content = &content
		return err
	})
	if err != nil {
		return Entry{}, fmt.Errorf("look for a hand-off: %w", err)
	}
	return e, nil
}

// query reads hand-offs and their deliveries.
func query(ctx context.Context, tx *sql.Tx, where string, args ...any) (list []Entry, err error) {
	list = []Entry{}
	rows, err := tx.QueryContext(ctx, "SELECT "+columns+from+where, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var e Entry
		if err := rows.Scan(&e.ID, &e.Run, &e.Receiver, &e.Outcome, &e.State, &e.CreatedAtMs, &e.AckedAtMs, &e.AckedBy, &e.Token); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for i := range list { // after the rows were read to their end
		if list[i].Deliveries, err = deliveries(ctx, tx, list[i].ID); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func deliveries(ctx context.Context, tx *sql.Tx, id string) (list []api.HandoffDelivery, err error) {
	list = []api.HandoffDelivery{}
	rows, err := tx.QueryContext(ctx, "SELECT sink, state, attempts, due_at, coalesce(done_at, 0), error FROM handoff_deliveries WHERE handoff = ? ORDER BY sink", id)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var d api.HandoffDelivery
		if err := rows.Scan(&d.Sink, &d.State, &d.Attempts, &d.DueAtMs, &d.DoneAtMs, &d.Error); err != nil {
			return nil, err
		}
		if d.State != "pending" {
			d.DueAtMs = 0
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

// Retry makes what is dead, or waits for its next attempt, due at once, with all attempts before it; and where everything was
// delivered, all of it again. Sinks that were configured since get it too. id is a whole one. Errors: [ErrNotFound], [ErrAcked], [ErrNoSink].
func (o *Outbox) Retry(ctx context.Context, db *store.DB, id string) error {
	now := o.cfg.Now()
	err := db.Update(ctx, func(tx *sql.Tx) error {
		state, receiver, err := stateOf(ctx, tx, id)
		if err != nil {
			return err
		}
		if state == "acked" {
			return ErrAcked
		}
		which := "AND state <> 'delivered'"
		if state == "delivered" {
			which = ""
		}
		if _, err := tx.ExecContext(ctx, "UPDATE handoff_deliveries SET state = 'pending', attempts = 0, due_at = ?, error = '', done_at = NULL WHERE handoff = ? "+which, now.UnixMilli(), id); err != nil {
			return err
		}
		for _, sink := range o.sinksFor(receiver) {
			if err := addDelivery(ctx, tx, id, sink, now); err != nil {
				return err
			}
		}
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM handoff_deliveries WHERE handoff = ? AND state = 'pending'", id).Scan(&n); err != nil {
			return err
		}
		if n == 0 {
			return ErrNoSink
		}
		return refresh(ctx, tx, id)
	})
	if err != nil {
		return fmt.Errorf("retry hand-off %s: %w", id, err)
	}
	return nil
}

// Ack says that the receiver has taken a hand-off, wherever it got it from: nothing more of it is delivered. by is the id of a
// token, or auth.LocalToken. A second time changes nothing. id is a whole one. Error: [ErrNotFound].
func Ack(ctx context.Context, db *store.DB, id, by string, now time.Time) error {
	err := db.Update(ctx, func(tx *sql.Tx) error {
		state, _, err := stateOf(ctx, tx, id)
		if err != nil || state == "acked" {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE handoffs SET acked_at = ?, acked_by = ? WHERE id = ?", now.UnixMilli(), by, id); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE handoff_deliveries SET state = 'dropped', done_at = ? WHERE handoff = ? AND state = 'pending'", now.UnixMilli(), id); err != nil {
			return err
		}
		return refresh(ctx, tx, id)
	})
	if err != nil {
		return fmt.Errorf("acknowledge hand-off %s: %w", id, err)
	}
	return nil
}

func stateOf(ctx context.Context, tx *sql.Tx, id string) (state, receiver string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT state, receiver FROM handoffs WHERE id = ?", id).Scan(&state, &receiver)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return state, receiver, err
}

// refresh derives the state of a hand-off from its deliveries. One that is dead anywhere says so, until somebody looks after it.
func refresh(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `UPDATE handoffs SET state = CASE
		WHEN acked_at IS NOT NULL THEN 'acked'
		WHEN EXISTS (SELECT 1 FROM handoff_deliveries d WHERE d.handoff = handoffs.id AND d.state = 'dead') THEN 'dead'
		WHEN EXISTS (SELECT 1 FROM handoff_deliveries d WHERE d.handoff = handoffs.id AND d.state = 'pending') THEN 'pending'
		WHEN EXISTS (SELECT 1 FROM handoff_deliveries d WHERE d.handoff = handoffs.id AND d.state = 'delivered') THEN 'delivered'
		ELSE 'open' END WHERE id = ?`, id)
	return err
}
