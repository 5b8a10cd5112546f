package retention

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Decide says what goes. It does no I/O and reads no clock, so the same arguments always give the same answer. Nothing is in it of a run
// that is held or has not ended, and no image that such a run, or one that waits, needs.
func Decide(in Inventory, p Policy, now time.Time) Decision {
	p = p.withDefaults()
	runs := slices.SortedFunc(slices.Values(in.Runs), func(a, b Run) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
	var d Decision
	left := make([]map[Kind]int64, len(runs)) // what stays of each
	for i, r := range runs {
		left[i] = d.aged(r, p, now)
		for _, n := range left[i] {
			d.LeftBytes += n
			if r.Held {
				d.HeldBytes += n
			}
		}
	}
	d.squeeze(runs, left, p)
	d.images(in, p, now)
	for _, r := range d.Removals {
		d.Bytes += r.Bytes
	}
	return d
}

// aged removes what is too old of one run, and returns what stays.
func (d *Decision) aged(r Run, p Policy, now time.Time) (stays map[Kind]int64) {
	stays = map[Kind]int64{}
	age := now.Sub(r.At)
	for _, kind := range []Kind{Artifacts, Output, Record} {
		n, there := r.Bytes[kind]
		if !there {
			continue
		}
		why := ""
		switch limit := p.limit(kind); {
		case r.fixed():
		case r.Gone[kind]:
			why = "an earlier removal did not come to its end"
		case old(age, p.Records):
			why = "its record is older than " + span(p.Records)
		case old(age, limit):
			why = "older than " + span(limit)
		}
		if why == "" {
			stays[kind] = n
			continue
		}
		d.Removals = append(d.Removals, Removal{kind, r.ID, n, why})
	}
	return stays
}

func (p Policy) limit(kind Kind) time.Duration {
	return map[Kind]time.Duration{Artifacts: p.Artifacts, Output: p.Output, Record: p.Records}[kind]
}

// old says whether something of that age goes; limit 0 keeps all.
func old(age, limit time.Duration) bool { return limit > 0 && age >= limit }

// squeeze gives up artifacts and output, the oldest first, until the rest is within the budget.
func (d *Decision) squeeze(runs []Run, left []map[Kind]int64, p Policy) {
	if p.BudgetBytes <= 0 {
		return
	}
	for i, r := range runs {
		for _, kind := range []Kind{Artifacts, Output} {
			n, there := left[i][kind]
			if d.LeftBytes <= p.BudgetBytes || !there || r.fixed() || n == 0 {
				continue
			}
			d.Removals = append(d.Removals, Removal{kind, r.ID, n, fmt.Sprintf("runs have left more than the budget of %d bytes", p.BudgetBytes)})
			d.LeftBytes -= n
		}
	}
	d.OverBytes = max(0, d.LeftBytes-p.BudgetBytes)
}

// images removes those that nobody can find by a name, and those with one that were not used for long.
func (d *Decision) images(in Inventory, p Policy, now time.Time) {
	needed := map[string]bool{}
	for _, digest := range in.Wanted {
		needed[digest] = true
	}
	for _, r := range in.Runs {
		needed[r.Image] = needed[r.Image] || r.fixed()
	}
	for _, img := range in.Images {
		switch {
		case needed[img.Digest]:
		case len(img.Tags) == 0:
			d.Removals = append(d.Removals, Removal{Image, img.Digest, img.Bytes, "it has no tag"})
		case old(now.Sub(img.Used), p.Images):
			d.Removals = append(d.Removals, Removal{Image, img.Digest, img.Bytes, "not used for " + span(p.Images)})
		}
	}
}

// span is a duration as the configuration says it.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}
