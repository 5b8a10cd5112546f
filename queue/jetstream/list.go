package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	js "github.com/nats-io/nats.go/jetstream"
)

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
