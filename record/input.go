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

	"github.com/silk-sandbox/silk/store"
)

// What is kept of the input of a run, beside its output and like it: in the database, or in a file if it is longer than [InlineBytes].
const (
	InputRequest   = "request"   // silk.run-request/v1, canonical JSON: see package replay
	InputWorkspace = "workspace" // a tar stream
	InputStdin     = "input"
)

// Replay says in a record what is kept of the request of a run.
type Replay struct {
	RequestSHA256 string   `json:"request_sha256"`      // of the canonical JSON that is kept
	Obstacles     []string `json:"obstacles,omitempty"` // why it cannot be replayed; empty: it can
}

// maxInput bounds what is read of an input that was kept.
const maxInput = 256 << 20

// KeptInput reads what is kept of the input of a run with a full id: one of the Input... constants. nil means that nothing is. home is the
// state directory that db lies in.
func KeptInput(ctx context.Context, db *store.DB, home, run, what string) ([]byte, error) {
	var data []byte
	err := db.QueryRowContext(ctx, "SELECT data FROM outputs WHERE run = ? AND channel = ?", run, what).Scan(&data)
	if err == nil {
		return append([]byte{}, data...), nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read %s of run %s: %w", what, run, err)
	}
	f, err := os.Open(OutputFile(home, run, what))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s of run %s: %w", what, run, err)
	}
	defer f.Close() // it was only read
	var all bytes.Buffer
	if n, err := io.Copy(&all, io.LimitReader(f, maxInput+1)); err != nil || n > maxInput {
		return nil, fmt.Errorf("read %s of run %s: %w", what, run, errors.Join(err, errTooLong))
	}
	return all.Bytes(), nil
}

var errTooLong = errors.New("it is too long, or cannot be read")
