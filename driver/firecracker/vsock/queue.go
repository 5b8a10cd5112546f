package vsock

import (
	"sync/atomic"
	"unsafe"
)

// region is a part of the guest's memory.
type region struct {
	guest, user uint64 // where it begins for the guest, and for the VMM
	bytes       []byte
}

// memory is all of it. Anybody in the guest may write to it at any time.
type memory []region

// at is n bytes at an address of the guest's.
func (m memory) at(address, n uint64) ([]byte, error) {
	for _, r := range m {
		if size := uint64(len(r.bytes)); address >= r.guest && address-r.guest < size && n <= size-(address-r.guest) {
			return r.bytes[address-r.guest:][:n:n], nil
		}
	}
	return nil, broken("%d bytes at %#x are not in its memory", n, address)
}

// atUser is n bytes at an address of the VMM's, which must be a multiple of align.
func (m memory) atUser(address, n, align uint64) ([]byte, error) {
	for _, r := range m {
		if size := uint64(len(r.bytes)); address >= r.user && address-r.user < size && n <= size-(address-r.user) && (address-r.user)%align == 0 {
			return r.bytes[address-r.user:][:n:n], nil
		}
	}
	return nil, broken("a queue of %d bytes at %#x is not in its memory", n, address)
}

// queue is a split virtqueue, virtio 1.2 section 2.7.
type queue struct {
	size                   uint16 // a power of two
	descriptors            []byte
	available, used        []byte
	next                   uint16 // of the available ring
	addressed, on, running bool
}

// maxQueue is the largest size that there may be, virtio 1.2 section 2.7.
const maxQueue = 32768

const (
	descriptorBytes = 16
	flagNext        = 1
	flagWrite       = 2
	flagIndirect    = 4
)

// place puts the queue where the VMM says.
func (q *queue) place(m memory, descriptors, used, available uint64) (err error) {
	if q.size == 0 {
		return broken("a queue without a size is placed")
	}
	n := uint64(q.size)
	if q.descriptors, err = m.atUser(descriptors, descriptorBytes*n, 16); err != nil {
		return err
	}
	if q.available, err = m.atUser(available, 4+2*n, 4); err != nil { // 2 is enough for virtio, and no guest does it; it is read as a word
		return err
	}
	q.used, err = m.atUser(used, 4+8*n, 4)
	q.addressed = err == nil
	return err
}

// index reads the second half of a ring's first word, its index, before whatever else the ring has.
func index(ring []byte) uint16 {
	return uint16(atomic.LoadUint32((*uint32)(unsafe.Pointer(&ring[0]))) >> 16)
}

// pop takes the next chain of descriptors: its parts that are to be read, or written to, as they are in memory. ok is false if there is none.
func (q *queue) pop(m memory) (head uint16, parts [][]byte, write, ok bool, err error) {
	if !q.on || !q.addressed {
		return 0, nil, false, false, nil
	}
	switch waiting := index(q.available) - q.next; {
	case waiting == 0:
		return 0, nil, false, false, nil
	case waiting > q.size:
		return 0, nil, false, false, broken("more is available than its queue has room for")
	}
	head = le.Uint16(q.available[4+2*int(q.next%q.size):])
	q.next++
	total := uint64(0)
	for at, n := head, 0; ; n++ {
		if at >= q.size || n >= int(q.size) {
			return 0, nil, false, false, broken("a chain of descriptors leads nowhere")
		}
		var d [descriptorBytes]byte
		copy(d[:], q.descriptors[descriptorBytes*int(at):])
		length, flags := le.Uint32(d[8:]), le.Uint16(d[12:])
		if flags&flagIndirect != 0 || n > 0 && (flags&flagWrite != 0) != write {
			return 0, nil, false, false, broken("a descriptor that was not offered")
		}
		write = flags&flagWrite != 0
		part, err := m.at(le.Uint64(d[:]), uint64(length))
		if err != nil {
			return 0, nil, false, false, err
		}
		if total += uint64(length); total > maxPacket+headerBytes {
			return 0, nil, false, false, broken("a packet of %d bytes", total)
		}
		parts = append(parts, part)
		if flags&flagNext == 0 {
			return head, parts, write, true, nil
		}
		at = le.Uint16(d[14:])
	}
}

// push gives a chain back, of which n bytes were written.
func (q *queue) push(head uint16, n int) {
	word := (*uint32)(unsafe.Pointer(&q.used[0]))
	i := uint16(atomic.LoadUint32(word) >> 16)
	at := 4 + 8*int(i%q.size)
	le.PutUint32(q.used[at:], uint32(head))
	le.PutUint32(q.used[at+4:], uint32(n))
	atomic.StoreUint32(word, uint32(i+1)<<16) // the flags of this half are ours, and none
}
