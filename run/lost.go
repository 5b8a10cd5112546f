package run

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

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/record"
)

// HostRestarted begins the message of a run whose engine ended before it.
const HostRestarted = "host restarted"

// ErrHostStops is the cause with which a server ends the context of runs that it cannot let go on: not the client's doing.
var ErrHostStops = errors.New("the server stops")

// ErrUnrecorded is returned by [Engine.Run] for a run whose end could not be written: [Engine.EndLost] does when it can be.
var ErrUnrecorded = errors.New("the end of the run is not recorded")

// EndLost completes the record of a run of this engine whose end could not be written when it came, or of another server that is
// dead. How it ended is lost: it
// becomes an [Error] with what was salvaged of its output. A run that has an end, or none that began, is left as it is. The caller knows
// that it does not run any more.
func (e *Engine) EndLost(ctx context.Context, id string) error {
	db, err := e.state(ctx)
	if err != nil {
		return err
	}
	return db.Update(ctx, func(tx *sql.Tx) error {
		entry, err := record.Get(ctx, tx, id)
		if err != nil || entry.Record.Outcome.Kind != "" { // another server may have been faster
			return err
		}
		var owner string
		if err := tx.QueryRowContext(ctx, "SELECT owner FROM runs WHERE id = ?", id).Scan(&owner); err != nil {
			return fmt.Errorf("read whose run %s was: %w", id, err)
		}
		message := "the end of the run could not be written when it came"
		if server, _ := names(owner); server != e.cfg.Server {
			message = lostEnd
		}
		return finishLost(ctx, tx, e.cfg.Home, e.cfg.Salvage, entry, message)
	})
}

// lostEnd is what there is to say of a run whose engine is gone: it was killed, or ran into a full disk at the end.
const lostEnd = HostRestarted + ": silk ended, or could not write, before the end of the run was recorded"

// finishLost completes the record of a run whose engine is gone.
func finishLost(ctx context.Context, tx *sql.Tx, home string, salvage Salvage, entry record.Entry, message string) error {
	now := time.Now()
	out := Outcome{Kind: Error, Reason: ReasonHost, Message: message}
	r := &entry.Record
	r.EndedAtMs = now.UnixMilli()
	r.Outcome.Kind, r.Outcome.Reason, r.Outcome.Message = string(out.Kind), string(out.Reason), out.Message
	put, err := salvaged(home, salvage, r)
	if err != nil {
		return err
	}
	if err := record.Finish(ctx, tx, entry); err != nil {
		return err
	}
	if err := put(ctx, tx); err != nil {
		return err
	}
	recovered, err := audit.New(r.Run, audit.HostRecovered, now, map[string]any{"intentId": r.Run, "details": out.Message})
	if err != nil {
		return err
	}
	failed, err := audit.New(r.Run, audit.SandboxError, now, map[string]any{
		"intentId": r.Run, "profile": r.Profile, "outcome": string(out.Kind), "error": string(out.Kind), "reason": string(out.Reason), "exitCode": out.ExitStatus(),
	})
	if err != nil {
		return err
	}
	return audit.Append(ctx, tx, &recovered, &failed)
}

// salvaged puts what was salvaged of the output into r, long output into files. put writes the rest once r is finished. Nothing
// of the engine's own files stays. That something could not be read costs the output, not the record.
func salvaged(home string, salvage Salvage, r *record.Record) (put func(context.Context, *sql.Tx) error, err error) {
	none := func(context.Context, *sql.Tx) error { return nil }
	if err := os.RemoveAll(filepath.Join(home, record.RunsDir, r.Run)); err != nil || salvage == nil {
		return none, err
	}
	inline := map[string][]byte{}
	for name, channel := range map[string]*record.Channel{"stdout": &r.Stdout, "stderr": &r.Stderr} {
		data, err := salvage(r.Run, name)
		if err != nil {
			r.Outcome.Message += fmt.Sprintf("; its %s could not be salvaged: %v", name, err)
			continue
		}
		if data == nil { // nobody kept anything
			continue
		}
		sum, all := sha256.Sum256(data), int64(len(data))
		n := min(all, r.Policy.OutputBytes)
		data = data[:n]
		*channel = record.Channel{Bytes: all, Kept: n, Truncated: n < all, SHA256: hex.EncodeToString(sum[:])}
		switch {
		case n > record.InlineBytes:
			if err := keepFile(home, r.Run, name, data); err != nil {
				return none, err
			}
		case n > 0:
			inline[name] = data
		}
	}
	return func(ctx context.Context, tx *sql.Tx) error {
		for name, data := range inline {
			if err := record.PutOutput(ctx, tx, r.Run, name, data); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func keepFile(home, run, channel string, data []byte) error {
	f, err := record.CreateOutputFile(home, run, channel)
	if err != nil {
		return fmt.Errorf("keep salvaged %s of run %s: %w", channel, run, err)
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
