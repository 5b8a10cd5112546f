package run

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/policy"
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
	err = db.Update(ctx, func(tx *sql.Tx) error {
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
		return finishLost(ctx, tx, e.rescue(), entry, message)
	})
	if err == nil {
		e.unrecorded.Delete(id)
	}
	return err
}

// rescue is what the end of a lost run needs besides the database.
type rescue struct {
	home     string
	salvage  Salvage
	handoffs Handoffs
	signer   record.Signer
}

func (e *Engine) rescue() rescue {
	return rescue{e.cfg.Home, e.cfg.Salvage, e.cfg.Handoffs, e.cfg.Signer}
}

// lostEnd is what there is to say of a run whose engine is gone: it was killed, or ran into a full disk at the end.
const lostEnd = HostRestarted + ": silk ended, or could not write, before the end of the run was recorded"

// finishLost completes the record of a run whose engine is gone.
func finishLost(ctx context.Context, tx *sql.Tx, with rescue, entry record.Entry, message string) error {
	now := time.Now()
	out := Outcome{Kind: Error, Reason: ReasonHost, Message: message}
	r := &entry.Record
	r.EndedAtMs = now.UnixMilli()
	r.Outcome.Kind, r.Outcome.Reason, r.Outcome.Message = string(out.Kind), string(out.Reason), out.Message
	put, logs, err := salvaged(with, r)
	if err != nil {
		return err
	}
	if err := handOffLost(ctx, tx, with.handoffs, *r, logs); err != nil { // before the end, which drops what was run
		return err
	}
	sealed, err := record.Seal(entry, with.signer)
	if err != nil {
		return err
	}
	if err := record.Finish(ctx, tx, sealed); err != nil {
		return err
	}
	if err := put(ctx, tx); err != nil {
		return err
	}
	recovered, err := audit.New(r.Run, audit.HostRecovered, now, map[string]any{"intentId": r.Run, "details": out.Message})
	if err != nil {
		return err
	}
	what, name := "profile", r.Profile
	if s, ok := strings.CutPrefix(r.Profile, policy.SkillProfilePrefix); ok {
		what, name = "skillName", s
	}
	failed, err := audit.New(r.Run, audit.SandboxError, now, named(sealed, map[string]any{
		"intentId": r.Run, what: name, "outcome": string(out.Kind), "error": string(out.Kind), "reason": string(out.Reason), "exitCode": out.ExitStatus(),
	}))
	if err != nil {
		return err
	}
	return audit.Append(ctx, tx, &recovered, &failed)
}

// salvaged puts what was salvaged of the output into r, long output into files. put writes the rest once r is finished. Nothing
// of the engine's own files stays. That something could not be read costs the output, not the record.
func salvaged(with rescue, r *record.Record) (put func(context.Context, *sql.Tx) error, logs map[string]Log, err error) {
	none := func(context.Context, *sql.Tx) error { return nil }
	if err := os.RemoveAll(filepath.Join(with.home, record.RunsDir, r.Run)); err != nil || with.salvage == nil {
		return none, nil, err
	}
	logs = map[string]Log{}
	inline := map[string][]byte{}
	for name, channel := range map[string]*record.Channel{"stdout": &r.Stdout, "stderr": &r.Stderr} {
		data, err := with.salvage(r.Run, name)
		if err != nil {
			r.Outcome.Message += fmt.Sprintf("; its %s could not be salvaged: %v", name, err)
			continue
		}
		if data == nil { // nobody kept anything
			continue
		}
		sum, all := sha256.Sum256(data), int64(len(data))
		n := min(all, r.Policy.OutputBytes)
		logs[name] = excerptOf(data, record.Channel{SHA256: hex.EncodeToString(sum[:])})
		data = data[:n]
		*channel = record.Channel{Bytes: all, Kept: n, Truncated: n < all, SHA256: hex.EncodeToString(sum[:])}
		switch {
		case n > record.InlineBytes:
			if err := keepFile(with.home, r.Run, name, data); err != nil {
				return none, nil, err
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
	}, logs, nil
}

// handOffLost passes on a run whose engine is gone, with what its begin kept for that.
func handOffLost(ctx context.Context, tx *sql.Tx, h Handoffs, rec record.Record, logs map[string]Log) error {
	if h == nil || !h.Wants(Kind(rec.Outcome.Kind)) {
		return nil
	}
	text, err := record.Source(ctx, tx, rec.Run)
	if err != nil {
		return err
	}
	end := End{Record: rec, Stdout: logs["stdout"], Stderr: logs["stderr"]}
	if json.Unmarshal([]byte(text), &end.Source) != nil { // of an engine that handed nothing over
		end.Source = Source{Omitted: "silk was ended, and did not keep it"}
	}
	return h.Put(ctx, tx, end)
}

func keepFile(home, run, channel string, data []byte) error {
	f, err := record.CreateOutputFile(home, run, channel)
	if err != nil {
		return fmt.Errorf("keep salvaged %s of run %s: %w", channel, run, err)
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
