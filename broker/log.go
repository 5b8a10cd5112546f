package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

const (
	defaultLogBytes = 10 << 20 // DESIGN 8: what is kept of a channel
	markBytes       = 64 << 10 // of log between two marks
	logSuffix       = ".frames"
)

// LogFile is where the log of a running run lies below the directory of logs.
func LogFile(dir, run string) string { return filepath.Join(dir, run+logSuffix) }

// log is the file that has the first bytes of each channel in order of publication. It is written with plain write(2)
// and never synced: it survives the death of this process, not that of the host. The writer appends; all else is under
// Stream.mu. A nil log is one without content.
type log struct {
	file  *os.File
	size  int64           // of whole records
	ends  [channels]int64 // offset after the last byte of each channel
	marks []mark
}

// mark says what a log has before a position.
type mark struct {
	at   int64
	ends [channels]int64
}

// createLog makes the file, which must not exist, for its owner alone.
func createLog(path string) (*log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteString(magic); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return &log{file: f, size: int64(len(magic))}, nil
}

// write appends one record. What was written of it in vain is taken back, or is skipped by readers as torn.
func (l *log) write(record []byte) error {
	if _, err := l.file.Write(record); err != nil {
		return errors.Join(err, l.file.Truncate(l.size))
	}
	return nil
}

// wrote says that the record of a range of a channel was written.
func (l *log) wrote(bytes int, c channel, to int64) {
	if n := len(l.marks); n == 0 || l.size-l.marks[n-1].at >= markBytes {
		l.marks = append(l.marks, mark{l.size, l.ends})
	}
	l.size += int64(bytes)
	l.ends[c] = to
}

// length is the size of the log.
func (l *log) length() int64 {
	if l == nil {
		return 0
	}
	return l.size
}

// end is the offset after the last byte of a channel.
func (l *log) end(c channel) int64 {
	if l == nil {
		return 0
	}
	return l.ends[c]
}

// find is a position from which on the log has all that it has from the given offsets on, not far before it.
func (l *log) find(off [channels]int64) int64 {
	i := sort.Search(len(l.marks), func(i int) bool {
		return l.marks[i].ends[stdout] > off[stdout] || l.marks[i].ends[stderr] > off[stderr]
	})
	return l.marks[i-1].at // the first mark is before all output
}

func (l *log) close() error {
	if l == nil || l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// keep writes the next bytes of a channel to the log, up to its limit. The writer's lock is held, that of the stream is
// not: viewers do not wait for the disk. A log that cannot be written ends here, whatever the reason; the run goes on.
func (w *writer) keep(c channel, from int64, p []byte) {
	s := w.stream
	if w.logStopped || s.broker.config.Dir == "" || from >= s.limits.LogBytes {
		return
	}
	p = p[:min(int64(len(p)), s.limits.LogBytes-from)]
	l := w.log
	if l == nil {
		var err error
		if l, err = createLog(LogFile(s.broker.config.Dir, s.run)); err != nil {
			w.failLog(fmt.Errorf("create log: %w", err))
			return
		}
		w.log = l
		s.mu.Lock()
		s.log = l
		s.mu.Unlock()
	}
	w.record = appendRecord(w.record[:0], c, w.stamp, from, p)
	if err := l.write(w.record); err != nil {
		w.failLog(fmt.Errorf("write log: %w", err))
		return
	}
	s.mu.Lock()
	l.wrote(len(w.record), c, from+int64(len(p)))
	s.mu.Unlock()
}

func (w *writer) failLog(err error) {
	s := w.stream
	w.logStopped = true
	s.broker.stats.logFaults.Add(1)
	s.broker.warn("the log of the output ends here", s.run, err)
}

// stopLog ends the log without a fault.
func (w *writer) stopLog() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logStopped = true
}
