package confine

import (
	"maps"
	"slices"
	"sync"

	"github.com/silk-sandbox/silk/driver"
)

// Refusals count what rules have refused with an errno. The zero value has none. Safe for concurrent use.
type Refusals struct {
	mu  sync.Mutex
	all map[string]*driver.Refusal
}

// Add counts an act that a rule has refused.
func (r *Refusals) Add(rule string, act driver.Act) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]*driver.Refusal{}
	}
	one := r.all[rule]
	if one == nil {
		one = &driver.Refusal{Rule: rule}
		r.all[rule] = one
	}
	one.Count++
	if len(one.Acts) < driver.MostActs && !slices.Contains(one.Acts, act) {
		one.Acts = append(one.Acts, act)
	}
}

// List is what was refused, by rule.
func (r *Refusals) List() (list []driver.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rule := range slices.Sorted(maps.Keys(r.all)) {
		list = append(list, *r.all[rule])
	}
	return list
}
