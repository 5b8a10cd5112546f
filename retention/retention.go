// Package retention says what of a state directory goes when, and takes it away: records of runs, what programs printed, their
// artifacts, and images.
//
// [Decide] is the one place in which that is decided, and pure: an [Inventory] and the owner's [Policy] in, the removals with their
// reasons out. A [Keeper] takes the inventory, asks Decide and carries out what it says; a dry run stops before the last step.
//
// A run under hold ([Place]) stays with all that its record names: output, artifacts, hand-offs, its image, and the audit events from its
// first one on. So does whatever a run needs that has not ended. Decide never names any of it; and where it is removed that is asked
// again, in the transaction or under the lock in which it goes, since a hold may be placed meanwhile. The database refuses to delete
// rows of a held run, whoever asks.
//
// What goes is first said to be gone, in the database and the audit trail, and that is on the disk before the first file is removed: who is
// killed half-way leaves files that the next Keeper removes. Old audit events are package audit's, hand-offs package handoff's; both
// know holds.
package retention

import (
	"cmp"
	"time"
)

// Policy is what the owner wants to keep. Its zero value keeps all but old artifacts and images without a tag.
type Policy struct {
	// Records is the age at which a record goes, with its output and artifacts. 0: never. The audit trail has its hash.
	Records time.Duration

	// Output is the age at which goes what a program printed. 0: with its record.
	Output time.Duration

	// Artifacts is the age at which the copies of a run's artifacts go. 0: 30 days.
	Artifacts time.Duration

	// Images is how long an image with a tag stays that nothing has used. 0: for good.
	Images time.Duration

	// BudgetBytes bounds what runs have left: records, output and artifacts, not images. While there is more, artifacts and output go,
	// those of the oldest run first. 0: no bound.
	BudgetBytes int64
}

const defaultArtifacts = 30 * 24 * time.Hour

func (p Policy) withDefaults() Policy {
	p.Artifacts = cmp.Or(p.Artifacts, defaultArtifacts)
	return p
}

// Kind is one kind of what can be removed.
type Kind string

// The kinds. Their order is that in which a run's are given up for the budget.
const (
	Artifacts Kind = "artifacts" // of a run
	Output    Kind = "output"    // of a run
	Record    Kind = "record"    // of a run, with the two above
	Image     Kind = "image"
)

// Removal is one thing that goes.
type Removal struct {
	Kind  Kind   `json:"kind"`
	ID    string `json:"id"` // of the run, or the digest of the image
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
}

// Inventory is what there is.
type Inventory struct {
	Runs   []Run
	Images []ImageEntry
	Wanted []string // digests of images that runs need which have no record yet: they wait
}

// Run is one run with what it has left.
type Run struct {
	ID    string
	At    time.Time // when it ended, or when it began if only that is known
	Open  bool      // it has not ended
	Held  bool
	Image string // digest; "": none

	// Bytes of what is there, by kind.
	Bytes map[Kind]int64

	// Gone are kinds that were said to be gone, and of which something is still there.
	Gone map[Kind]bool
}

// fixed says whether nothing of the run may go.
func (r Run) fixed() bool { return r.Open || r.Held }

// ImageEntry is one image of the store that can be written.
type ImageEntry struct {
	Digest string
	Tags   []string
	Bytes  int64
	Used   time.Time // when it was stored, or a run used it last
}

// Decision is what goes, and what that leaves.
type Decision struct {
	Removals  []Removal
	Bytes     int64 // of Removals
	LeftBytes int64 // of what runs have left, after it
	HeldBytes int64 // of that, what a hold keeps
	OverBytes int64 // beyond the budget though all went that may; 0: none
}
