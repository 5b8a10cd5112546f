package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/silk-sandbox/silk/internal/logkey"
)

var (
	// ErrUnknownRun is returned by View and Add for a run that was never opened here, or has ended some time ago.
	ErrUnknownRun = errors.New("run is not live here")

	// ErrCursor is returned by View and Add for a cursor beyond the end of what the run has printed.
	ErrCursor = errors.New("cursor is not within the output")

	// ErrOpen is returned by Open for a run that is open already, or has left a log.
	ErrOpen = errors.New("run is open already")

	// ErrClosed is returned when the broker or the viewer was closed. How the run ended is unknown then.
	ErrClosed = errors.New("closed")
)

const (
	defaultKeep      = time.Minute
	defaultKeepBytes = 64 << 20
	maxEnded         = 1 << 10 // each of which may have a log open
)

// Config is what a [Broker] is made of.
type Config struct {
	// Dir is a directory for the logs of running runs, which exists and is readable by nobody else. Empty: there are no
	// logs, a viewer that falls behind the memory of a stream meets gaps, and a crash leaves no output.
	Dir string

	// Keep is how long a run stays here after its end, so that a viewer that reconnects finds the exit frame. 0 means
	// a minute, less than 0 not at all.
	Keep time.Duration

	// KeepBytes bounds the memory of all ended runs together, of which there are 1024 at most; the oldest go first. 0
	// means 64 MiB.
	KeepBytes int64

	// FollowIdle is how long a program that can print no more waits for a follower that takes nothing; FollowAway for one that is
	// not connected. 0: 30 s and 10 s. See [Broker.Follow].
	FollowIdle, FollowAway time.Duration

	// Logger is for operators. nil discards. Output is never logged.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Keep == 0 {
		c.Keep = defaultKeep
	}
	if c.KeepBytes == 0 {
		c.KeepBytes = defaultKeepBytes
	}
	if c.FollowIdle == 0 {
		c.FollowIdle = defaultFollowIdle
	}
	if c.FollowAway == 0 {
		c.FollowAway = defaultFollowAway
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Broker holds the streams of the runs of one process. Safe for concurrent use.
type Broker struct {
	config Config
	stats  counters

	mu     sync.Mutex
	closed bool
	live   map[string]*Stream
	ended  []*Stream // oldest first
	kept   int64     // memory of ended
}

// New makes a broker without runs. It does not touch the disk.
func New(config Config) (*Broker, error) {
	if config.Dir != "" && !filepath.IsAbs(config.Dir) {
		return nil, fmt.Errorf("directory of logs %q is not an absolute path", config.Dir)
	}
	return &Broker{config: config.withDefaults(), live: map[string]*Stream{}}, nil
}

// Limits bound what one stream costs. The zero value has the defaults.
type Limits struct {
	LogBytes  int64 // of each channel, that the log on disk holds: the output limit of the run. 0: 10 MiB
	RingBytes int   // of encoded frames in memory. 0: 256 KiB
}

// Open begins the stream of a run, whose id has only letters, digits, '-' and '_', 64 at most. The caller must call
// [Stream.End]. The log is made at the first output; that it cannot be made is noted, and stops nothing.
func (b *Broker) Open(run string, limits Limits) (*Stream, error) {
	if !validID(run) {
		return nil, fmt.Errorf("open stream: %q is not the id of a run", run)
	}
	if limits.LogBytes == 0 {
		limits.LogBytes = defaultLogBytes
	}
	if limits.RingBytes == 0 {
		limits.RingBytes = defaultRingBytes
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("open stream of run %s: %w", run, ErrClosed)
	}
	if _, ok := b.live[run]; ok {
		return nil, fmt.Errorf("open stream of run %s: %w", run, ErrOpen)
	}
	if b.config.Dir != "" {
		if _, err := os.Lstat(LogFile(b.config.Dir, run)); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open stream of run %s: its log is there: %w", run, ErrOpen)
		}
	}
	s := newStream(b, run, limits)
	b.live[run] = s
	return s, nil
}

// Remove deletes the log of a run, when its record has the output. A viewer that reads it goes on. That there is no log
// is no error.
func (b *Broker) Remove(run string) error {
	if b.config.Dir == "" || !validID(run) {
		return nil
	}
	b.mu.Lock()
	s := b.live[run]
	b.mu.Unlock()
	if s != nil {
		s.w.stopLog() // or the next output would make it again
	}
	if err := os.Remove(LogFile(b.config.Dir, run)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove log of run %s: %w", run, err)
	}
	return nil
}

// Left returns the runs that have a log and are not live here: what an earlier process left. Once their records have the
// output, [Broker.Remove] deletes the logs.
func (b *Broker) Left() ([]string, error) {
	if b.config.Dir == "" {
		return nil, nil
	}
	files, err := os.ReadDir(b.config.Dir)
	if err != nil {
		return nil, fmt.Errorf("list logs of output: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var left []string
	for _, f := range files {
		run, ok := strings.CutSuffix(f.Name(), logSuffix)
		if ok && validID(run) && b.live[run] == nil {
			left = append(left, run)
		}
	}
	return left, nil
}

// Close ends every viewer with [ErrClosed] and closes all logs, which stay. What is written to a stream afterwards is
// dropped.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	streams := make([]*Stream, 0, len(b.live))
	for _, s := range b.live {
		streams = append(streams, s)
	}
	clear(b.live)
	b.ended = nil
	b.mu.Unlock()
	var faults []error
	for _, s := range streams {
		faults = append(faults, s.shut())
	}
	return errors.Join(faults...)
}

// find returns the stream of a run, live or ended a short time ago.
func (b *Broker) find(run string) (*Stream, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	s, ok := b.live[run]
	if !ok {
		return nil, fmt.Errorf("run %q: %w", run, ErrUnknownRun)
	}
	return s, nil
}

// retire keeps a stream that has ended for a while.
func (b *Broker) retire(s *Stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live[s.run] != s {
		return
	}
	if b.config.Keep < 0 {
		b.drop(s)
		return
	}
	b.ended = append(b.ended, s)
	s.leave = time.AfterFunc(b.config.Keep, func() { b.expire(s) })
	s.bytes = s.memory()
	b.kept += s.bytes
	for len(b.ended) > 1 && (b.kept > b.config.KeepBytes || len(b.ended) > maxEnded) {
		b.drop(b.ended[0])
	}
}

// expire forgets a stream whose time is over, unless its follower is still reading.
func (b *Broker) expire(s *Stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.behind() {
		s.leave.Reset(b.config.Keep)
		return
	}
	b.drop(s)
}

// drop forgets a stream. Its viewers go on to its end. b.mu is held.
func (b *Broker) drop(s *Stream) {
	if b.live[s.run] != s {
		return
	}
	delete(b.live, s.run)
	if i := slices.Index(b.ended, s); i >= 0 {
		b.ended = slices.Delete(b.ended, i, i+1)
		b.kept -= s.bytes
	}
	if s.leave != nil {
		s.leave.Stop()
	}
	if err := s.forget(); err != nil {
		b.warn("close log of output", s.run, err)
	}
}

func (b *Broker) warn(what, run string, err error) {
	b.config.Logger.Warn(what, logkey.Run, run, logkey.Error, err)
}

// Stats are numbers for operators: gauges of what is here, counters since the broker was made.
type Stats struct {
	Streams   int   // runs here, those that ended a short time ago included
	Viewers   int64 // open ones
	Frames    int64 // published
	Bytes     int64 // of output, published
	Gaps      int64 // frames that told a viewer of lost bytes
	GapBytes  int64 // told as lost, over all viewers
	Held      int64 // times that a program had to wait for its follower
	LogFaults int64 // logs that ended early
}

type counters struct {
	viewers, frames, bytes, gaps, gapBytes, held, logFaults atomic.Int64
}

// Stats returns the numbers of this moment.
func (b *Broker) Stats() Stats {
	b.mu.Lock()
	n := len(b.live)
	b.mu.Unlock()
	c := &b.stats
	return Stats{
		Streams: n, Viewers: c.viewers.Load(), Frames: c.frames.Load(), Bytes: c.bytes.Load(),
		Gaps: c.gaps.Load(), GapBytes: c.gapBytes.Load(), Held: c.held.Load(), LogFaults: c.logFaults.Load(),
	}
}

// validID keeps anything but an id out of the names of files and needs no escape in JSON.
func validID(run string) bool {
	if len(run) == 0 || len(run) > 64 {
		return false
	}
	for _, c := range []byte(run) {
		switch {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
