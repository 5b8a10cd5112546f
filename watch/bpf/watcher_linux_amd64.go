package bpf

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// Watcher is one set of loaded programs, for any number of sandboxes. It is safe for concurrent use. Close it.
type Watcher struct {
	config Config
	cookie uint64
	kernel silkObjects
	links  []link.Link
	ring   *ringbuf.Reader // of alarms

	list       *link.Iter // of tagged tasks
	adopter    *link.Iter
	adopting   sync.Mutex // over the variables of adopter
	threadFlag int        // pidfdThread; a test has another
	tagOnly    bool       // a test: guests get no control group

	checking sync.Mutex

	mu     sync.Mutex
	scopes map[uint32]*Scope // by slot
	free   []uint32          // slots, the one that has been free for longest first
	next   uint32            // generation
	groups uint32
	dooms  uint32
	err    error // why it has stopped

	done    chan struct{} // closed when it has stopped
	readers sync.WaitGroup
}

// Open loads the programs and attaches them, which takes about a tenth of a second of processor time: keep the watcher.
// It returns when a call of our own has been seen by each of them. ctx is looked at between the steps.
func Open(ctx context.Context, config Config) (*Watcher, error) { return open(ctx, config, 0) }

// open is Open with faults to test: see silk.bpf.c.
func open(ctx context.Context, config Config, faults uint32) (_ *Watcher, err error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	if c := Permitted(); c.Answer != Yes { // at once, and in its own words: what the loader makes of a refusal misleads
		return nil, fmt.Errorf("%w: %s", ErrUnavailable, c.Reason)
	}
	w := &Watcher{config: config, threadFlag: pidfdThread, scopes: map[uint32]*Scope{}, done: make(chan struct{})}
	for slot := range config.Scopes {
		w.free = append(w.free, uint32(slot))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.release())
		}
	}()
	if err := w.load(faults); err != nil {
		return nil, explain(err)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := w.attach(); err != nil {
		return nil, explain(err)
	}
	if err := w.Check(); err != nil {
		return nil, err
	}
	if w.ring, err = ringbuf.NewReader(w.kernel.Shared); err != nil {
		return nil, fmt.Errorf("open ring of alarms: %w", err)
	}
	w.readers.Go(w.readAlarms)
	return w, context.Cause(ctx)
}

func (w *Watcher) load(faults uint32) error {
	spec, err := loadSilk()
	if err != nil {
		return fmt.Errorf("read BPF object: %w", err)
	}
	for _, name := range []string{"policies", "alarms", "counters", "groups", "rings"} {
		spec.Maps[name].MaxEntries = uint32(w.config.Scopes)
	}
	spec.Maps["rings"].InnerMap.MaxEntries = uint32(w.config.GuestBytes)
	// A first argument that no program has by chance, and with which every call that Check makes is refused: an invalid
	// descriptor or id in its lower half, an address that cannot be in its whole.
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand
	w.cookie = uint64(binary.LittleEndian.Uint32(random[:])|1<<31)<<32 | 0xffffffff
	if w.cookie>>47 == 1<<17-1 {
		w.cookie ^= 1 << 48 // the kernel's half, canonical
	}
	for name, value := range map[string]any{"cookie": w.cookie, "faults": faults} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s in BPF object: %w", name, err)
		}
	}
	if err := spec.LoadAndAssign(&w.kernel, nil); err != nil {
		return fmt.Errorf("load BPF programs: %w", err)
	}
	return nil
}

func (w *Watcher) attach() error {
	for _, p := range []*ebpf.Program{w.kernel.SilkEnter, w.kernel.SilkExit, w.kernel.SilkNewtask, w.kernel.SilkEnd} {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return fmt.Errorf("attach %v: %w", p, err)
		}
		w.links = append(w.links, l)
	}
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "signal_generate", Program: w.kernel.SilkSignal})
	if err != nil {
		return fmt.Errorf("attach to signal_generate: %w", err)
	}
	w.links = append(w.links, l)
	if w.list, err = link.AttachIter(link.IterOptions{Program: w.kernel.SilkList}); err != nil {
		return fmt.Errorf("attach list of tasks: %w", err)
	}
	if w.adopter, err = link.AttachIter(link.IterOptions{Program: w.kernel.SilkAdopt}); err != nil {
		return fmt.Errorf("attach walk over threads: %w", err)
	}
	return nil
}

// explain adds ErrUnavailable to what the kernel refused.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, needsRoot(), err)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.ENOSYS), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// Done is closed when the watcher has stopped, by [Watcher.Close] or because it could not read what the kernel has for
// it; Err says which. Sandboxes that must not run unwatched have to end then.
func (w *Watcher) Done() <-chan struct{} { return w.done }

// Err is nil while the watcher works, [ErrClosed] after Close, or what stopped it.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// stop notes why the watcher no longer works; only the first reason counts.
func (w *Watcher) stop(why error) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return false
	}
	w.err = why
	close(w.done)
	return true
}

// Close takes the programs out of the kernel and closes all scopes. Nothing is left behind.
func (w *Watcher) Close() error {
	w.stop(ErrClosed)
	w.mu.Lock()
	var scopes []*Scope
	for _, s := range w.scopes {
		scopes = append(scopes, s)
	}
	w.mu.Unlock()
	var errs []error
	for _, s := range scopes {
		errs = append(errs, s.Close())
	}
	if w.ring != nil {
		errs = append(errs, w.ring.Close()) // wakes its reader
	}
	w.readers.Wait()
	return errors.Join(append(errs, w.release())...)
}

func (w *Watcher) release() error {
	var errs []error
	for _, l := range w.links {
		errs = append(errs, l.Close())
	}
	w.links = nil
	for _, walk := range []**link.Iter{&w.list, &w.adopter} {
		if *walk != nil {
			errs = append(errs, (*walk).Close())
			*walk = nil
		}
	}
	return errors.Join(append(errs, w.kernel.Close())...)
}
