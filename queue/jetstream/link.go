package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/silk-sandbox/silk/internal/logkey"
)

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
