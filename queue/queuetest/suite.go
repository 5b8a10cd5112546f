package queuetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/queue"
)

// TestStream checks that what open returns keeps the promises of [queue.Stream]. open makes an empty one, which it closes
// with the test.
func TestStream(t *testing.T, open func(t *testing.T) queue.Stream) {
	for _, test := range []struct {
		name string
		do   func(s *suite)
	}{
		{"an empty one gives nothing", func(s *suite) {
			s.next("a", 5, "")
			s.list()
			s.ok(s.Drop(s.ctx, "unknown"))
		}},
		{"runs of a token come in order", func(s *suite) {
			s.publish("a", "a1", "a2", "a3")
			for _, want := range []string{"a1", "a2", "a3", ""} {
				s.next("a", 5, want)
			}
		}},
		{"tokens have lines of their own", func(s *suite) {
			s.publish("a", "a1")
			s.publish("b", "b1")
			s.next("c", 5, "")
			s.next("b", 5, "b1")
			s.next("a", 5, "a1")
		}},
		{"what was published again is there once", func(s *suite) {
			s.publish("a", "a1", "a1")
			first := s.next("a", 5, "a1")
			s.publish("a", "a1")
			s.next("a", 5, "")
			s.ok(first.Ack(s.ctx))
			s.next("a", 5, "")
			s.list()
		}},
		{"what was removed may be published again", func(s *suite) {
			s.publish("a", "a1")
			s.ok(s.next("a", 5, "a1").Ack(s.ctx))
			s.publish("a", "a1")
			s.list("a1")
			s.next("a", 5, "a1")
		}},
		{"no more than the limit is out", func(s *suite) {
			s.publish("a", "a1", "a2", "a3", "a4")
			first := s.next("a", 2, "a1")
			s.next("a", 2, "a2")
			s.next("a", 2, "")
			s.ok(first.Ack(s.ctx))
			s.next("a", 2, "a3")
			s.next("a", 2, "")
			s.next("a", 3, "a4") // it was raised
		}},
		{"what was returned comes first", func(s *suite) {
			s.publish("a", "a1", "a2", "a3")
			first := s.next("a", 5, "a1")
			s.next("a", 5, "a2")
			s.ok(first.Return(s.ctx))
			s.next("a", 5, "a1")
			s.next("a", 5, "a3")
		}},
		{"the list has what is out and not what is gone", func(s *suite) {
			s.publish("a", "a1", "a2", "a3")
			s.publish("b", "b1")
			s.next("a", 5, "a1")
			s.ok(s.next("a", 5, "a2").Ack(s.ctx))
			s.ok(s.Drop(s.ctx, "a3"))
			s.list("a1", "b1")
		}},
		{"what is dropped is not handed out", func(s *suite) {
			s.publish("a", "a1", "a2")
			s.ok(s.Drop(s.ctx, "a1"))
			s.next("a", 5, "a2")
			s.next("a", 5, "")
		}},
		{"what is dropped while it is out is out no longer", func(s *suite) {
			s.publish("a", "a1", "a2")
			s.next("a", 1, "a1")
			s.next("a", 1, "")
			s.ok(s.Drop(s.ctx, "a1"))
			s.next("a", 1, "a2")
		}},
		{"keeping changes nothing", func(s *suite) {
			s.publish("a", "a1")
			d := s.next("a", 5, "a1")
			s.ok(d.Keep())
			s.next("a", 5, "")
			s.ok(d.Ack(s.ctx))
		}},
		{"a token cannot have more than its bound", func(s *suite) {
			s.ok(s.Limit(s.ctx, 3, 100))
			s.publish("a", "a1", "a2", "a3")
			s.refused("a", "a4")
			s.publish("b", "b1")
			s.ok(s.Limit(s.ctx, 4, 100))
			s.publish("a", "a4")
			s.refused("a", "a5")
			s.ok(s.Drop(s.ctx, "a2"))
			s.publish("a", "a5")
			s.list("a1", "a3", "a4", "a5", "b1")
		}},
		{"all cannot have more than the bound of all", func(s *suite) {
			s.ok(s.Limit(s.ctx, 3, 4))
			s.publish("a", "a1", "a2")
			s.publish("b", "b1", "b2")
			s.refused("c", "c1")
			s.ok(s.Drop(s.ctx, "a2"))
			s.publish("c", "c1")
		}},
		{"a lower bound removes nothing", func(s *suite) {
			s.ok(s.Limit(s.ctx, 10, 10))
			s.publish("a", "a1", "a2", "a3")
			s.ok(s.Limit(s.ctx, 2, 2))
			s.list("a1", "a2", "a3")
			s.refused("a", "a4")
		}},
		{"long lists", func(s *suite) {
			s.ok(s.Limit(s.ctx, 5000, 5000))
			var want []string
			for i := range 1100 { // more than a batch
				want = append(want, fmt.Sprintf("r%04d", i))
			}
			s.publish("a", want...)
			s.list(want...)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.do(&suite{open(t), t, t.Context()})
		})
	}
}

type suite struct {
	queue.Stream
	t   *testing.T
	ctx context.Context
}

func (s *suite) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) publish(token string, runs ...string) {
	s.t.Helper()
	for _, run := range runs {
		s.ok(s.Publish(s.ctx, token, run))
	}
}

func (s *suite) refused(token, run string) {
	s.t.Helper()
	if err := s.Publish(s.ctx, token, run); err == nil {
		s.t.Errorf("%s of token %s was taken, beyond the bound", run, token)
	}
}

func (s *suite) next(token string, limit int, want string) queue.Delivery {
	s.t.Helper()
	d, err := s.Next(s.ctx, token, limit)
	s.ok(err)
	got := ""
	if d != nil {
		got = d.Run()
	}
	if got != want {
		s.t.Fatalf("the next run of token %s is %q, want %q", token, got, want)
	}
	return d
}

func (s *suite) list(want ...string) {
	s.t.Helper()
	all, err := s.List(s.ctx)
	s.ok(err)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(all))); diff != "" {
		s.t.Errorf("list (-want +got):\n%s", diff)
	}
	for run, token := range all {
		if len(want) < 100 && token != run[:1] {
			s.t.Errorf("%s is listed for token %s", run, token)
		}
	}
}
