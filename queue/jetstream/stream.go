// Package jetstream is the [queue.Stream] of a real service: NATS JetStream, run as a library in this process.
//
// [Open] starts a server that listens nowhere, in a directory of its own. All runs are in one stream with a subject for
// each token, which is bounded by MaxMsgsPerSubject; each token has a consumer, whose MaxAckPending is the number of
// its runs that may be out at once. A message is a run id and nothing else. Every write is synced (SyncAlways).
//
// A directory that the server cannot open is moved aside, and what a server cannot write any more (after ENOSPC it
// refuses everything until it is started again) is cured by a new server at the next call. Either way package queue
// makes the stream agree with its table.
//
// Importing this package links the server, whose initialisation takes a few milliseconds of each start of the program:
// only what serves should.
package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/silk-sandbox/silk/queue"
)

// Names in the server. Subjects end with the token.
const (
	streamName    = "RUNS"
	subjectPrefix = "silk.run."
)

const (
	maxMemoryBytes  = 64 << 20 // state of consumers; a run is some hundred bytes of it
	defaultMaxStore = 1 << 30  // a run is about 200 bytes of it
	duplicates      = 2 * time.Minute
	consumerIdle    = time.Hour // after which the server forgets the consumer of a token
	maxMessageBytes = 1 << 10   // a run id, and headers
	restartEvery    = time.Second
	keepWait        = 3 * queue.KeepEvery
	nextWait        = 25 * time.Millisecond // see next
)

// Config says where the stream is kept.
type Config struct {
	Dir           string       // of the server alone; made, 0700, if it is not there
	MaxStoreBytes int64        // what it may have on the disk; 0: 1 GiB
	Logger        *slog.Logger // nil: discard
}

// Stream is an open stream. Safe for concurrent use.
type Stream struct {
	cfg Config

	mu       sync.Mutex // guards the rest, and serialises starts of the server
	now      *link
	started  time.Time // when a start of the server was last tried
	perToken int
	total    int
	closed   bool
}

// Open starts the server. The caller calls Close.
func Open(ctx context.Context, cfg Config) (*Stream, error) {
	if cfg.Dir == "" {
		return nil, errors.New("open stream: no directory is given")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxStoreBytes == 0 {
		cfg.MaxStoreBytes = defaultMaxStore
	}
	s := &Stream{cfg: cfg, perToken: 1000, total: 1000}
	l, err := s.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	s.now, s.started = l, time.Now()
	return s, nil
}

// Close ends the server.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.now != nil {
		s.now.close()
	}
	return nil
}

// Limit implements [queue.Stream]. Bounds are not lowered below what the stream holds.
func (s *Stream) Limit(ctx context.Context, perToken, total int) error {
	l, ctx, done, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := l.js.Stream(ctx, streamName)
	if err != nil {
		return explain(ctx, "look at stream", err)
	}
	have := int(info.CachedInfo().State.Msgs)
	s.perToken, s.total = max(perToken, have), max(total, have)
	if _, err := l.js.UpdateStream(ctx, s.stream()); err != nil {
		return explain(ctx, "bound stream", err)
	}
	return nil
}

// Publish implements [queue.Stream].
func (s *Stream) Publish(ctx context.Context, token, run string) error {
	l, ctx, done, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	l.mu.Lock()
	seq, known := l.seqs[run]
	l.mu.Unlock()
	if known && l.holds(ctx, seq, run) { // for longer than the server remembers, perhaps
		return nil
	}
	ack, err := l.js.Publish(ctx, subjectPrefix+token, []byte(run), js.WithMsgID(run))
	if err == nil && ack.Duplicate && !l.holds(ctx, ack.Sequence, run) {
		// It was published, taken and removed, and is wanted again: the server remembers only that it was.
		ack, err = l.js.Publish(ctx, subjectPrefix+token, []byte(run))
	}
	if err != nil {
		return explain(ctx, "publish run", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seqs[run] = ack.Sequence
	return nil
}

func (l *link) holds(ctx context.Context, seq uint64, run string) bool {
	stream, err := l.js.Stream(ctx, streamName)
	if err != nil {
		return false
	}
	msg, err := stream.GetMsg(ctx, seq)
	return err == nil && string(msg.Data) == run
}

// Drop implements [queue.Stream]. It knows what was published or listed since the server started; what it does not know
// stays, and package queue drops it when it is delivered.
func (s *Stream) Drop(ctx context.Context, run string) error {
	l, ctx, done, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	l.mu.Lock()
	seq, ok := l.seqs[run]
	l.mu.Unlock()
	if !ok {
		return nil
	}
	stream, err := l.js.Stream(ctx, streamName)
	if err == nil {
		err = stream.DeleteMsg(ctx, seq)
	}
	if err != nil && !errors.Is(err, js.ErrMsgNotFound) {
		return explain(ctx, "drop run", err)
	}
	l.forget(run)
	return nil
}

func (l *link) forget(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seqs, run)
}
