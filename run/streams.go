package run

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/silk-sandbox/silk/internal/pipe"
	"github.com/silk-sandbox/silk/internal/pty"
)

const (
	pipeBytes  = 1 << 20                // the largest that Linux allows an ordinary user by default: pipe(7)
	readBytes  = 256 << 10              // of one read, which is one frame at most
	drainIdle  = 200 * time.Millisecond // DESIGN 8: how long output is awaited when the sandbox is gone
	drainBytes = 4 * pipeBytes          // nobody can write any more, so at most what a pipe holds is left
)

// readBuffers saves a busy engine from clearing half a megabyte for each run.
var readBuffers = sync.Pool{New: func() any { return new([readBytes]byte) }}

// streams is the output of one run on its way from the sandbox to its caller and its keepers.
type streams struct {
	onFrame func(Frame)

	mu     sync.Mutex
	seq    uint64
	origin atomic.Pointer[time.Time] // when the program started; nil: it is starting

	gone    atomic.Bool // the sandbox is gone
	sources []*os.File  // our ends, one for each channel
	theirs  []*os.File  // the sandbox's ends
	readers sync.WaitGroup

	stdout, stderr *keeper // a terminal has only stdout
	first          func()  // called once at the first byte
	once           sync.Once
}

// openPipes makes a pipe for each channel and begins to read.
func (s *streams) openPipes() (stdout, stderr *os.File, err error) {
	for _, c := range []struct {
		name string
		keep *keeper
		w    **os.File
	}{{"stdout", s.stdout, &stdout}, {"stderr", s.stderr, &stderr}} {
		var r *os.File
		if r, *c.w, err = pipe.New(pipeBytes); err != nil {
			return nil, nil, err
		}
		s.sources, s.theirs = append(s.sources, r), append(s.theirs, *c.w)
		s.readers.Go(func() { s.read(r, c.name, c.keep) })
	}
	return stdout, stderr, nil
}

// openTerminal makes a terminal of the given size and begins to read its main side.
func (s *streams) openTerminal(size Size) (terminal, replica *os.File, err error) {
	terminal, replica, err = pty.Open()
	if err != nil {
		return nil, nil, err
	}
	s.sources, s.theirs = append(s.sources, terminal), append(s.theirs, replica)
	if size != (Size{}) {
		if err := pty.Resize(terminal, size.Columns, size.Rows); err != nil {
			return nil, nil, err
		}
	}
	s.readers.Go(func() { s.read(terminal, "stdout", s.stdout) })
	return terminal, replica, nil
}

// started says that the sandbox has its own copies of the descriptors and that its program runs from now on.
func (s *streams) started(now time.Time) {
	s.origin.Store(&now)
	s.closeTheirs()
}

func (s *streams) closeTheirs() {
	for _, f := range s.theirs {
		f.Close() // a write end without buffered data has no error to lose
	}
	s.theirs = nil
}

// read takes a channel to its end.
func (s *streams) read(r *os.File, channel string, keep *keeper) {
	pooled := readBuffers.Get().(*[readBytes]byte)
	defer readBuffers.Put(pooled)
	buf := pooled[:]
	left := int64(drainBytes)
	for {
		gone := s.gone.Load()
		if gone {
			r.SetReadDeadline(time.Now().Add(drainIdle))
		}
		n, err := r.Read(buf)
		if n > 0 {
			s.emit(channel, keep, buf[:n])
		}
		if gone {
			left -= int64(n)
		}
		if err != nil || left < 0 { // EOF, EIO of a terminal, the deadline
			return
		}
	}
}

// emit gives one piece of output to the caller and to the keeper.
func (s *streams) emit(channel string, keep *keeper, p []byte) {
	if s.first != nil {
		s.once.Do(s.first)
	}
	offset := keep.total
	keep.write(p)
	if s.onFrame == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	f := Frame{Seq: s.seq, Channel: channel, Offset: offset, Data: p}
	if origin := s.origin.Load(); origin != nil {
		f.At = time.Since(*origin)
	}
	s.onFrame(f)
}

// finish waits for the rest of the output of a sandbox that is gone, or never came to be.
func (s *streams) finish() {
	s.closeTheirs()
	s.gone.Store(true)
	for _, r := range s.sources {
		r.SetReadDeadline(time.Now().Add(drainIdle)) // for a Read that waits already
	}
	s.readers.Wait()
	for _, r := range s.sources {
		r.Close() // a read end has no error to lose
	}
}

// input copies the caller's stdin into the sandbox.
type input struct {
	w     *os.File
	keep  io.Writer
	sum   hash.Hash
	bytes int64
	stop  func()
	done  chan struct{}
}

// startInput copies src to w until src or the sandbox ends; then it calls closed. fail is called if src fails. keep gets what was handed
// over.
func startInput(src io.Reader, w *os.File, keep io.Writer, closed func(), fail func(error)) (*input, error) {
	in := &input{w: w, keep: keep, sum: sha256.New(), stop: func() {}, done: make(chan struct{})}
	if f, ok := src.(*os.File); ok {
		r, stop, err := pipe.Interruptible(f)
		switch {
		case err == nil:
			src, in.stop = r, stop
		case !errors.Is(err, errors.ErrUnsupported):
			return nil, err
		}
	}
	go func() {
		defer close(in.done)
		defer closed()
		if err := in.copy(src); err != nil {
			fail(fmt.Errorf("%w: %w", errStdin, err))
		}
	}()
	return in, nil
}

// copy returns an error only if src fails. That the program no longer reads is its own affair.
func (in *input) copy(src io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		m, writeErr := in.w.Write(buf[:n])
		in.sum.Write(buf[:m])
		_, _ = in.keep.Write(buf[:m]) // it fails never
		in.bytes += int64(m)
		switch {
		case writeErr != nil, errors.Is(err, io.EOF), errors.Is(err, fs.ErrClosed):
			return nil
		case err != nil:
			return err
		}
	}
}

// end interrupts the copying and returns how much was handed over and its hash. A source that cannot be interrupted is
// left behind, and what it handed over is unknown: zero and "".
func (in *input) end() (bytes int64, sum string) {
	in.stop()
	in.w.SetWriteDeadline(time.Now()) // for a Write that waits; fails only if w is closed, and then none does
	select {
	case <-in.done:
		return in.bytes, hex.EncodeToString(in.sum.Sum(nil))
	case <-time.After(drainIdle):
		return 0, ""
	}
}
