package audit

import "fmt"

// Head is the end of a chain. Two heads with the same Seq and Hash have the same history.
type Head struct {
	Seq  int64  `json:"seq"` // 0: no event yet
	Hash string `json:"hash"`
}

// start is the head of a trail without events.
func start() Head { return Head{Hash: zeroHash} }

// BrokenError says where a chain stops being whole.
type BrokenError struct {
	Seq int64  // the first event that does not fit
	Why string // what is wrong with it
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("audit trail is broken at event %d: %s", e.Seq, e.Why)
}

func brokenf(seq int64, format string, args ...any) error {
	return &BrokenError{seq, fmt.Sprintf(format, args...)}
}

// follow makes e the new head if it is the next event, unchanged.
func (h *Head) follow(e Event) error {
	sum, err := e.sum()
	switch {
	case err != nil:
		return brokenf(e.Seq, "%v", err)
	case e.Seq != h.Seq+1:
		return brokenf(h.Seq+1, "it is missing; the next one is %d", e.Seq)
	case e.PrevHash != h.Hash:
		return brokenf(e.Seq, "it does not continue the one before")
	case e.Hash != sum:
		return brokenf(e.Seq, "its content does not match its hash")
	}
	*h = Head{Seq: e.Seq, Hash: e.Hash}
	return nil
}
