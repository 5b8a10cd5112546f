package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/silk-sandbox/silk/queue"
)

// Next implements [queue.Stream].
func (s *Stream) Next(ctx context.Context, token string, limit int) (queue.Delivery, error) {
	l, ctx, done, err := s.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	for range 2 { // the second time with a new consumer
		if err := l.consumer(ctx, token, limit); err != nil {
			return nil, explain(ctx, "make consumer of token "+token, err)
		}
		d, err := l.next(ctx, token)
		if errors.Is(err, nats.ErrNoResponders) { // the server has forgotten it
			l.mu.Lock()
			delete(l.consumers, token)
			l.mu.Unlock()
			continue
		}
		if err != nil {
			return nil, explain(ctx, "ask for a run of token "+token, err)
		}
		if d == nil {
			return nil, nil //nolint:nilnil // as the interface says
		}
		return d, nil
	}
	return nil, fmt.Errorf("ask for a run of token %s: %w", token, nats.ErrNoResponders)
}

// consumer makes the consumer of token, or changes how much of it may be out.
func (l *link) consumer(ctx context.Context, token string, limit int) error {
	l.mu.Lock()
	have, ok := l.consumers[token]
	l.mu.Unlock()
	if ok && have == limit {
		return nil
	}
	_, err := l.js.CreateOrUpdateConsumer(ctx, streamName, js.ConsumerConfig{
		Durable: token, FilterSubject: subjectPrefix + token, AckPolicy: js.AckExplicitPolicy,
		MaxAckPending: limit, AckWait: keepWait, MaxDeliver: -1, InactiveThreshold: consumerIdle,
		MemoryStorage: true, // what is out is in the table, too
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.consumers[token] = limit
	return nil
}

// next asks once. The request expires at the server long before we stop to wait for its answer: one that does not
// expire would stay there while too many of the token's runs are out, and be answered when nobody listens.
//
// The answer has the subject of the run and not of the request, by which the client's own requests are told apart: with
// two of them under way it would be lost. Hence the inbox of its own.
func (l *link) next(ctx context.Context, token string) (*delivery, error) {
	ask, err := json.Marshal(map[string]any{"batch": 1, "no_wait": true, "expires": nextWait.Nanoseconds()})
	if err != nil {
		return nil, err
	}
	inbox := l.conn.NewInbox()
	sub, err := l.conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe() // at worst it ends with the connection
	if err := l.conn.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+streamName+"."+token, inbox, ask); err != nil {
		return nil, err
	}
	msg, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return nil, err
	}
	switch status := msg.Header.Get("Status"); status {
	case "":
		return &delivery{link: l, msg: msg}, nil
	case "404", "408":
		return nil, nil //nolint:nilnil // there is none
	case "503":
		return nil, nats.ErrNoResponders
	case "409": // it was deleted while we waited
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.consumers, token)
		return nil, nil //nolint:nilnil // ask again later
	default:
		return nil, fmt.Errorf("the server says %s %s", status, msg.Header.Get("Description"))
	}
}

// delivery is one message. What one says to a server that was started again is an error.
type delivery struct {
	link *link
	msg  *nats.Msg
}

func (d *delivery) Run() string { return string(d.msg.Data) }

// Ack waits for the server's word that the message is removed, so that Next may give another one.
func (d *delivery) Ack(ctx context.Context) error {
	if _, err := d.link.conn.RequestWithContext(ctx, d.msg.Reply, []byte("+ACK")); err != nil {
		return fmt.Errorf("acknowledge run: %w", err)
	}
	d.link.forget(d.Run())
	return nil
}

func (d *delivery) Return(ctx context.Context) error {
	if _, err := d.link.conn.RequestWithContext(ctx, d.msg.Reply, []byte("-NAK")); err != nil {
		return fmt.Errorf("return run: %w", err)
	}
	return nil
}

func (d *delivery) Keep() error {
	if err := d.link.conn.Publish(d.msg.Reply, []byte("+WPI")); err != nil {
		return fmt.Errorf("keep run: %w", err)
	}
	return nil
}
