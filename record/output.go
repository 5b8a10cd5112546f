package record

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/silk-sandbox/silk/store"
)

// ErrRemoved is returned by [Output] for output that retention has removed.
var ErrRemoved = errors.New("it was removed, as the owner's retention wants")

// InlineBytes is the largest output that lives in the database; what is larger is a file. A row of this size costs
// 0.2 ms, a directory and a file cost more; a row ten times as large is written twice, to the log and to the file.
const InlineBytes = 64 << 10

// RunsDir is the directory of the files of runs inside a state directory.
const RunsDir = "runs"

// OutputFile is where the kept output of a run lies that is larger than [InlineBytes].
func OutputFile(home, run, channel string) string {
	return filepath.Join(home, RunsDir, run, channel)
}

// CreateOutputFile makes that file, readable by its owner alone. It is not synced: losing output in a power loss is
// acceptable, waiting for the disk in every run is not.
func CreateOutputFile(home, run, channel string) (*os.File, error) {
	path := OutputFile(home, run, channel)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// PutOutput stores the kept output of one channel of a run in the database. The run must have been begun or finished.
func PutOutput(ctx context.Context, tx *sql.Tx, run, channel string, data []byte) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO outputs (run, channel, data) VALUES (?, ?, ?)", run, channel, data); err != nil {
		return fmt.Errorf("write %s of run %s: %w", channel, run, err)
	}
	return nil
}

// Output opens the kept output of one channel ("stdout" or "stderr") of a run with a full id: the first bytes, up to the
// run's output limit. The caller closes it. home is the state directory that db lies in.
func Output(ctx context.Context, db *store.DB, home, run, channel string) (io.ReadCloser, error) {
	if channel != "stdout" && channel != "stderr" {
		return nil, fmt.Errorf("read output of run %s: no channel %q", run, channel)
	}
	var data []byte
	err := db.QueryRowContext(ctx, "SELECT data FROM outputs WHERE run = ? AND channel = ?", run, channel).Scan(&data)
	if err == nil {
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read %s of run %s: %w", channel, run, err)
	}
	var gone sql.NullInt64
	err = db.QueryRowContext(ctx, "SELECT output_gone FROM runs WHERE id = ?", run).Scan(&gone)
	switch {
	case errors.Is(err, sql.ErrNoRows): // also keeps anything but an id out of the path below
		return nil, fmt.Errorf("run %q: %w", run, ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("read %s of run %s: %w", channel, run, err)
	case gone.Valid:
		return nil, fmt.Errorf("read %s of run %s: %w", channel, run, ErrRemoved)
	}
	f, err := os.Open(OutputFile(home, run, channel))
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(bytes.NewReader(nil)), nil // it printed nothing
	}
	if err != nil {
		return nil, fmt.Errorf("read %s of run %s: %w", channel, run, err)
	}
	return f, nil
}
