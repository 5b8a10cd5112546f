package broker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
)

// ReadLog reads the log at path, record by record. Data of a record is valid until the next one. An error ends it:
// [ErrTorn] after the last whole record of a log that ends in something else, as one does whose writer was killed.
func ReadLog(path string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(Record{}, fmt.Errorf("read log of output: %w", err))
			return
		}
		defer f.Close() // read only
		for r, err := range readRecords(f) {
			if !yield(r, err) {
				return
			}
		}
	}
}

func readRecords(r io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		in := bufio.NewReaderSize(r, headerBytes+maxRecord)
		start, err := in.Peek(len(magic))
		if err != nil && !errors.Is(err, io.EOF) {
			yield(Record{}, fmt.Errorf("read log of output: %w", err))
			return
		}
		if string(start) != magic {
			if len(start) > 0 {
				yield(Record{}, fmt.Errorf("read log of output: no log begins like this: %w", ErrTorn))
			}
			return
		}
		in.Discard(len(magic)) // was peeked
		for {
			header, err := in.Peek(headerBytes)
			if len(header) == 0 && errors.Is(err, io.EOF) {
				return
			}
			b := header
			if len(header) == headerBytes {
				b, err = in.Peek(headerBytes + int(min(lengthOf(header), maxRecord)))
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Record{}, fmt.Errorf("read log of output: %w", err))
				return
			}
			record, size, err := parseRecord(b)
			if err != nil {
				yield(Record{}, fmt.Errorf("read log of output: %w", err))
				return
			}
			if !yield(record, nil) {
				return
			}
			in.Discard(size) // was peeked
		}
	}
}

// Recovered is what the log of a run that nobody finished has of its output.
type Recovered struct {
	Stdout, Stderr []byte
	Torn           bool // the log ends in the midst of a record
}

// RecoverOutput reads the log of a run that this process is not running, for the record of a run whose server died. A
// run without a log has no output; that is no error. What it returns is as large as the log.
func RecoverOutput(dir, run string) (Recovered, error) {
	var out Recovered
	if !validID(run) {
		return out, fmt.Errorf("recover output: %q is not the id of a run", run)
	}
	kept := [channels]*[]byte{&out.Stdout, &out.Stderr}
	for r, err := range ReadLog(LogFile(dir, run)) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return out, nil
		case errors.Is(err, ErrTorn):
			out.Torn = true
			return out, nil
		case err != nil:
			return out, fmt.Errorf("recover output of run %s: %w", run, err)
		}
		if p := kept[r.channel]; r.Offset == int64(len(*p)) { // beyond a hole nothing is the begin of the output any more
			*p = append(*p, r.Data...)
		}
	}
	return out, nil
}
