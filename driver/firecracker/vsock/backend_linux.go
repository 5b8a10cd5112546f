package vsock

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Serve is the device of the machine whose VMM is at the other end of a socket, which it closes. It returns when the VMM goes, ctx is done or
// somebody breaks the rules, and then every stream has ended. A call of the guest's to a port is answered by dial, which must not wait.
func Serve(ctx context.Context, vmm *net.UnixConn, dial func(port uint32) (net.Conn, error)) (err error) {
	defer stopOn(ctx, vmm)()
	b := &backend{vmm: vmm, exchange: newExchange(dial)}
	b.posted = sync.NewCond(&b.mu)
	b.running.Go(b.deliver)
	for err == nil {
		err = b.message()
	}
	b.fail(err)
	b.exchange.close()
	b.running.Wait()
	b.release()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if errors.Is(b.failed, io.EOF) {
		return nil
	}
	return b.failed
}

// Queues of the device, virtio 1.2 section 5.10.2; the third, of events, is unused.
const (
	toGuest = 0
	toHost  = 1
	queues  = 3
)

// backend is one machine's device.
type backend struct {
	vmm      *net.UnixConn
	exchange *exchange
	running  sync.WaitGroup

	mu     sync.Mutex
	posted *sync.Cond // the guest has buffers, or it is over
	memory memory
	queues [queues]queue
	kicks  [queues]*os.File
	calls  [queues]*os.File
	failed error
}

// fail ends the backend, with the first error that there was.
func (b *backend) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = err
	}
	b.posted.Broadcast()
	_ = b.vmm.Close() // message ends
	for _, f := range b.kicks {
		if f != nil {
			_ = f.Close()
		}
	}
}

// release gives memory and descriptors back. Nobody works any more.
func (b *backend) release() {
	b.unmap()
	for _, f := range b.calls {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (b *backend) unmap() {
	for _, r := range b.memory {
		_ = unix.Munmap(r.bytes)
	}
	b.memory = nil
	for i := range b.queues {
		b.queues[i].addressed = false
	}
}

// kicked takes what the guest has put into a queue whenever it says so.
func (b *backend) kicked(i int, f *os.File) {
	count := make([]byte, 8)
	for {
		if i == toGuest {
			b.mu.Lock()
			b.posted.Broadcast()
			b.mu.Unlock()
		} else if err := b.collect(); err != nil {
			b.fail(err)
			return
		}
		if _, err := f.Read(count); err != nil { // closed
			return
		}
	}
}

// collect takes the guest's packets.
func (b *backend) collect() error {
	for {
		packet, ok, err := b.pick()
		if err != nil || !ok {
			return err
		}
		if err := b.exchange.take(packet); err != nil {
			return err
		}
	}
}

// pick copies one packet out of the guest's memory.
func (b *backend) pick() (packet []byte, ok bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed != nil {
		return nil, false, nil
	}
	q := &b.queues[toHost]
	head, parts, write, ok, err := q.pop(b.memory)
	if err != nil || !ok {
		return nil, false, err
	}
	if write {
		return nil, false, broken("a packet that is to be written to")
	}
	for _, p := range parts {
		packet = append(packet, p...)
	}
	q.push(head, 0)
	b.call(toHost)
	return packet, true, nil
}

// deliver puts packets where the guest has room for them.
func (b *backend) deliver() {
	for {
		packet, ok := b.exchange.next()
		if !ok {
			return
		}
		if err := b.put(packet); err != nil {
			b.fail(err)
			return
		}
	}
}

// put waits for a buffer of the guest's.
func (b *backend) put(packet []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := &b.queues[toGuest]
	for {
		if b.failed != nil {
			return b.failed
		}
		head, parts, write, ok, err := q.pop(b.memory)
		if err != nil {
			return err
		}
		if !ok {
			b.posted.Wait()
			continue
		}
		left := packet
		for _, p := range parts {
			left = left[copy(p, left):]
		}
		if !write || len(left) > 0 {
			return broken("its buffer is too small for a packet of %d bytes", len(packet))
		}
		q.push(head, len(packet))
		b.call(toGuest)
		return nil
	}
}

// call lets the guest know, and does not wait. b.mu is held.
func (b *backend) call(i int) {
	if b.calls[i] == nil {
		return
	}
	raw, err := b.calls[i].SyscallConn()
	if err != nil { // it is closed
		return
	}
	_ = raw.Write(func(fd uintptr) bool {
		_, _ = unix.Write(int(fd), []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an eventfd takes it, or has so many that one more says nothing
		return true
	})
}
