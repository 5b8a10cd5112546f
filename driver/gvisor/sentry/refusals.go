package sentry

import (
	"cmp"
	"slices"
	"sync"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/watch"
)

// maxSamples is how many different refused acts are kept of each rule, so that a program cannot make the Sentry grow by
// being refused.
const maxSamples = 8

// refusals counts what Deny and Absent rules have answered.
type refusals struct {
	mu     sync.Mutex
	byRule map[string]*driver.Refusal
}

func (r *refusals) add(rule, call, argument string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byRule == nil {
		r.byRule = map[string]*driver.Refusal{}
	}
	refusal := r.byRule[rule]
	if refusal == nil {
		refusal = &driver.Refusal{Rule: rule}
		r.byRule[rule] = refusal
	}
	refusal.Count++
	if len(refusal.Acts) == maxSamples {
		return
	}
	if act := (driver.Act{Syscall: call, Argument: watch.Printable(argument)}); !slices.Contains(refusal.Acts, act) {
		refusal.Acts = append(refusal.Acts, act)
	}
}

// list returns the refusals by rule.
func (r *refusals) list() []driver.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]driver.Refusal, 0, len(r.byRule))
	for _, refusal := range r.byRule {
		all = append(all, *refusal)
	}
	slices.SortFunc(all, func(a, b driver.Refusal) int { return cmp.Compare(a.Rule, b.Rule) })
	return all
}

// refuse answers the call with the errno of a rule, and counts it.
func (g *guard) refuse(c *call, rule, argument string) error {
	err := g.errnoOf(rule)
	g.refused.add(rule, c.name, argument)
	g.seen(c, argument, err)
	return err
}

func (g *guard) errnoOf(rule string) error {
	r, ok := rules.Named(rule)
	if errno := errnos[r.Errno]; ok && errno != nil {
		return errno
	}
	return errnos["EPERM"] // a rule without an errno denies all the same; checkTable keeps it from happening
}
