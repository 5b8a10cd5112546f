package queue

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/store"
)

// How servers that share a table know of each other.
const (
	// BeatEvery is how often a server says that it lives, and looks whether the others do.
	BeatEvery = 5 * time.Second
	// DeadAfter is how long nothing must be heard of one.
	DeadAfter = 30 * time.Second
)

// ErrReplaced is returned by [Members.Run]: another process has the same id, from a copy of the state directory, say.
var ErrReplaced = errors.New("another server has taken the id of this one")

// MembersConfig says who joins. DB and ID are required.
type MembersConfig struct {
	DB     *store.DB
	ID     string // Config.Worker; no other server may have it
	Name   string // of its host, for people
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Members are the servers that share a table. Each counts up a number in its row; who looks long enough and sees it stand
// still takes that server for dead. No clock is compared with another host's, and time in which the table could not be read
// does not count: when a database comes back, nobody is dead yet. Safe for concurrent use.
//
// That a server is dead means that others may write the ends of its runs, and take over what waits for it. It is not certain:
// a server that was only cut off goes on running its programs. It can do no harm by that: what runs is never run again,
// and an end that is written stays.
type Members struct {
	cfg     MembersConfig
	process string

	mu       sync.Mutex
	looked   time.Time     // zero: the last look failed
	observed time.Duration // without a failed look
	others   map[string]*member
}

type member struct {
	beat  int64
	quiet time.Duration // observed since the beat has changed
}

// Join writes the row of this server. What has the same id was it before, and is taken for dead.
func Join(ctx context.Context, cfg MembersConfig) (*Members, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.DB == nil || cfg.ID == "" {
		return nil, errors.New("join the servers of a database: DB and ID are required")
	}
	m := &Members{cfg: cfg, process: ulid.MustNew(ulid.Now(), rand.Reader).String(), others: map[string]*member{}}
	err := cfg.DB.Update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO servers (id, name, process, beat, seen_at) VALUES (?, ?, ?, 0, ?)
			ON CONFLICT (id) DO UPDATE SET name = excluded.name, process = excluded.process, beat = servers.beat + 1, seen_at = excluded.seen_at`,
			cfg.ID, cfg.Name, m.process, cfg.Now().UnixMilli())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("join the servers of a database: %w", err)
	}
	return m, nil
}

// Run beats and looks until ctx is done. It returns [ErrReplaced] if this server has to end.
func (m *Members) Run(ctx context.Context) error {
	tick := time.NewTicker(BeatEvery)
	defer tick.Stop()
	for {
		err := m.beat(ctx)
		if err == nil {
			err = m.look(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrReplaced):
			return err
		case err != nil:
			m.failed()
			m.cfg.Logger.Warn("the other servers of the database cannot be seen now", logkey.Error, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *Members) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	replaced := false
	err := m.cfg.DB.Update(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "UPDATE servers SET beat = beat + 1, seen_at = ? WHERE id = ? AND process = ?", m.cfg.Now().UnixMilli(), m.cfg.ID, m.process)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		replaced = n == 0
		return err
	})
	if err == nil && replaced {
		err = ErrReplaced
	}
	return err
}

// look notes what has changed since the last look.
func (m *Members) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	beats, err := m.beats(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var passed time.Duration
	now := m.cfg.Now()
	if !m.looked.IsZero() { // at most two intervals: this host may have been asleep
		passed = min(max(0, now.Sub(m.looked)), 2*BeatEvery)
	}
	m.looked = now
	m.observed += passed
	for id, beat := range beats {
		if o := m.others[id]; o == nil || o.beat != beat {
			m.others[id] = &member{beat: beat}
		} else {
			o.quiet += passed
		}
	}
	for id := range m.others {
		if _, ok := beats[id]; !ok {
			delete(m.others, id)
		}
	}
	return nil
}

func (m *Members) beats(ctx context.Context) (map[string]int64, error) {
	rows, err := m.cfg.DB.QueryContext(ctx, "SELECT id, beat FROM servers")
	if err != nil {
		return nil, fmt.Errorf("read servers: %w", err)
	}
	defer rows.Close()
	beats := map[string]int64{}
	for rows.Next() {
		var id string
		var beat int64
		if err := rows.Scan(&id, &beat); err != nil {
			return nil, fmt.Errorf("read servers: %w", err)
		}
		beats[id] = beat
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read servers: %w", err)
	}
	return beats, nil
}

// failed forgets what was observed: the others may have been as blind as we were.
func (m *Members) failed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looked, m.observed = time.Time{}, 0
	for _, o := range m.others {
		o.quiet = 0
	}
}

// Alive says whether a server may still live: Config.Alive. One that was never heard of is dead once the table was watched for
// [DeadAfter].
func (m *Members) Alive(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id == m.cfg.ID {
		return true
	}
	if o := m.others[id]; o != nil {
		return o.quiet < DeadAfter
	}
	return m.observed < DeadAfter
}
