package retention

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const day = 24 * time.Hour

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

func TestDecide(t *testing.T) {
	full := func(id string, age time.Duration) Run {
		return Run{ID: id, At: ago(age), Image: "sha256:a", Bytes: map[Kind]int64{Record: 10, Output: 200, Artifacts: 3000}}
	}
	with := func(r Run, change func(*Run)) Run { change(&r); return r }
	held := func(r *Run) { r.Held = true }
	open := func(r *Run) { r.Open = true }
	for _, test := range []struct {
		name   string
		in     Inventory
		policy Policy
		want   Decision
	}{
		{"nothing", Inventory{}, Policy{}, Decision{}},
		{
			"by default old artifacts go",
			Inventory{Runs: []Run{full("old", 31*day), full("young", 29*day)}},
			Policy{},
			Decision{Removals: []Removal{{Artifacts, "old", 3000, "older than 30d"}}, LeftBytes: 3420},
		},
		{
			"a limit is reached at its end",
			Inventory{Runs: []Run{full("a", 30*day)}},
			Policy{},
			Decision{Removals: []Removal{{Artifacts, "a", 3000, "older than 30d"}}, LeftBytes: 210},
		},
		{
			"output goes alone",
			Inventory{Runs: []Run{full("a", day)}},
			Policy{Output: 12 * time.Hour},
			Decision{Removals: []Removal{{Output, "a", 200, "older than 12h0m0s"}}, LeftBytes: 3010},
		},
		{
			"a record takes the rest along",
			Inventory{Runs: []Run{full("a", day)}},
			Policy{Records: day},
			Decision{Removals: []Removal{
				{Artifacts, "a", 3000, "its record is older than 1d"}, {Output, "a", 200, "its record is older than 1d"}, {Record, "a", 10, "its record is older than 1d"},
			}},
		},
		{
			"what is held or runs stays",
			Inventory{Runs: []Run{with(full("a", 99*day), held), with(full("b", 98*day), open)}},
			Policy{Records: day, Output: day, BudgetBytes: 1},
			Decision{LeftBytes: 6420, HeldBytes: 3210, OverBytes: 6419},
		},
		{
			"the oldest go for the budget, and no record",
			Inventory{Runs: []Run{full("young", day), full("old", 3*day), full("older", 4*day)}},
			Policy{BudgetBytes: 3300},
			Decision{Removals: []Removal{
				{Artifacts, "older", 3000, "runs have left more than the budget of 3300 bytes"},
				{Output, "older", 200, "runs have left more than the budget of 3300 bytes"},
				{Artifacts, "old", 3000, "runs have left more than the budget of 3300 bytes"},
				{Output, "old", 200, "runs have left more than the budget of 3300 bytes"},
			}, LeftBytes: 3230},
		},
		{
			"no more than the budget wants",
			Inventory{Runs: []Run{full("young", day), full("old", 3*day)}},
			Policy{BudgetBytes: 6419},
			Decision{Removals: []Removal{{Artifacts, "old", 3000, "runs have left more than the budget of 6419 bytes"}}, LeftBytes: 3420},
		},
		{
			"what records alone have is beyond a budget",
			Inventory{Runs: []Run{full("a", day)}},
			Policy{BudgetBytes: 4},
			Decision{Removals: []Removal{
				{Artifacts, "a", 3000, "runs have left more than the budget of 4 bytes"}, {Output, "a", 200, "runs have left more than the budget of 4 bytes"},
			}, LeftBytes: 10, OverBytes: 6},
		},
		{
			"what an earlier removal left goes on going",
			Inventory{Runs: []Run{with(full("a", day), func(r *Run) { r.Gone = map[Kind]bool{Artifacts: true} })}},
			Policy{},
			Decision{Removals: []Removal{{Artifacts, "a", 3000, "an earlier removal did not come to its end"}}, LeftBytes: 210},
		},
		{
			"images",
			Inventory{
				Runs:   []Run{{ID: "h", Image: "sha256:held", Held: true}, {ID: "o", Image: "sha256:open", Open: true}, {ID: "e", Image: "sha256:ended", At: now}},
				Wanted: []string{"sha256:wanted"},
				Images: []ImageEntry{
					{"sha256:held", nil, 1, ago(99 * day)},
					{"sha256:open", nil, 2, ago(99 * day)},
					{"sha256:ended", nil, 4, now},
					{"sha256:wanted", nil, 8, ago(99 * day)},
					{"sha256:idle", []string{"idle"}, 16, ago(90 * day)},
					{"sha256:busy", []string{"busy"}, 32, ago(89 * day)},
				},
			},
			Policy{Images: 90 * day},
			Decision{Removals: []Removal{{Image, "sha256:ended", 4, "it has no tag"}, {Image, "sha256:idle", 16, "not used for 90d"}}},
		},
		{
			"an image with a tag stays for good if nobody says otherwise",
			Inventory{Images: []ImageEntry{{"sha256:idle", []string{"idle"}, 16, ago(9999 * day)}}},
			Policy{BudgetBytes: 1},
			Decision{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, r := range test.want.Removals {
				test.want.Bytes += r.Bytes
			}
			if diff := cmp.Diff(test.want, Decide(test.in, test.policy, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever there is and whatever the owner wants: nothing goes that is held, runs or is needed, nothing goes that is not there or twice, no record
// goes for a budget, and the sums are right.
func TestDecideKeeps(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 9))
		in, p := anything(rng)
		d := Decide(in, p, now)
		runs, images, needed := map[string]Run{}, map[string]ImageEntry{}, map[string]bool{}
		var total int64
		for _, r := range in.Runs {
			runs[r.ID] = r
			needed[r.Image] = needed[r.Image] || r.Held || r.Open
			for _, n := range r.Bytes {
				total += n
			}
		}
		for _, digest := range in.Wanted {
			needed[digest] = true
		}
		for _, img := range in.Images {
			images[img.Digest] = img
		}
		seen := map[Removal]bool{}
		var bytes, ofRuns int64
		for _, r := range d.Removals {
			once := Removal{Kind: r.Kind, ID: r.ID}
			if seen[once] || r.Why == "" {
				t.Errorf("seed %d: twice, or without a reason: %+v", seed, r)
			}
			seen[once] = true
			bytes += r.Bytes
			if r.Kind == Image {
				if _, ok := images[r.ID]; !ok || needed[r.ID] {
					t.Errorf("seed %d: image %s goes; there: %t, needed: %t", seed, r.ID, ok, needed[r.ID])
				}
				continue
			}
			ofRuns += r.Bytes
			run := runs[r.ID]
			n, there := run.Bytes[r.Kind]
			if run.Held || run.Open || !there || n != r.Bytes {
				t.Errorf("seed %d: %+v goes of %+v", seed, r, run)
			}
			if r.Kind == Record && (p.Records == 0 || now.Sub(run.At) < p.Records) && !run.Gone[Record] {
				t.Errorf("seed %d: a young record goes: %+v", seed, r)
			}
		}
		for _, r := range d.Removals { // no output stays behind its record
			for kind := range runs[r.ID].Bytes {
				if r.Kind == Record && !seen[Removal{Kind: kind, ID: r.ID}] {
					t.Errorf("seed %d: the record of %s goes, its %s stays", seed, r.ID, kind)
				}
			}
		}
		if d.Bytes != bytes || d.LeftBytes != total-ofRuns || d.OverBytes > 0 && (p.BudgetBytes == 0 || d.OverBytes != d.LeftBytes-p.BudgetBytes) {
			t.Errorf("seed %d: sums: %+v; %d bytes there, %d go", seed, d, total, ofRuns)
		}
		if p.BudgetBytes > 0 && d.LeftBytes > p.BudgetBytes { // then nothing is left that may go
			for _, r := range in.Runs {
				for _, kind := range []Kind{Artifacts, Output} {
					if n := r.Bytes[kind]; n > 0 && !r.Held && !r.Open && !seen[Removal{Kind: kind, ID: r.ID}] {
						t.Errorf("seed %d: beyond the budget, and %s of %s stays", seed, kind, r.ID)
					}
				}
			}
		}
	}
}

// anything is any inventory and policy, small so that everything meets everything.
func anything(rng *rand.Rand) (in Inventory, p Policy) {
	digest := func() string { return fmt.Sprintf("sha256:%d", rng.IntN(6)) }
	age := func() time.Duration { return time.Duration(rng.IntN(5)) * day }
	for i := range rng.IntN(8) {
		r := Run{ID: fmt.Sprint("r", i), At: ago(age()), Held: rng.IntN(3) == 0, Open: rng.IntN(4) == 0, Image: digest(), Bytes: map[Kind]int64{}, Gone: map[Kind]bool{}}
		for _, kind := range []Kind{Artifacts, Output, Record} {
			if rng.IntN(3) > 0 {
				r.Bytes[kind] = rng.Int64N(100)
			}
			r.Gone[kind] = kind != Record && rng.IntN(5) == 0
		}
		in.Runs = append(in.Runs, r)
	}
	for i := range 6 {
		if rng.IntN(2) == 0 {
			in.Images = append(in.Images, ImageEntry{fmt.Sprintf("sha256:%d", i), slices.Repeat([]string{"tag"}, rng.IntN(2)), rng.Int64N(100), ago(age())})
		}
	}
	for range rng.IntN(2) {
		in.Wanted = append(in.Wanted, digest())
	}
	return in, Policy{Records: age(), Output: age(), Artifacts: age(), Images: age(), BudgetBytes: rng.Int64N(3) * 100}
}
