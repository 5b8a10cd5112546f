package gateway

import (
	"sync"
	"time"

	"github.com/silk-sandbox/silk/egress"
)

// Decision is [egress.Decision].
type Decision = egress.Decision

// maxKinds bounds what a sandbox is told apart by: names and ports are its own to make up.
const maxKinds = 1000

// every is how often a refusal is told again that comes again and again.
const every = time.Minute

// reports tells decisions, the same refusal once and then its count.
type reports struct {
	tell func(Decision)

	mu   sync.Mutex
	seen map[sort]*repeated
	more int // refusals beyond maxKinds
}

// sort is what makes refusals the same.
type sort struct {
	kind, host string
	port       uint16
	rule       string
}

type repeated struct {
	first Decision
	count int // not told yet
	told  time.Time
}

// refused tells a refusal, if the same was not told just now.
func (r *reports) refused(d Decision) {
	key := sort{d.Kind, d.Host, d.Port, d.Rule}
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.seen[key]
	switch {
	case one == nil && len(r.seen) == maxKinds:
		r.more++
		return
	case one == nil:
		one = &repeated{first: d}
		r.seen[key] = one
	case d.At.Sub(one.told) < every:
		one.count++
		return
	}
	d.Count = one.count + 1
	one.count, one.told = 0, d.At
	r.tell(d)
}

// end tells what was not told yet.
func (r *reports) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.seen {
		if one.count > 0 {
			d := one.first
			d.At, d.Count = time.Now(), one.count
			r.tell(d)
		}
	}
	if r.more > 0 {
		r.tell(Decision{Kind: "tcp", Host: "others", Rule: "many", Reason: "other refusals, of more kinds than are counted", At: time.Now(), Count: r.more})
	}
	r.seen, r.more = map[sort]*repeated{}, 0
}
