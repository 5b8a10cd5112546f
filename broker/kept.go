package broker

import "github.com/silk-sandbox/silk/api"

const keptDisplays = 64

// keptFrame is a frame that is not output and that every viewer should see, however late it comes or slow it is.
type keptFrame struct {
	kind   api.FrameType
	number uint64 // in the ring
	log    int64  // length of the log when it was published
	frame  []byte
}

// kept are those frames in order of publication: the last one of each kind that says how the run stands, and the last
// keptDisplays of display. Frames of egress are many and are in the audit trail; they are only in the ring.
type kept []keptFrame

// put takes a frame and forgets the ones that it makes obsolete.
func (k *kept) put(f keptFrame) {
	displays := 0
	frames := (*k)[:0:0] // a viewer may hold the old slice
	for _, old := range *k {
		if !obsolete(old.kind, f.kind) {
			frames = append(frames, old)
			if old.kind == api.FrameDisplay {
				displays++
			}
		}
	}
	if f.kind == api.FrameDisplay && displays == keptDisplays {
		for i, old := range frames {
			if old.kind == api.FrameDisplay {
				frames = append(frames[:i], frames[i+1:]...)
				break
			}
		}
	}
	if f.kind != api.FrameEgress {
		frames = append(frames, f)
	}
	*k = frames
}

// obsolete says whether a frame is of no interest any more after a later one.
func obsolete(old, later api.FrameType) bool {
	switch later {
	case api.FrameDisplay, api.FrameEgress:
		return false
	case api.FrameStarted: // what was said of the way to the start
		return old == later || old == api.FrameQueued || old == api.FrameProgress
	default:
		return old == later
	}
}

// after is the first kept frame whose number is at least number.
func (k kept) after(number uint64) (keptFrame, bool) {
	for _, f := range k {
		if f.number >= number {
			return f, true
		}
	}
	return keptFrame{}, false
}
