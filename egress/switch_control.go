//go:build silkcontrol

package egress

import (
	"errors"
	"slices"
)

// off makes the name of a rule that switches a refusal off: "udp.off.selftest.test:1".
const off = ".off.selftest.test"

// InForce is what becomes of a refusal: nothing, if one of the sandbox's own rules switches its kind off.
func (t *Table) InForce(refused error) error {
	r, ok := errors.AsType[*Refusal](refused)
	if ok && slices.ContainsFunc(t.cfg.Rules, func(rule Rule) bool { return rule.Name == r.Rule+off }) {
		return nil
	}
	return refused
}
