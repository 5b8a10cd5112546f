package jetstream

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestNextBesideOtherCalls has answers come while other calls wait for theirs: each must get its own.
func TestNextBesideOtherCalls(t *testing.T) {
	s := start(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // an answer that was lost is not waited for
	defer cancel()
	var acks sync.WaitGroup
	defer acks.Wait()
	for i := range 40 {
		token := fmt.Sprint("t", i)
		publish(t, s, token, token+"-0", token+"-1", token+"-2", token+"-3")
		for got := 0; got < 4; {
			d, err := s.Next(ctx, token, 2)
			if err != nil {
				t.Fatalf("after %d of token %s: %v", got, token, err)
			}
			if d == nil { // two are out
				continue
			}
			if want := fmt.Sprint(token, "-", got); d.Run() != want {
				t.Fatalf("got %s, want %s", d.Run(), want)
			}
			got++
			acks.Go(func() {
				if err := d.Ack(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
