package gateway

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

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

	mu     sync.Mutex
	seen   map[sort]*repeated
	more   int               // refusals beyond maxKinds
	halves map[string][2]int // refused queries for the addresses of a name, IPv4 and IPv6
}

func newReports(tell func(Decision)) *reports {
	return &reports{tell: tell, seen: map[sort]*repeated{}, halves: map[string][2]int{}}
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

// counterpart says whether a refused query is the other half of a look-up that was told: programs ask for both kinds of addresses at once.
func (r *reports) counterpart(name string, kind dnsmessage.Type) bool {
	half := slices.Index([]dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA}, kind)
	r.mu.Lock()
	defer r.mu.Unlock()
	asked, known := r.halves[name]
	if half < 0 || !known && len(r.halves) == maxKinds {
		return false
	}
	told := max(asked[0], asked[1])
	asked[half]++
	r.halves[name] = asked
	return asked[half] <= told
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
