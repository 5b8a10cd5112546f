package replay

import "github.com/silk-sandbox/silk/policy"

// Other values of what trials hold: far enough from any other for a date to be another one, and digits of a duration.
const (
	otherClockMs = 271*24*3600*1000 + 12_345_678
	otherStepNs  = 1717
	otherSeed    = 1_000_003
)

// Of is what a trial starts from. base is what the run started from, or nil.
func (h Held) Of(base *policy.Held) *policy.Held {
	held := policy.Usual
	if base != nil {
		held = *base
	}
	switch h {
	case OtherClock:
		held.ClockMs += otherClockMs
		held.StepNs += otherStepNs
	case OtherSeed:
		held.Seed = (held.Seed + otherSeed) % (1 << 32)
	}
	return &held
}
