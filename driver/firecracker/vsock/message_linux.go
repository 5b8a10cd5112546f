package vsock

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

// Requests of vhost-user, as its documentation numbers them.
const (
	getFeatures         = 1
	setFeatures         = 2
	setOwner            = 3
	setMemory           = 5
	setQueueSize        = 8
	setQueueAddress     = 9
	setQueueBase        = 10
	getQueueBase        = 11
	setQueueKick        = 12
	setQueueCall        = 13
	setQueueError       = 14
	getProtocolFeatures = 15
	setProtocolFeatures = 16
	getQueueCount       = 17
	setQueueEnable      = 18
	getConfig           = 24
	setConfig           = 25
)

// Features that are offered.
const (
	featureVersion1 = 1 << 32 // virtio 1.2 section 6
	featureProtocol = 1 << 30
	protocolReply   = 1 << 3 // REPLY_ACK
	protocolConfig  = 1 << 9 // CONFIG: the guest's address
)

const (
	messageHead    = 12
	maxMessage     = 4096
	maxDescriptors = 8
	flagVersion    = 1
	flagReply      = 4
	flagNeedReply  = 8
	noDescriptor   = 1 << 8 // in the number of a queue
)

// message receives one of the VMM's and does what it says. io.EOF: the VMM is gone.
func (b *backend) message() error {
	head, oob := make([]byte, messageHead), make([]byte, unix.CmsgSpace(4*maxDescriptors))
	n, oobn, flags, _, err := b.vmm.ReadMsgUnix(head, oob)
	if n == 0 && err == nil {
		err = io.EOF
	}
	if err != nil {
		return err
	}
	files, err := descriptors(oob[:oobn])
	defer func() {
		for _, f := range files {
			if f != nil {
				_ = f.Close()
			}
		}
	}()
	if err != nil {
		return err
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return broken("a message with more than %d descriptors", maxDescriptors)
	}
	if _, err := io.ReadFull(b.vmm, head[n:]); err != nil {
		return err
	}
	request, how, size := le.Uint32(head), le.Uint32(head[4:]), le.Uint32(head[8:])
	if size > maxMessage || how&3 != flagVersion {
		return broken("message %d of %d bytes", request, size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(b.vmm, body); err != nil {
		return err
	}
	answer, err := b.do(request, body, files)
	if err != nil {
		return err
	}
	if answer == nil && how&flagNeedReply != 0 {
		answer = le.AppendUint64(nil, 0)
	}
	if answer == nil {
		return nil
	}
	out := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, request), flagVersion|flagReply), uint32(len(answer)))
	_, err = b.vmm.Write(append(out, answer...))
	return err
}

// descriptors are those that came with a message.
func descriptors(oob []byte) (files []*os.File, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("read a message of the VMM: %w", err)
	}
	for _, m := range messages {
		fds, notRights := unix.ParseUnixRights(&m)
		if notRights != nil {
			continue
		}
		for _, fd := range fds { // all of them: the caller closes what it has
			unix.CloseOnExec(fd)
			err = errors.Join(err, unix.SetNonblock(fd, true)) // so that Close ends a Read
			files = append(files, os.NewFile(uintptr(fd), "vhost-user"))
		}
	}
	return files, err
}

// do does what a message says. Files that it keeps it takes out of the list.
func (b *backend) do(request uint32, body []byte, files []*os.File) (answer []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	need := map[uint32]int{
		setFeatures: 8, setProtocolFeatures: 8, setMemory: 8, setQueueSize: 8, setQueueAddress: 40, setQueueBase: 8, getQueueBase: 8,
		setQueueKick: 8, setQueueCall: 8, setQueueError: 8, setQueueEnable: 8, getConfig: 12,
	}
	if len(body) < need[request] {
		return nil, broken("message %d of %d bytes", request, len(body))
	}
	var q *queue
	i := 0
	switch request {
	case setQueueSize, setQueueAddress, setQueueBase, getQueueBase, setQueueKick, setQueueCall, setQueueError, setQueueEnable:
		if i = int(le.Uint32(body) & 0xff); i >= queues {
			return nil, broken("there is no queue %d", i)
		}
		q = &b.queues[i]
	}
	switch request {
	case getFeatures:
		return le.AppendUint64(nil, featureVersion1|featureProtocol), nil
	case getProtocolFeatures:
		return le.AppendUint64(nil, protocolReply|protocolConfig), nil
	case getQueueCount:
		return le.AppendUint64(nil, queues), nil
	case getConfig: // offset, size, flags, and as many bytes
		at, n := le.Uint32(body), le.Uint32(body[4:])
		if config := le.AppendUint64(nil, CID); at <= 8 && n <= 8-at && int(n) <= len(body)-12 {
			copy(body[12:], config[at:at+n])
			return body, nil
		}
		return nil, broken("%d bytes of its configuration at %d", n, at)
	case setFeatures:
		if le.Uint64(body)&^(featureVersion1|featureProtocol) != 0 {
			return nil, broken("features %#x, which were not offered", le.Uint64(body))
		}
	case setMemory:
		return nil, b.mapMemory(body, files)
	case setQueueSize:
		n := le.Uint32(body[4:])
		if n == 0 || n > maxQueue || bits.OnesCount32(n) != 1 || q.on {
			return nil, broken("a queue of %d", n)
		}
		q.size, q.addressed = uint16(n), false
	case setQueueBase:
		q.next = uint16(le.Uint32(body[4:]))
	case setQueueAddress:
		return nil, q.place(b.memory, le.Uint64(body[8:]), le.Uint64(body[16:]), le.Uint64(body[24:]))
	case getQueueBase: // it stops
		q.on = false
		return le.AppendUint32(le.AppendUint32(nil, uint32(i)), uint32(q.next)), nil
	case setQueueKick:
		return nil, b.setKick(i, body, files)
	case setQueueCall:
		if b.calls[i] != nil {
			_ = b.calls[i].Close()
			b.calls[i] = nil
		}
		if len(files) == 1 {
			b.calls[i], files[0] = files[0], nil
		}
	case setQueueEnable:
		q.on = le.Uint32(body[4:]) == 1
		b.posted.Broadcast()
	case setOwner, setProtocolFeatures, setQueueError, setConfig:
	default:
		return nil, broken("message %d, which was not offered", request)
	}
	return nil, nil
}

// setKick begins to listen to what the guest says about a queue. b.mu is held.
func (b *backend) setKick(i int, body []byte, files []*os.File) error {
	if le.Uint64(body)&noDescriptor != 0 || len(files) != 1 {
		return broken("a queue that would have to be looked at all the time")
	}
	if b.kicks[i] != nil {
		_ = b.kicks[i].Close()
	}
	f := files[0]
	b.kicks[i], files[0] = f, nil
	b.queues[i].on = true
	if i != toGuest && i != toHost {
		return nil
	}
	b.running.Go(func() { b.kicked(i, f) })
	return nil
}

// maxMemory bounds what is mapped: no run has more.
const maxMemory = 1 << 40

// mapMemory maps what the VMM says is the machine's memory. b.mu is held.
func (b *backend) mapMemory(body []byte, files []*os.File) error {
	n := int(le.Uint32(body))
	if n > len(files) || len(body) < 8+32*n {
		return broken("memory in %d parts, with %d descriptors", n, len(files))
	}
	for i := range b.queues {
		if b.queues[i].on && b.queues[i].addressed && len(b.memory) > 0 {
			return broken("its memory changes while it is in use")
		}
	}
	b.unmap()
	for i := range n {
		p := body[8+32*i:]
		size, offset := le.Uint64(p[8:]), le.Uint64(p[24:])
		fd := int(files[i].Fd())
		seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
			return broken("memory that could shrink") // and end this process with SIGBUS
		}
		var s unix.Stat_t
		if err := unix.Fstat(fd, &s); err != nil {
			return fmt.Errorf("look at the machine's memory: %w", err)
		}
		if size == 0 || size > maxMemory || offset > uint64(s.Size) || size > uint64(s.Size)-offset || offset%uint64(os.Getpagesize()) != 0 {
			return broken("%d bytes of memory at %d of %d", size, offset, s.Size)
		}
		m, err := unix.Mmap(fd, int64(offset), int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("map the machine's memory: %w", err)
		}
		b.memory = append(b.memory, region{guest: le.Uint64(p), user: le.Uint64(p[16:]), bytes: m})
	}
	return nil
}
