package queue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/queuetest"
	"github.com/silk-sandbox/silk/store"
)

// A service opens a queue, ends what the last start of it left, takes runs and works on them.
func Example() {
	if err := service(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 01RUN of 01TOKEN is queued
	// 01RUN is running on host-1/1
	// 01RUN is ended
}

func service(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "queue")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := store.Open(ctx, filepath.Join(dir, store.FileName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	q, err := queue.Open(ctx, queue.Config{
		DB: db, Worker: "host-1/1",
		Stream: new(queuetest.Stream), // a real service opens one of package queue/jetstream
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()

	lost, err := q.Lost(ctx)
	if err != nil {
		return err
	}
	for _, e := range lost {
		if err := q.Done(ctx, e.Run, nil); err != nil { // with its record: error, host restarted
			return err
		}
	}
	e, _, err := q.Submit(ctx, queue.Submission{Run: "01RUN", Token: "01TOKEN", Hash: "2c26b4", Request: []byte(`{}`)}, nil)
	if err != nil {
		return err
	}
	fmt.Println(e.Run, "of", e.Token, "is", e.State)
	ctx, stop := context.WithCancel(ctx)
	err = q.Work(ctx, func(ctx context.Context, e queue.Entry) error {
		if err := q.OnDisk(e.Run); err != nil {
			return err
		}
		defer stop()
		fmt.Println(e.Run, "is", e.State, "on", e.Worker)
		return q.Done(ctx, e.Run, nil) // with its record
	})
	if err != nil {
		return err
	}
	e, err = q.Get(context.WithoutCancel(ctx), "01RUN")
	fmt.Println(e.Run, "is", e.State)
	return err
}
