package run

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/replay"
)

// kept takes a copy of a stream that goes into a sandbox, all of it or nothing: half of an input replays nothing. Its memory is bounded.
// Safe for concurrent use, also by a writer that is left behind.
type kept struct {
	limit  int64
	create func() (*os.File, error) // makes the file for what is longer than memoryBytes

	mu     sync.Mutex
	total  int64
	head   []byte
	file   *os.File
	err    error // why it is not kept
	closed bool  // nothing more is taken
}

// Write implements [io.Writer]. It never fails: what is in the way costs the copy, not the run.
func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return len(p), nil
	}
	k.total += int64(len(p))
	switch {
	case k.err != nil || k.total > k.limit:
		k.drop()
	case k.file == nil && k.total <= memoryBytes:
		k.head = append(k.head, p...)
	default:
		if k.err = k.spill(); k.err == nil {
			_, k.err = k.file.Write(p)
		}
		if k.err != nil {
			k.drop()
		}
	}
	return len(p), nil
}

// spill moves what there is into the file.
func (k *kept) spill() error {
	if k.file != nil {
		return nil
	}
	f, err := k.create()
	if err != nil {
		return err
	}
	k.file = f
	_, err = f.Write(k.head)
	k.head = nil
	return err
}

// drop gives the copy up.
func (k *kept) drop() {
	k.head = nil
	if k.file != nil {
		k.err = errors.Join(k.err, k.file.Close(), os.Remove(k.file.Name()))
		k.file = nil
	}
}

// end is what was kept: bytes for the database, or a file, which is closed and stays.
func (k *kept) end() (part replay.Part, inline []byte, err error) {
	if k == nil {
		return replay.Part{}, nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed = true; k.total > k.limit || k.err != nil {
		return replay.Part{Bytes: k.total}, nil, k.err
	}
	part = replay.Part{Present: true, Bytes: k.total}
	sum := sha256.New()
	if k.file == nil && k.total > record.InlineBytes {
		if err := k.spill(); err != nil {
			k.drop()
			return replay.Part{Bytes: k.total}, nil, err
		}
	}
	if k.file == nil {
		sum.Write(k.head)
		part.SHA256 = hex.EncodeToString(sum.Sum(nil))
		return part, append([]byte{}, k.head...), nil
	}
	if _, err := k.file.Seek(0, 0); err == nil {
		_, err = k.file.WriteTo(sum)
		k.err = err
	}
	if k.err = errors.Join(k.err, k.file.Close()); k.err != nil {
		k.err = errors.Join(k.err, os.Remove(k.file.Name()))
		k.file = nil
		return replay.Part{Bytes: k.total}, nil, k.err
	}
	k.file = nil
	part.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return part, nil, nil
}

// keeping is what is kept of a run's input, for a replay.
type keeping struct {
	workspace, stdin *kept

	replay *record.Replay    // nil: nothing is kept
	inline map[string][]byte // for the database
}

func (l *life) keepWorkspace() *kept {
	l.keeping.workspace = &kept{limit: l.engine.cfg.KeepBytes, create: l.outputFile(record.InputWorkspace)}
	return l.keeping.workspace
}

func (l *life) keepStdin() *kept {
	l.keeping.stdin = &kept{limit: l.engine.cfg.KeepBytes, create: l.outputFile(record.InputStdin)}
	return l.keeping.stdin
}

// keepInput decides what is kept of a run whose sandbox was filled. What could not be written stands in the way of a replay, and of
// nothing else.
func (l *life) keepInput() error {
	select {
	case <-l.filled:
	default: // nothing ran, or a start that failed is still at it
		return nil
	}
	run := replay.Run{ID: l.id, Driver: l.driver.Name(), Image: l.image.Digest, StdinLost: l.keeping.stdin != nil && l.in.StdinSHA256 == ""}
	l.keeping.inline = map[string][]byte{}
	for _, c := range []struct {
		name string
		from *kept
		to   *replay.Part
	}{{record.InputWorkspace, l.keeping.workspace, &run.Workspace}, {record.InputStdin, l.keeping.stdin, &run.Stdin}} {
		part, inline, err := c.from.end()
		if err != nil {
			run.Missing = fmt.Sprintf("its %s could not be kept: %v", c.name, err)
		}
		if *c.to = part; inline != nil {
			l.keeping.inline[c.name] = inline
		}
	}
	request, text, err := replay.Keep(l.req, l.plan, run)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	l.keeping.replay = &record.Replay{RequestSHA256: hex.EncodeToString(sum[:]), Obstacles: request.Obstacles}
	l.keeping.inline[record.InputRequest] = text
	return nil
}

// putInput writes what is kept of the input, but for what is in files.
func (l *life) putInput(ctx context.Context, tx *sql.Tx) error {
	for _, name := range []string{record.InputRequest, record.InputWorkspace, record.InputStdin} {
		if data, ok := l.keeping.inline[name]; ok {
			if err := record.PutOutput(ctx, tx, l.id, name, data); err != nil {
				return err
			}
		}
	}
	return nil
}
