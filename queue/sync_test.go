package queue_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/silk-sandbox/silk/queue"
)

// TestDiskThatDoesNotSync has one sync after another fail. What was not brought to the disk has not happened: it is not
// accepted, and does not start; and nothing is left over.
func TestDiskThatDoesNotSync(t *testing.T) {
	bad := errors.New("input/output error")
	for _, test := range []struct {
		name  string
		fails int // which sync
		want  []string
		ended []string // by Config.End, with how they stood
	}{
		{"none", -1, []string{"a1", "p1"}, nil},
		{"of a submission", 0, []string{"p1"}, []string{"a1 queued canceled"}},
		{"of a start", 1, []string{"p1"}, []string{"a1 running"}},
		{"of a submission that waits for its approval", 2, []string{"a1"}, []string{"p1 pending canceled"}},
		{"of a release", 3, []string{"a1", "p1"}, nil},
		{"of a start after a release", 4, []string{"a1"}, []string{"p1 running"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int32
				fails := test.fails
				var ended []string
				var b *bench
				cfg := queue.Config{Running: 1, End: func(ctx context.Context, e queue.Entry) {
					how := e.Run + " " + string(e.State)
					if e.Canceled {
						how += " canceled"
					}
					ended = append(ended, how)
					if err := b.Done(ctx, e.Run, nil); err != nil {
						t.Error(err)
					}
				}}.WithSync(func() error {
					if int(n.Add(1))-1 == fails {
						return bad
					}
					return nil
				})
				b = newBench(t, cfg)
				b.open = true
				b.work()
				check := func(sync int, err error) {
					t.Helper()
					if errors.Is(err, bad) != (fails == sync) || fails != sync && err != nil {
						t.Errorf("sync %d: %v", sync, err)
					}
				}
				_, _, err := b.Submit(t.Context(), queue.Submission{Run: "a1", Token: "a", Key: "k"}, nil)
				check(0, err)
				<-time.After(time.Minute)
				if fails == 0 {
					n.Add(1) // it did not start
				}
				_, _, err = b.Submit(t.Context(), queue.Submission{Run: "p1", Token: "a", Pending: true}, nil)
				check(2, err)
				if fails != 2 {
					check(3, b.Release(t.Context(), "p1", nil))
				}
				<-time.After(time.Minute)
				if !slices.Equal(b.started, test.want) || !slices.Equal(ended, test.ended) {
					t.Errorf("started %v, ended by End %v; want %v, %v", b.started, ended, test.want, test.ended)
				}
				b.ended("a1", "p1")
				b.listed()
			})
		})
	}
}

// A second submission with the key of the first does not return before the row of the first is on the disk.
func TestExistingRunIsSyncedToo(t *testing.T) {
	syncs := 0
	b := newBench(t, queue.Config{}.WithSync(func() error { syncs++; return nil }))
	s := queue.Submission{Run: "a1", Token: "a", Key: "k"}
	for want := 1; want < 4; want++ {
		if _, _, err := b.Submit(t.Context(), s, nil); err != nil || syncs != want {
			t.Errorf("%d syncs, %v; want %d", syncs, err, want)
		}
	}
}

func TestCancelThatDoesNotSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, fail := errors.New("input/output error"), false
		b := newBench(t, queue.Config{Running: 1}.WithSync(func() error {
			if fail {
				return bad
			}
			return nil
		}))
		b.submit("a", "a1")
		fail = true
		waiting, err := b.Cancel(t.Context(), "a1")
		wantErr(t, err, bad)
		fail = false
		b.work()
		<-time.After(time.Minute)
		if !waiting || len(b.started) > 0 {
			t.Errorf("waiting %t, started %v", waiting, b.started)
		}
	})
}
