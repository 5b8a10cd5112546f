package cleanup

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestRunIsInReverseAndJoinsErrors(t *testing.T) {
	var s Stack
	var order string
	first, third := errors.New("first"), errors.New("third")
	s.Push(func(context.Context) error { order += "1"; return first })
	s.PushFunc(func() { order += "2" })
	s.Push(func(context.Context) error { order += "3"; return third })
	err := s.Run(t.Context())
	if order != "321" {
		t.Errorf("order %q, want 321", order)
	}
	if !errors.Is(err, first) || !errors.Is(err, third) {
		t.Errorf("got %v, want both errors", err)
	}
	if err := s.Run(t.Context()); err != nil || order != "321" {
		t.Errorf("a second Run: %v, order %q", err, order)
	}
}

func TestRunSurvivesPanic(t *testing.T) {
	var s Stack
	ran := false
	s.PushFunc(func() { ran = true })
	s.PushFunc(func() { panic("boom") })
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v, want the panic", err)
	}
	if !ran {
		t.Error("the release below the panic did not run")
	}
}

func TestPushDuringRun(t *testing.T) {
	var s Stack
	ran := false
	s.PushFunc(func() { s.PushFunc(func() { ran = true }) })
	if err := s.Run(t.Context()); err != nil || !ran {
		t.Errorf("err %v, ran %v", err, ran)
	}
}

func TestRunPassesContext(t *testing.T) {
	var s Stack
	ctx, cancel := context.WithCancelCause(t.Context())
	want := errors.New("why")
	cancel(want)
	s.Push(func(ctx context.Context) error { return context.Cause(ctx) })
	if err := s.Run(ctx); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}
