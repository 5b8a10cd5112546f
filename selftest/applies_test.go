package selftest

import "testing"

func TestApplies(t *testing.T) {
	all := All()
	for driver, most := range map[string]int{"gvisor": 0, "": 0, "docker": len(all) / 2, "qemu": len(all) / 20} {
		rows, leftOut := For(driver, all)
		sum := 0
		for _, n := range leftOut {
			sum += n
		}
		if sum > most || len(rows)+sum != len(all) {
			t.Errorf("%q: %d rows apply and %v are left out of %d", driver, len(rows), leftOut, len(all))
		}
	}
	for _, r := range all {
		if ok, lacking := r.Applies("docker"); !ok && lacking == "" {
			t.Errorf("%s is left out for no reason", r.ID())
		}
	}
	// No feature is named that no driver lacks, or that no row needs.
	for driver, list := range lacks {
		for _, lack := range list {
			if _, leftOut := For(driver, all); leftOut[lack] == 0 {
				t.Errorf("%s lacks %s, which no row needs", driver, lack)
			}
		}
	}
}
