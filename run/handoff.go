package run

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
)

// Handoffs passes runs on that did not end as they should: package handoff.
type Handoffs interface {
	// Wants says whether runs that end so are passed on.
	Wants(Kind) bool

	// Put is called in the transaction that writes the end, so that there is no end without what is passed on. Its error takes
	// the end with it: it has none but the database's.
	Put(ctx context.Context, tx *sql.Tx, end End) error
}

// End is how a run ended that is passed on. Everything but Record is bounded: see [Source] and [Log].
type End struct {
	Record record.Record
	Source Source
	Stdout Log
	Stderr Log
}

// Bounds of what is passed on.
const (
	maxSourceBytes = 256 << 10 // of code
	maxLogBytes    = 32 << 10  // of the begin of a channel, and of its end
	maxNoteBytes   = 4 << 10   // of the path of a note, and of the name of a block
)

// Source is what was run, for those who look into why it ended as it did.
type Source struct {
	Name     string `json:"name,omitempty"`     // of the code below /workspace; "": there is no code, but a command
	Language string `json:"language,omitempty"` // of the code; "" if it is not known
	Code     []byte `json:"code,omitempty"`     // its first 256 KiB
	Bytes    int64  `json:"bytes,omitempty"`    // of the whole
	SHA256   string `json:"sha256,omitempty"`   // of the whole
	Omitted  string `json:"omitted,omitempty"`  // why Code is not the whole
	Note     Note   `json:"note,omitzero"`
}

// Note is where in a vault a run comes from, as its client says: nothing relies on it.
type Note struct {
	Path  string `json:"path,omitempty"`  // of the note in its vault
	Block string `json:"block,omitempty"` // names the code block in it
}

// Log is what a program printed on one channel: all of it, or its begin and its end.
type Log struct {
	Bytes  int64 // of everything
	SHA256 string
	Head   []byte // the first 64 KiB if that is everything, else the first 32
	Tail   []byte // the last ones of what is not in Head, 32 KiB at most; of a channel that was cut 4 KiB
}

// Omitted is how many bytes lie between Head and Tail.
func (l Log) Omitted() int64 { return l.Bytes - int64(len(l.Head)) - int64(len(l.Tail)) }

// sourceFor is what req, or the plan that was made of it, runs.
func sourceFor(req policy.Request, language string, note Note) Source {
	s := Source{Language: language, Note: Note{Path: clip(note.Path), Block: clip(note.Block)}}
	if req.Code == nil {
		return s
	}
	s.Name, s.SHA256 = req.Code.Name, req.Code.SHA256
	code := req.Code.Bytes
	if code == nil {
		var err error
		if code, err = readCode(req.Dir, s.Name, s.SHA256); err != nil {
			s.Omitted = "it cannot be read again: " + err.Error()
			return s
		}
	}
	s.Bytes = int64(len(code))
	if s.SHA256 == "" {
		sum := sha256.Sum256(code)
		s.SHA256 = hex.EncodeToString(sum[:])
	}
	if len(code) > maxSourceBytes {
		code, s.Omitted = code[:maxSourceBytes], fmt.Sprintf("only the first %d bytes are here", maxSourceBytes)
	}
	s.Code = code
	return s
}

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxNoteBytes)], "") }

// readCode reads code that is part of a directory of the request, if it is what was run.
func readCode(dir, name, sum string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() // it was only read
	info, err := root.Stat(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSourceFile {
		return nil, fmt.Errorf("%s is no file, or larger than %d bytes", name, maxSourceFile)
	}
	code, err := root.ReadFile(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(code); sum != "" && hex.EncodeToString(got[:]) != sum {
		return nil, fmt.Errorf("%s has changed since", name)
	}
	return code, nil
}

// maxSourceFile bounds the code that is read again for its first bytes.
const maxSourceFile = 16 << 20

// sourceText is what the record of the begin keeps for [Handoffs], should this engine die.
func (l *life) sourceText() (string, error) {
	if h := l.engine.cfg.Handoffs; h == nil || !h.Wants(Error) {
		return "", nil
	}
	text, err := json.Marshal(sourceFor(l.req, l.language(), l.io.Note))
	if err != nil {
		return "", fmt.Errorf("encode what is run: %w", err)
	}
	return string(text), nil
}

// language is that of the code, as decided or as asked for.
func (l *life) language() string {
	if l.plan.Language != "" {
		return l.plan.Language
	}
	return l.req.Language
}

// handOff returns what writes that the run is passed on, for the transaction of its end.
func (l *life) handOff(rec record.Record) func(context.Context, *sql.Tx) error {
	h := l.engine.cfg.Handoffs
	if h == nil || !h.Wants(l.out.Kind) {
		return func(context.Context, *sql.Tx) error { return nil }
	}
	end := End{Record: rec, Source: sourceFor(l.req, l.language(), l.io.Note)}
	for _, c := range l.channels() {
		log, err := c.keep.log()
		if err != nil { // the record matters more
			log = Log{Bytes: c.keep.total}
		}
		log.SHA256 = c.out.SHA256
		if c.name == "stdout" {
			end.Stdout = log
		} else {
			end.Stderr = log
		}
	}
	return func(ctx context.Context, tx *sql.Tx) error { return h.Put(ctx, tx, end) }
}

// log is the stream in short.
func (k *keeper) log() (Log, error) {
	at := func(from, n int64) ([]byte, error) {
		if k.file == nil {
			return k.head[from : from+n], nil
		}
		p := make([]byte, n)
		if _, err := io.ReadFull(io.NewSectionReader(k.file, from, n), p); err != nil {
			return nil, fmt.Errorf("read kept output: %w", err)
		}
		return p, nil
	}
	l, err := excerpt(k.kept, at)
	if err != nil || k.kept == k.total {
		l.Bytes = k.total
		return l, err
	}
	l.Bytes = k.total
	l.Tail = k.lastBytes()
	if most := k.total - int64(len(l.Head)); int64(len(l.Tail)) > most {
		l.Tail = l.Tail[int64(len(l.Tail))-most:]
	}
	return l, nil
}

// excerpt is the Log of n bytes, of which read returns a part.
func excerpt(n int64, read func(from, n int64) ([]byte, error)) (l Log, err error) {
	l.Bytes = n
	head := n
	if n > 2*maxLogBytes {
		head = maxLogBytes
	}
	if l.Head, err = read(0, head); err != nil || head == n {
		return l, err
	}
	l.Tail, err = read(n-maxLogBytes, maxLogBytes)
	return l, err
}

// excerptOf is the Log of data, of a channel of which the record says c.
func excerptOf(data []byte, c record.Channel) Log {
	l, err := excerpt(int64(len(data)), func(from, n int64) ([]byte, error) { return data[from : from+n], nil })
	if err != nil { // of a slice: never
		return Log{Bytes: c.Bytes, SHA256: c.SHA256}
	}
	l.SHA256 = c.SHA256
	return l
}
