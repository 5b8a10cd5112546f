// Package queue is a ring of fixed size: silk run --dir examples/labs/repo/queue -p lab:repo -- go test -v ./...
package queue

// Ring keeps the last values that were put into it.
type Ring[T any] struct {
	values []T
	next   int
}

// New returns a ring that keeps size values.
func New[T any](size int) *Ring[T] { return &Ring[T]{values: make([]T, 0, size)} }

// Put adds a value, in place of the oldest if the ring is full.
func (r *Ring[T]) Put(v T) {
	if len(r.values) < cap(r.values) {
		r.values = append(r.values, v)
		return
	}
	r.values[r.next] = v
	r.next = (r.next + 1) % len(r.values)
}

// All returns what is kept, the oldest first.
func (r *Ring[T]) All() []T {
	return append(append([]T{}, r.values[r.next:]...), r.values[:r.next]...)
}
