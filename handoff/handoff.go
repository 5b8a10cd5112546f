// Package handoff passes on runs that did not end as they should: to whoever explains the code, and to whoever reads the log.
//
// When a run ends, [Outbox.Put] writes one hand-off for each receiver that the owner's routes name for such an end, in the
// transaction that writes the end itself. So there is none without the other, whatever is killed. Each has its content, in the form
// silk.handoff/v1 ([api.HandoffContent]), and one delivery for each sink that takes hand-offs for its receiver. [Outbox.Deliver] makes
// the deliveries that are due, [Outbox.Work] does so until it is ended. A delivery that fails is tried again, ever more
// rarely, for three days; then it is dead, and waits for the owner ([Outbox.Retry]). Several processes may deliver from one
// database: each delivery is made by one of them at a time.
//
// A sink gets a hand-off once or, where a process dies between sending and writing that it has sent, again: the same bytes with the
// same id. The vault sink notices that itself; who receives webhooks looks at the id.
//
// Where no sink is configured a hand-off is open: it waits to be listed, read ([Get]) and acknowledged ([Ack]) through the
// command line or the API. Those that are delivered, open or acknowledged are removed after a month, or after a week where
// there is no sink; those that are not stay.
//
// Code and log are what hostile programs and their authors wrote. They are never logged, and the vault sink shows them as text.
// The package raises no alarm: package alert does.
package handoff

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/internal/webhook"
	"github.com/silk-sandbox/silk/run"
)

// Receivers of hand-offs.
const (
	CodeExplainer = "code_explainer" // gets code, log and outcome
	WidowWeaver   = "widow_weaver"   // gets the log and the outcome
)

// Receivers are all of them.
var Receivers = []string{CodeExplainer, WidowWeaver}

// Routes say which receivers get a hand-off of a run, by its outcome. An outcome that is not there has none.
type Routes map[run.Kind][]string

// DefaultRoutes hand every end but ok and canceled to all receivers.
func DefaultRoutes() Routes {
	r := Routes{}
	for _, kind := range []run.Kind{run.Failed, run.Timeout, run.OOM, run.Violated, run.Denied, run.Error} {
		r[kind] = slices.Clone(Receivers)
	}
	return r
}

// Sink is a place that hand-offs go to: a vault or a webhook.
type Sink struct {
	// Name stands for it in the database, in lists and in logs: 1 to 40 of a-z, 0-9, - and _.
	Name string

	// Receivers are those whose hand-offs go there. None: all.
	Receivers []string

	// Vault is the directory of an Obsidian vault, absolute. It must be there: a new one could be what an absent disk is mounted
	// on. Each hand-off becomes a note in the folder of its receiver, which is made. Nothing is written outside of the directory,
	// and no note is ever changed.
	Vault string

	// URL, SecretFile and Timeout are those of a webhook: an HTTP POST of the content, signed as
	// https://www.standardwebhooks.com says, with the id of the hand-off.
	URL        string
	SecretFile string
	Timeout    time.Duration // 0: 5 s; at most a minute
}

func (s Sink) hook() webhook.Config {
	return webhook.Config{URL: s.URL, SecretFile: s.SecretFile, Timeout: s.Timeout}
}

var sinkName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,39}$`)

// Check says what is wrong with s as it stands, without opening anything.
func (s Sink) Check() error {
	var faults []error
	switch {
	case s.Name == "":
		faults = append(faults, errors.New("a sink has no name; give it one of 1 to 40 of a-z, 0-9, - and _"))
	case !sinkName.MatchString(s.Name):
		faults = append(faults, fmt.Errorf("the name %.100q of a sink is not 1 to 40 of a-z, 0-9, - and _", s.Name))
	}
	if s.Receivers != nil && len(s.Receivers) == 0 {
		faults = append(faults, fmt.Errorf("receivers of sink %q is empty; leave it out for all of them", s.Name))
	}
	for i, r := range s.Receivers {
		if !slices.Contains(Receivers, r) {
			faults = append(faults, fmt.Errorf("receivers of sink %q: %w", s.Name, unknownReceiver(r)))
		}
		if slices.Contains(s.Receivers[:i], r) {
			faults = append(faults, fmt.Errorf("receivers of sink %q has %s twice", s.Name, r))
		}
	}
	switch {
	case s.Vault == "" && s.URL == "":
		faults = append(faults, fmt.Errorf("sink %q says nowhere to go; give it vault or webhook", s.Name))
	case s.Vault != "" && s.URL != "":
		faults = append(faults, fmt.Errorf("sink %q has vault and webhook; make two sinks of them", s.Name))
	case s.Vault != "" && (!filepath.IsAbs(s.Vault) || filepath.Clean(s.Vault) != s.Vault):
		faults = append(faults, fmt.Errorf("the vault %q of sink %q is not a plain absolute path", s.Vault, s.Name))
	case s.URL != "":
		faults = append(faults, s.hook().Check())
	}
	return errors.Join(faults...)
}

func unknownReceiver(name string) error {
	return fmt.Errorf("there is no receiver %.100q; there are %s", name, strings.Join(Receivers, " and "))
}

// Config is what an [Outbox] is made of. Its zero value routes as [DefaultRoutes] and delivers nothing.
type Config struct {
	Routes Routes // nil: DefaultRoutes
	Sinks  []Sink

	// Keep is how long a hand-off stays that needs nobody any more. 0: 30 days, or 7 where there are no sinks: then nobody may know that
	// there are any, and they have code and output.
	Keep time.Duration

	// Logger hears of deliveries that fail. nil discards.
	Logger *slog.Logger

	// Now is the clock. nil: time.Now.
	Now func() time.Time
}

// defaultKeep is a month, keepUnasked a week.
const defaultKeep, keepUnasked = 30 * 24 * time.Hour, 7 * 24 * time.Hour

// Outbox writes hand-offs and delivers them. Safe for concurrent use.
type Outbox struct {
	cfg   Config
	sinks []sink
}

// New checks cfg. It opens nothing: a sink that is away must not keep runs from starting.
func New(cfg Config) (*Outbox, error) {
	if cfg.Routes == nil {
		cfg.Routes = DefaultRoutes()
	}
	if cfg.Keep <= 0 {
		cfg.Keep = defaultKeep
		if len(cfg.Sinks) == 0 {
			cfg.Keep = keepUnasked
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	o := &Outbox{cfg: cfg}
	var faults []error
	for _, kind := range slices.Sorted(maps.Keys(cfg.Routes)) {
		for _, r := range cfg.Routes[kind] {
			if !slices.Contains(Receivers, r) {
				faults = append(faults, unknownReceiver(r))
			}
		}
	}
	names := map[string]bool{}
	for _, s := range cfg.Sinks {
		if names[s.Name] {
			faults = append(faults, fmt.Errorf("two sinks have the name %q; give one of them another", s.Name))
		}
		names[s.Name] = true
		made, err := newSink(s)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		o.sinks = append(o.sinks, made)
	}
	return o, errors.Join(faults...)
}

// Sinks says whether there is any sink, so that there may be something to deliver.
func (o *Outbox) Sinks() bool { return len(o.sinks) > 0 }

// Wants implements run.Handoffs.
func (o *Outbox) Wants(kind run.Kind) bool { return len(o.cfg.Routes[kind]) > 0 }

// Put implements run.Handoffs. A run that has hand-offs gets no second ones.
func (o *Outbox) Put(ctx context.Context, tx *sql.Tx, end run.End) error {
	receivers := o.cfg.Routes[run.Kind(end.Record.Outcome.Kind)]
	now := o.cfg.Now()
	ids := make([]string, len(receivers))
	for i := range ids {
		ids[i] = ulid.MustNew(ulid.Timestamp(now), rand.Reader).String()
	}
	slices.Sort(ids) // in lists the hand-offs of one run stand in one order
	for i, receiver := range receivers {
		if err := o.put(ctx, tx, end, ids[i], receiver, receivers, now); err != nil {
			return fmt.Errorf("hand run %s to %s: %w", end.Record.Run, receiver, err)
		}
	}
	if len(receivers) == 0 {
		return nil
	}
	return o.clean(ctx, tx, now)
}

func (o *Outbox) put(ctx context.Context, tx *sql.Tx, end run.End, id, receiver string, receivers []string, now time.Time) error {
	text, err := encode(contentOf(end, id, receiver, receivers, now))
	if err != nil {
		return err
	}
	to := o.sinksFor(receiver)
	state := "open"
	if len(to) > 0 {
		state = "pending"
	}
	done, err := tx.ExecContext(ctx, `INSERT INTO handoffs (id, run, receiver, outcome, content, state, created_at, acked_by) VALUES (?, ?, ?, ?, ?, ?, ?, '')
		ON CONFLICT (run, receiver) DO NOTHING`, id, end.Record.Run, receiver, end.Record.Outcome.Kind, string(text), state, now.UnixMilli())
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return err
	}
	for _, sink := range to {
		if err := addDelivery(ctx, tx, id, sink, now); err != nil {
			return err
		}
	}
	return nil
}

// sinksFor are the names of the sinks that take hand-offs for a receiver.
func (o *Outbox) sinksFor(receiver string) (names []string) {
	for _, s := range o.sinks {
		if s.takes(receiver) {
			names = append(names, s.Name)
		}
	}
	return names
}

func addDelivery(ctx context.Context, tx *sql.Tx, id, sink string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO handoff_deliveries (handoff, sink, state, attempts, due_at, error) VALUES (?, ?, 'pending', 0, ?, '')
		ON CONFLICT (handoff, sink) DO NOTHING`, id, sink, now.UnixMilli())
	return err
}

// cleanAtOnce bounds what the end of one run removes of others.
const cleanAtOnce = 20

// clean removes hand-offs that are old and need nobody any more, but for those of runs under hold. Each run that is passed on does so, and makes fewer than it removes.
func (o *Outbox) clean(ctx context.Context, tx *sql.Tx, now time.Time) error {
	before := ulid.ULID{}
	if err := before.SetTime(ulid.Timestamp(now.Add(-o.cfg.Keep))); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM handoffs WHERE id IN
		(SELECT id FROM handoffs WHERE id < ? AND state IN ('open', 'delivered', 'acked') AND run NOT IN (SELECT run FROM holds) ORDER BY id LIMIT ?)`, before.String(), cleanAtOnce)
	if err != nil {
		return fmt.Errorf("remove old hand-offs: %w", err)
	}
	return nil
}
