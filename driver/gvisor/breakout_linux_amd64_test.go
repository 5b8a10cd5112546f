package gvisor

import (
	"context"
	"errors"
	"testing"

	"github.com/silk-sandbox/silk/watch"
)

// alarm is a scope that has seen what it is told.
type alarm struct {
	seen   []watch.Event
	err    error
	killed bool
}

func (*alarm) Arm() error                 { return nil }
func (*alarm) Events() <-chan watch.Event { return nil }
func (*alarm) Lost() <-chan struct{}      { return nil }
func (*alarm) Close() error               { return nil }
func (a *alarm) Kill(context.Context) error {
	a.killed = true
	return nil
}

func (a *alarm) Alarms() (n uint64, first watch.Event, err error) {
	if len(a.seen) > 0 {
		first = a.seen[0]
	}
	return uint64(len(a.seen)), first, a.err
}

func TestBrokeOut(t *testing.T) {
	a := &alarm{seen: []watch.Event{{Kind: watch.Execve, Argument: "/bin/sh"}, {Kind: watch.Socket}}}
	v, err := (&kernel{scope: a}).brokeOut()
	if err != nil || v == nil || v.Rule != "host.breakout" || v.Syscall != "execve" || v.Argument != "/bin/sh" {
		t.Errorf("got %v, %v", v, err)
	}
	if !a.killed {
		t.Error("what has broken out was not ended")
	}
	if v, err := (&kernel{scope: &alarm{err: errors.New("nobody knows")}}).brokeOut(); v != nil || err == nil {
		t.Errorf("an alarm that nobody can read: %v, %v", v, err)
	}
	for _, quiet := range []*kernel{{}, {scope: &alarm{}}} {
		if v, err := quiet.brokeOut(); v != nil || err != nil {
			t.Errorf("without an alarm: %v, %v", v, err)
		}
	}
}
