package queue

import "context"

// Stream delivers the ids of queued runs to workers. It is a copy: the table is the truth, so a stream may lose what it
// holds, deliver a run twice or keep one that has ended, and nothing worse than a delay comes of it.
//
// Package queue/jetstream has the real one, package queue/queuetest one in memory; both pass queuetest.TestStream. All
// methods are safe for concurrent use.
type Stream interface {
	// Limit bounds what the stream holds: perToken runs of one token, total of all. Publish refuses what is beyond.
	Limit(ctx context.Context, perToken, total int) error
	// Publish returns nil once run is stored in the line of token. Publishing what is there already changes nothing.
	Publish(ctx context.Context, token, run string) error
	// Next hands out the oldest run of token that nobody has, if fewer than limit of its runs are out; else nil.
	Next(ctx context.Context, token string, limit int) (Delivery, error)
	// List names what it holds, handed out or not: token by run.
	List(ctx context.Context) (map[string]string, error)
	// Drop removes run. One that it does not hold is no error.
	Drop(ctx context.Context, run string) error
}

// Delivery is one run that a [Stream] has handed out. Whoever has it must call Keep every [KeepEvery], or it may be
// handed out again.
type Delivery interface {
	Run() string
	// Ack removes the run from the stream and returns once it is gone.
	Ack(ctx context.Context) error
	// Return gives it back: it is the next one of its token again.
	Return(ctx context.Context) error
	// Keep says that it is being worked on.
	Keep() error
}
