package broker

const (
	defaultRingBytes = 256 << 10
	entryBytes       = 96 // what an entry costs besides its frame, so that many tiny frames are bounded too
)

// entry is one published frame.
type entry struct {
	frame    []byte // JSON, shared by all viewers, never changed
	output   bool
	channel  channel // of output
	from, to int64   // of output: its range of the channel
	stamp    stamp   // of output
	log      int64   // length of the log when it was published
}

// ring has the newest frames of a stream, bounded in bytes. Frames are numbered from 0. Its zero value needs max.
type ring struct {
	max     int
	bytes   int
	first   uint64  // number of entries[0]
	entries []entry // oldest first

	// start is the offset in each channel from which on the ring has everything: the end of the last frame that was
	// dropped.
	start  [channels]int64
	before [channels]stamp // of that frame
	log    int64           // length of the log when the last frame was published that was dropped
}

// end is the number of the next frame.
func (r *ring) end() uint64 { return r.first + uint64(len(r.entries)) }

func (r *ring) at(number uint64) *entry { return &r.entries[number-r.first] }

// push adds a frame.
func (r *ring) push(e entry) {
	r.entries = append(r.entries, e)
	r.bytes += len(e.frame) + entryBytes
}

// trim drops the oldest frames beyond the limit, up to the first one that is not spare, but never the newest.
func (r *ring) trim(spare func(*entry) bool) {
	drop := 0
	for r.bytes > r.max && drop < len(r.entries)-1 && spare(&r.entries[drop]) {
		e := &r.entries[drop]
		r.bytes -= len(e.frame) + entryBytes
		r.log = e.log
		if e.output {
			r.start[e.channel], r.before[e.channel] = e.to, e.stamp
		}
		*e = entry{} // or the array would hold the frame
		drop++
	}
	r.first += uint64(drop)
	r.entries = r.entries[drop:] // append copies what is left when the array is full
}
