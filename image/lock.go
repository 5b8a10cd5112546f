package image

import (
	"fmt"
	"os"
)

// lockMode is how a lock is held.
type lockMode int

const (
	shared    lockMode = iota // by any number of writers
	exclusive                 // by one remover
	try                       // exclusive, or errBusy at once
)

// lock takes the home store's lock. Those who only read need none: blobs never change, and tags change atomically.
func (s *Store) lock(mode lockMode) (unlock func(), err error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(s.home.dir("lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock image store: %w", err)
	}
	if err := flock(file, mode); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock image store: %w", err)
	}
	return func() { _ = file.Close() }, nil
}
