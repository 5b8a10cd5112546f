package mcp

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestLastAnswer: a client that reads nothing holds up the server as long as it may still do so, and no longer.
func TestLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		a := &answers{w: w, left: make(chan struct{})}
		begin := time.Now()
		time.AfterFunc(time.Hour, a.leave)
		if _, err := a.Write([]byte("x\n")); !errors.Is(err, errUnread) || time.Since(begin) != time.Hour+lastAnswer {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if _, err := a.Write([]byte("y\n")); !errors.Is(err, errUnread) || time.Since(begin) != time.Hour+lastAnswer {
			t.Errorf("the next one: %v after %v", err, time.Since(begin))
		}
		if err := r.Close(); err != nil { // ends what was left behind
			t.Error(err)
		}
	})
}
