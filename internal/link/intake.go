package link

import "gvisor.dev/gvisor/pkg/buffer"

// maxPacket is the largest packet that IP has, and what there is room for.
const maxPacket = 64 << 10

// What a packet is read into: shape has room for the largest one, and the pieces that a packet fills are its own from then on. So no more than twice
// its length is held for it, however long the stack keeps it; what is smaller than smallPacket is copied, for the same reason.
var shape = []int{4 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10}

const smallPacket = 2 << 10

// intake is the memory of the next packet.
type intake struct {
	views  []*buffer.View
	pieces [][]byte // the same, to be read into
}

func newIntake() *intake {
	in := &intake{views: make([]*buffer.View, len(shape)), pieces: make([][]byte, len(shape))}
	for i := range shape {
		in.renew(i)
	}
	return in
}

func (in *intake) renew(i int) {
	in.views[i] = buffer.NewViewSize(shape[i])
	in.pieces[i] = in.views[i].AsSlice()
}

// take takes the packet of n bytes out that was read.
func (in *intake) take(n int) buffer.Buffer {
	if n <= smallPacket {
		return buffer.MakeWithData(in.pieces[0][:n])
	}
	var packet buffer.Buffer
	for i := 0; n > 0; i++ {
		v := in.views[i]
		v.CapLength(n)
		n -= v.Size()
		_ = packet.Append(v) // copies nothing: the one before is full
		in.renew(i)
	}
	return packet
}

func (in *intake) release() {
	for _, v := range in.views {
		v.Release()
	}
}
