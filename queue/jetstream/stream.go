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
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/silk-sandbox/silk/internal/logkey"
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

// link is one start of the server.
type link struct {
	srv  *server.Server
	conn *nats.Conn
	js   js.JetStream
	log  *logger

	mu        sync.Mutex
	consumers map[string]int    // MaxAckPending by token
	seqs      map[string]uint64 // place in the stream by run
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

func (l *link) close() {
	l.conn.Close()
	l.srv.Shutdown()
	l.srv.WaitForShutdown()
}

// link starts a server and makes its stream.
func (s *Stream) link(ctx context.Context) (_ *link, err error) {
	log := newLogger(s.cfg.Logger)
	srv, conn, err := startServer(s.cfg, log)
	if err != nil {
		return nil, err
	}
	l := &link{srv: srv, conn: conn, log: log, consumers: map[string]int{}, seqs: map[string]uint64{}}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.js, err = js.New(conn); err != nil {
		return nil, err
	}
	have := uint64(0)
	if old, err := l.js.Stream(ctx, streamName); err == nil {
		have = old.CachedInfo().State.Msgs
		// What was out belongs to nobody now.
		names := old.ConsumerNames(ctx)
		for name := range names.Name() {
			if err := old.DeleteConsumer(ctx, name); err != nil {
				return nil, fmt.Errorf("delete consumer: %w", err)
			}
		}
		if err := names.Err(); err != nil {
			return nil, fmt.Errorf("list consumers: %w", err)
		}
	} else if !errors.Is(err, js.ErrStreamNotFound) {
		return nil, fmt.Errorf("look at stream: %w", err)
	}
	s.perToken, s.total = max(s.perToken, int(have)), max(s.total, int(have)) // a lower bound would delete what is beyond
	if _, err := l.js.CreateOrUpdateStream(ctx, s.stream()); err != nil {
		return nil, fmt.Errorf("make stream: %w", err)
	}
	return l, nil
}

// stream is the configuration. s.mu is held, or s is not shared yet.
func (s *Stream) stream() js.StreamConfig {
	return js.StreamConfig{
		Name: streamName, Subjects: []string{subjectPrefix + "*"}, Storage: js.FileStorage,
		Retention: js.WorkQueuePolicy, Discard: js.DiscardNew, DiscardNewPerSubject: true,
		MaxMsgsPerSubject: int64(s.perToken), MaxMsgs: int64(s.total), MaxMsgSize: maxMessageBytes,
		Duplicates: duplicates, AllowDirect: true,
	}
}

// use returns the running server, after a new start if the last one is of no use any more. The context that it returns
// ends, with the reason as its cause, when the server gets into that state; the caller calls done.
func (s *Stream) use(ctx context.Context) (l *link, _ context.Context, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, nil, errors.New("the stream is closed")
	}
	if s.now == nil || !s.now.healthy() {
		if err := s.restart(ctx); err != nil {
			return nil, nil, nil, err
		}
	}
	ctx, done = s.now.guard(ctx)
	return s.now, ctx, done, nil
}

func (s *Stream) restart(ctx context.Context) error {
	if s.now != nil {
		if time.Since(s.started) < restartEvery {
			return fmt.Errorf("the stream is out of order: %w", s.now.log.trouble())
		}
		s.cfg.Logger.Warn("the queue's stream is out of order; its server is started again", logkey.Error, s.now.log.trouble())
		s.now.close()
		s.now = nil
	}
	s.started = time.Now()
	l, err := s.open(ctx)
	if err != nil {
		return err
	}
	s.now = l
	return nil
}

func (l *link) healthy() bool {
	select {
	case <-l.log.sick:
		return false
	default:
		return l.srv.JetStreamEnabled() && l.conn.IsConnected()
	}
}

// guard makes a context that is done when the server falls sick.
func (l *link) guard(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-l.log.sick:
			cancel(l.log.trouble())
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}

// explain says what was being done, and why the server does not do it if it is sick.
func explain(ctx context.Context, doing string, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	return fmt.Errorf("%s: %w", doing, err)
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

// listBatch is how many messages List asks for at once.
const listBatch = 1000

// List implements [queue.Stream], by batches of direct gets (ADR-31 of the NATS project).
func (s *Stream) List(ctx context.Context) (map[string]string, error) {
	l, ctx, done, err := s.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	all := map[string]string{}
	for next := uint64(1); next > 0; {
		if next, err = l.list(ctx, next, all); err != nil {
			return nil, explain(ctx, "list runs", err)
		}
	}
	return all, nil
}

// list adds a batch of messages from sequence from to all, and returns where the next one begins; 0: there is none.
func (l *link) list(ctx context.Context, from uint64, all map[string]string) (next uint64, err error) {
	inbox := l.conn.NewInbox()
	sub, err := l.conn.SubscribeSync(inbox)
	if err != nil {
		return 0, err
	}
	defer sub.Unsubscribe() // at worst it ends with the connection
	ask, err := json.Marshal(map[string]any{"seq": from, "next_by_subj": subjectPrefix + "*", "batch": listBatch})
	if err != nil {
		return 0, err
	}
	if err := l.conn.PublishRequest("$JS.API.DIRECT.GET."+streamName, inbox, ask); err != nil {
		return 0, err
	}
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return 0, err
		}
		switch status := msg.Header.Get("Status"); status {
		case "":
		case "404": // the stream is empty
			return 0, nil
		case "204": // end of the batch
			return next, nil
		default:
			return 0, fmt.Errorf("the server says %s %s", status, msg.Header.Get("Description"))
		}
		var seq uint64
		if _, err := fmt.Sscan(msg.Header.Get(js.SequenceHeader), &seq); err != nil {
			return 0, fmt.Errorf("sequence of a message: %w", err)
		}
		run, token := string(msg.Data), strings.TrimPrefix(msg.Header.Get(js.SubjectHeader), subjectPrefix)
		all[run] = token
		l.mu.Lock()
		l.seqs[run] = seq
		l.mu.Unlock()
		next = seq + 1
	}
}
