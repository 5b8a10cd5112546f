package vsock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// guest is a driver of the device, as a kernel has it, with memory of its own.
type guest struct {
	t          *testing.T
	vmm        *net.UnixConn
	memory     []byte
	kick, call [2]*os.File
	ended      chan error
	available  [2]uint16
	used       [2]uint16
	quit       atomic.Bool // whoever waits in vain gives up
}

// Where the guest keeps things in its memory: for each queue its rings, and for each descriptor a buffer.
const (
	queueSize   = 8
	memoryBytes = 1 << 20
	userBase    = 0x7f0000000000
	guestBase   = 0x100000
	bufferBytes = 4096
)

func ringAt(queue, part int) uint64    { return uint64(queue*4096 + part*1024) }
func bufferAt(queue, slot int) uint64  { return uint64(64<<10 + (queue*queueSize+slot)*bufferBytes) }
func (g *guest) word(at uint64) []byte { return g.memory[at:] }

// boot starts a backend and a guest for it. dial answers its calls.
func boot(t *testing.T, seals int, dial func(port uint32) (net.Conn, error)) *guest {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		c, err := net.FileConn(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	g := &guest{t: t, vmm: ends[1], ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { g.ended <- Serve(ctx, ends[0], dial) }()
	t.Cleanup(func() {
		cancel()
		g.vmm.Close()
	})
	memory, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		err = unix.Ftruncate(memory, memoryBytes)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(memory), unix.F_ADD_SEALS, seals)
	}
	if err == nil {
		g.memory, err = unix.Mmap(memory, 0, memoryBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(g.memory) })
	g.say(setFeatures, le.AppendUint64(nil, featureVersion1|featureProtocol))
	table := le.AppendUint64(nil, 1)
	for _, n := range []uint64{guestBase, memoryBytes, userBase, 0} {
		table = le.AppendUint64(table, n)
	}
	g.say(setMemory, table, memory)
	unix.Close(memory)
	for i := range 2 {
		index := func(n uint32) []byte { return le.AppendUint32(le.AppendUint32(nil, uint32(i)), n) }
		g.say(setQueueSize, index(queueSize))
		g.say(setQueueBase, index(0))
		address := index(0)
		for _, at := range []uint64{userBase + ringAt(i, 0), userBase + ringAt(i, 1), userBase + ringAt(i, 2), 0} {
			address = le.AppendUint64(address, at)
		}
		g.say(setQueueAddress, address)
		g.kick[i], g.call[i] = g.event(setQueueKick, i), g.event(setQueueCall, i)
		g.say(setQueueEnable, index(1))
	}
	for slot := range queueSize { // to receive
		g.post(toGuest, slot, bufferAt(0, slot), bufferBytes, flagWrite)
	}
	return g
}

func (g *guest) say(request uint32, body []byte, fds ...int) {
	g.t.Helper()
	b := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, request), flagVersion), uint32(len(body)))
	if _, _, err := g.vmm.WriteMsgUnix(append(b, body...), unix.UnixRights(fds...), nil); err != nil && !errors.Is(err, unix.EPIPE) {
		g.t.Fatal(err)
	}
}

func (g *guest) event(request uint32, queue int) *os.File {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		g.t.Fatal(err)
	}
	g.say(request, le.AppendUint64(nil, uint64(queue)), fd)
	f := os.NewFile(uintptr(fd), "event")
	g.t.Cleanup(func() { f.Close() })
	return f
}

// post makes a descriptor available.
func (g *guest) post(queue, slot int, at uint64, length uint32, flags uint16) {
	d := g.word(ringAt(queue, 0) + uint64(slot)*descriptorBytes)
	le.PutUint64(d, guestBase+at)
	le.PutUint32(d[8:], length)
	le.PutUint16(d[12:], flags)
	ring := g.word(ringAt(queue, 2))
	le.PutUint16(ring[4+2*int(g.available[queue]%queueSize):], uint16(slot))
	g.available[queue]++
	le.PutUint16(ring[2:], g.available[queue])
	g.kick[queue].Write(binary.NativeEndian.AppendUint64(nil, 1))
}

// send gives the backend a packet, and waits until it has taken it.
func (g *guest) send(h header, body string) {
	g.t.Helper()
	h.fromCID, h.toCID, h.kind = CID, HostCID, typeStream
	p := h.packet([]byte(body))
	slot := int(g.used[toHost] % queueSize)
	at := bufferAt(toHost, slot)
	copy(g.word(at), p)
	g.post(toHost, slot, at, uint32(len(p)), 0)
	g.used[toHost]++
	g.wait(toHost)
}

func (g *guest) wait(queue int) {
	g.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); int16(le.Uint16(g.word(ringAt(queue, 1))[2:])-g.used[queue]) < 0; {
		if time.Now().After(deadline) {
			g.t.Fatalf("queue %d: nothing was used", queue)
		}
		if g.quit.Load() {
			runtime.Goexit()
		}
		unix.Poll([]unix.PollFd{{Fd: int32(g.call[queue].Fd()), Events: unix.POLLIN}}, 1)
	}
}

// receive takes the next packet, and gives its buffer back.
func (g *guest) receive() (header, string) {
	g.t.Helper()
	g.used[toGuest]++
	g.wait(toGuest)
	used := g.word(ringAt(toGuest, 1) + 4 + 8*uint64((g.used[toGuest]-1)%queueSize))
	slot, n := int(le.Uint32(used)), le.Uint32(used[4:])
	h, body, err := parse(bytes.Clone(g.word(bufferAt(toGuest, slot))[:n]))
	if err != nil {
		g.t.Fatal(err)
	}
	g.post(toGuest, slot, bufferAt(toGuest, slot), bufferBytes, flagWrite)
	return h, string(body)
}

func (g *guest) expect(op uint16) (header, string) {
	g.t.Helper()
	h, body := g.receive()
	if h.op != op {
		g.t.Fatalf("received operation %d, want %d", h.op, op)
	}
	return h, body
}

// answer is a dial that has one port, whose other end it gives to a channel.
func answer(port uint32) (func(uint32) (net.Conn, error), <-chan net.Conn) {
	got := make(chan net.Conn, maxConns)
	return func(p uint32) (net.Conn, error) {
		if p != port {
			return nil, unix.ECONNREFUSED
		}
		a, b := net.Pipe()
		got <- b
		return a, nil
	}, got
}

func TestStream(t *testing.T) {
	dial, calls := answer(7)
	g := boot(t, unix.F_SEAL_SHRINK, dial)
	at := header{fromPort: 1000, toPort: 7, space: 64 << 10}
	as := func(op uint16) header { h := at; h.op = op; return h }

	wrong := as(opRequest)
	wrong.toPort = 8
	g.send(wrong, "")
	g.expect(opReset)

	g.send(as(opRequest), "")
	g.expect(opResponse)
	host := <-calls
	g.send(as(opData), "to the host")
	got := make([]byte, len("to the host"))
	if _, err := io.ReadFull(host, got); err != nil || string(got) != "to the host" {
		t.Errorf("the host received %q, %v", got, err)
	}
	long := strings.Repeat("0123456789", 1000)
	go func() {
		io.WriteString(host, long)
		host.Close()
	}()
	var arrived string
	for len(arrived) < len(long) {
		_, body := g.expect(opData)
		arrived += body
	}
	if arrived != long {
		t.Error("the guest received something else")
	}
	if h, _ := g.expect(opShutdown); h.flags != 3 {
		t.Errorf("shutdown with flags %d", h.flags)
	}
	g.send(as(opReset), "")
	g.send(as(opData), "after the end")
	g.expect(opReset)
}

// The host sends no more than the guest has room for.
func TestGuestsRoom(t *testing.T) {
	dial, calls := answer(7)
	g := boot(t, unix.F_SEAL_SHRINK, dial)
	at := header{fromPort: 1000, toPort: 7, space: 5, op: opRequest}
	g.send(at, "")
	g.expect(opResponse)
	host := <-calls
	go io.WriteString(host, "123456789")
	if _, body := g.expect(opData); body != "12345" {
		t.Errorf("received %q into a room of 5", body)
	}
	at.op, at.forwarded = opCredit, 5
	g.send(at, "")
	if _, body := g.expect(opData); body != "6789" {
		t.Errorf("received %q when there was room again", body)
	}
}

func TestEnemies(t *testing.T) {
	request := header{fromPort: 1, toPort: 7, space: 1 << 10, op: opRequest}
	for _, test := range []struct {
		name  string
		seals int
		do    func(g *guest)
		want  string
	}{
		{"memory that could shrink", unix.F_SEAL_GROW, func(*guest) {}, "could shrink"},
		{"a descriptor outside its memory", unix.F_SEAL_SHRINK, func(g *guest) { g.post(toHost, 0, memoryBytes, 44, 0) }, "not in its memory"},
		{"a descriptor at the end of its memory", unix.F_SEAL_SHRINK, func(g *guest) { g.post(toHost, 0, memoryBytes-43, 44, 0) }, "not in its memory"},
		{"a descriptor that was not offered", unix.F_SEAL_SHRINK, func(g *guest) { g.post(toHost, 0, 0, 44, flagIndirect) }, "not offered"},
		{"a chain that bites its tail", unix.F_SEAL_SHRINK, func(g *guest) { g.post(toHost, 0, bufferAt(1, 0), 44, flagNext) }, "leads nowhere"},
		{"a packet to be written to", unix.F_SEAL_SHRINK, func(g *guest) { g.post(toHost, 0, bufferAt(1, 0), 44, flagWrite) }, "to be written to"},
		{"a packet that is too long", unix.F_SEAL_SHRINK, func(g *guest) { g.post(toHost, 0, 0, maxPacket+headerBytes+1, 0) }, "a packet of"},
		{"a packet without a header", unix.F_SEAL_SHRINK, func(g *guest) { g.post(toHost, 0, bufferAt(1, 0), 43, 0) }, "a packet of 43 bytes"},
		{"more than there are", unix.F_SEAL_SHRINK, func(g *guest) {
			g.available[toHost] = 100
			g.post(toHost, 0, bufferAt(1, 0), 44, 0)
		}, "has room for"},
		{"a packet that lies about its length", unix.F_SEAL_SHRINK, func(g *guest) {
			p := request.packet(nil)
			le.PutUint32(p[24:], 1)
			copy(g.word(bufferAt(1, 0)), p)
			g.post(toHost, 0, bufferAt(1, 0), uint32(len(p)), 0)
		}, "says that it has"},
		{"more than the host's room", unix.F_SEAL_SHRINK, func(g *guest) {
			g.send(request, "")
			h := request
			h.op = opData
			for range window/1024 + 2 { // one piece may be on its way
				g.send(h, strings.Repeat("x", 1024))
			}
		}, "more than it may"},
		{"it has read what was not sent", unix.F_SEAL_SHRINK, func(g *guest) {
			g.send(request, "")
			h := request
			h.op, h.forwarded = opCredit, 1
			g.send(h, "")
		}, "read more than was sent"},
		{"it asks again and again and listens never", unix.F_SEAL_SHRINK, func(g *guest) {
			h := request
			h.toPort = 8
			for range maxReplies + 2*queueSize {
				g.send(h, "")
			}
		}, "does not take"},
		{"a queue that is none", unix.F_SEAL_SHRINK, func(g *guest) {
			g.say(setQueueSize, le.AppendUint32(le.AppendUint32(nil, queues), 8))
		}, "no queue"},
		{"a queue outside its memory", unix.F_SEAL_SHRINK, func(g *guest) {
			b := le.AppendUint64(nil, 1)
			for range 4 {
				b = le.AppendUint64(b, userBase+memoryBytes)
			}
			g.say(setQueueAddress, b)
		}, "not in its memory"},
		{"a message that is too short", unix.F_SEAL_SHRINK, func(g *guest) { g.say(setQueueAddress, make([]byte, 8)) }, "message 9 of 8 bytes"},
		{"a message that was not offered", unix.F_SEAL_SHRINK, func(g *guest) { g.say(99, nil) }, "message 99"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dial, _ := answer(7)
			g := boot(t, test.seals, dial)
			done := make(chan struct{})
			go func() {
				defer close(done)
				test.do(g)
			}()
			select {
			case err := <-g.ended:
				if !errors.Is(err, ErrGuest) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
			case <-time.After(20 * time.Second):
				t.Error("nothing came of it")
			}
			g.quit.Store(true)
			<-done
		})
	}
}

// FuzzExchange has a guest that sends any packets.
func FuzzExchange(f *testing.F) {
	open := header{fromCID: CID, toCID: HostCID, fromPort: 1, toPort: 7, kind: typeStream, op: opRequest, space: 100}
	f.Add(open.packet(nil))
	data := open
	data.op = opData
	f.Add(append(open.packet(nil), data.packet([]byte("some bytes"))...))
	end := open
	end.op, end.flags = opShutdown, 3
	f.Add(append(open.packet(nil), end.packet(nil)...))
	f.Fuzz(func(t *testing.T, sent []byte) {
		x := newExchange(func(uint32) (net.Conn, error) {
			a, b := net.Pipe()
			go io.Copy(b, io.LimitReader(b, 1<<20))
			return a, nil
		})
		taken := make(chan struct{})
		go func() {
			defer close(taken)
			for {
				p, ok := x.next()
				if !ok {
					return
				}
				if len(p) < headerBytes || len(p) > headerBytes+chunk {
					t.Errorf("a packet of %d bytes for the guest", len(p))
				}
			}
		}()
		for len(sent) >= headerBytes { // packets one after the other, as long as they say
			n := headerBytes + int(min(le.Uint32(sent[24:]), uint32(len(sent)-headerBytes)))
			if x.take(sent[:n]) != nil {
				break
			}
			sent = sent[n:]
			x.mu.Lock()
			for _, c := range x.conns {
				if len(c.toHost) > window {
					t.Errorf("%d bytes wait for the host", len(c.toHost))
				}
			}
			if len(x.conns) > maxConns {
				t.Errorf("%d connections", len(x.conns))
			}
			x.mu.Unlock()
		}
		x.close()
		x.mu.Lock()
		x.changed.Broadcast()
		x.mu.Unlock()
		<-taken
	})
}

// FuzzQueue has a guest whose memory is anything, and a VMM that puts queues anywhere.
func FuzzQueue(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint16(8), uint64(0), uint64(64), uint64(128))
	f.Add(make([]byte, 4096), uint16(256), uint64(0), uint64(1024), uint64(2048))
	f.Fuzz(func(t *testing.T, content []byte, size uint16, descriptors, used, available uint64) {
		bytes := make([]byte, (len(content)+7)&^7) // as aligned as a page
		copy(bytes, content)
		if len(bytes) == 0 {
			return
		}
		m := memory{{guest: 0, user: 0, bytes: bytes}}
		q := queue{size: size, on: true}
		if q.place(m, descriptors, used, available) != nil {
			return
		}
		for range 100 {
			head, parts, _, ok, err := q.pop(m)
			if err != nil || !ok {
				return
			}
			n := 0
			for _, p := range parts {
				n += len(p)
			}
			if n > maxPacket+headerBytes {
				t.Errorf("a chain of %d bytes", n)
			}
			q.push(head, n)
		}
	})
}

// FuzzMessage has a VMM that says anything.
func FuzzMessage(f *testing.F) {
	f.Add(uint32(getFeatures), []byte(nil))
	f.Add(uint32(setMemory), make([]byte, 40))
	f.Add(uint32(getConfig), make([]byte, 20))
	f.Add(uint32(setQueueAddress), make([]byte, 40))
	f.Fuzz(func(t *testing.T, request uint32, body []byte) {
		if len(body) > maxMessage {
			return
		}
		b := &backend{}
		b.posted = newExchange(nil).changed
		answer, err := b.do(request, body, nil)
		if err == nil && len(answer) > maxMessage {
			t.Errorf("an answer of %d bytes", len(answer))
		}
	})
}

// reply waits until everything that was said before has been done.
func (g *guest) reply() {
	g.t.Helper()
	g.say(getFeatures, nil)
	if _, err := io.ReadFull(g.vmm, make([]byte, messageHead+8)); err != nil {
		g.t.Fatal(err)
	}
}

func (g *guest) end() {
	g.t.Helper()
	g.vmm.Close()
	select {
	case <-g.ended:
	case <-time.After(10 * time.Second):
		g.t.Fatal("the device does not end")
	}
}

func pipe(t *testing.T) (r, w int) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]) })
	return fds[0], fds[1]
}

// A VMM that wants to be called where nothing is taken any more keeps nobody from anything, least of all from the end.
func TestCallsThatNobodyTakes(t *testing.T) {
	dial, _ := answer(7)
	g := boot(t, unix.F_SEAL_SHRINK, dial)
	_, w := pipe(t)
	for {
		if _, err := unix.Write(w, make([]byte, 4096)); err != nil {
			break
		}
	}
	g.say(setQueueCall, le.AppendUint64(nil, toHost), w)
	unix.Close(w)
	g.reply()
	g.send(header{fromPort: 1, toPort: 8, op: opRequest}, "")
	g.send(header{fromPort: 1, toPort: 8, op: opRequest}, "")
	g.end()
}

// Descriptors of a message that is refused are not kept.
func TestDescriptorsAreClosed(t *testing.T) {
	dial, _ := answer(7)
	g := boot(t, unix.F_SEAL_SHRINK, dial)
	path, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0) // whose flags cannot be set
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(path)
	r, w := pipe(t)
	g.say(setQueueError, le.AppendUint64(nil, 0), path, w)
	unix.Close(w)
	g.end()
	if n, err := unix.Read(r, make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the other end is still open: %d, %v", n, err)
	}
}
