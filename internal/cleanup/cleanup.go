// Package cleanup releases what was acquired, in reverse order, and loses no error.
//
// Push a release right after each acquisition; on the way out run the stack once. It is for resources that must be
// released on every path, also after a panic; a plain defer is enough for a resource that lives in one function and
// whose release cannot fail in a way that matters.
package cleanup

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Stack is a list of releases, last in, first out. Its zero value is empty. Safe for concurrent use.
type Stack struct {
	mu       sync.Mutex
	releases []func(context.Context) error
}

// Push adds a release. It is called at most once, with the context given to Run.
func (s *Stack) Push(release func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releases = append(s.releases, release)
}

// PushFunc adds a release that needs no context and has no error.
func (s *Stack) PushFunc(release func()) {
	s.Push(func(context.Context) error { release(); return nil })
}

// Run calls the releases, the last one first, and joins their errors. All are called, whatever the others return; one
// that panics counts as one that returned an error. Afterwards the stack is empty; what a release pushes runs too.
func (s *Stack) Run(ctx context.Context) error {
	var errs []error
	for {
		s.mu.Lock()
		last := len(s.releases) - 1
		if last < 0 {
			s.mu.Unlock()
			return errors.Join(errs...)
		}
		release := s.releases[last]
		s.releases = s.releases[:last]
		s.mu.Unlock()
		errs = append(errs, call(ctx, release))
	}
}

func call(ctx context.Context, release func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic during clean-up: %v", p)
		}
	}()
	return release(ctx)
}
