package run

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/record"
)

const (
	tailBytes   = 4 << 10 // DESIGN: the last 4 KiB of a truncated channel
	memoryBytes = 1 << 20 // of a kept prefix that stays in memory; what is longer goes to a file
)

// keeper keeps of a stream what an outcome and a record need: the first limit bytes, the last tailBytes, the hash and the
// length of everything. Its memory is bounded whatever flows through it. Not safe for concurrent use.
type keeper struct {
	limit  int64
	create func() (*os.File, error) // makes the file for a prefix beyond memoryBytes; called once at most

	total int64
	kept  int64 // length of the prefix, in head or in file
	head  []byte
	file  *os.File
	err   error // why the prefix ends before limit, if it does
	sum   hash.Hash
	tail  []byte // the last bytes, tailBytes at most; up to twice as many while writing
}

func newKeeper(limit int64, create func() (*os.File, error)) *keeper {
	return &keeper{limit: limit, create: create, sum: sha256.New()}
}

// write takes the next piece of the stream.
func (k *keeper) write(p []byte) {
	k.total += int64(len(p))
	k.sum.Write(p)
	if len(p) >= tailBytes {
		k.tail = append(k.tail[:0], p[len(p)-tailBytes:]...)
	} else {
		if len(k.tail)+len(p) > 2*tailBytes {
			k.tail = append(k.tail[:0], k.tail[len(k.tail)-tailBytes:]...)
		}
		k.tail = append(k.tail, p...)
	}
	if room := k.limit - k.kept; k.err == nil && room > 0 {
		if err := k.keep(p[:min(int64(len(p)), room)]); err != nil {
			k.err = fmt.Errorf("keep output: %w", err)
		}
	}
}

func (k *keeper) keep(p []byte) error {
	if k.file == nil && len(k.head)+len(p) <= memoryBytes {
		k.head = append(k.head, p...)
		k.kept += int64(len(p))
		return nil
	}
	if err := k.spill(); err != nil {
		return err
	}
	n, err := k.file.Write(p)
	k.kept += int64(n)
	if err != nil {
		err = errors.Join(err, k.giveBack())
	}
	return err
}

// giveBack shortens the file of a prefix that has met the end of the disk, so that the run can still be recorded.
func (k *keeper) giveBack() error {
	k.kept = max(0, k.kept-memoryBytes)
	return k.file.Truncate(k.kept)
}

// spill moves the prefix to the file. On error the prefix stays whole in memory.
func (k *keeper) spill() error {
	if k.file != nil {
		return nil
	}
	f, err := k.create()
	if err != nil {
		return err
	}
	if _, err := f.Write(k.head); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	k.file, k.head = f, nil
	return nil
}

// inline says whether the prefix is one for the database. A long one belongs into a file; where that could not be made,
// it is given up, so that a full disk does not take the record with it.
func (k *keeper) inline() bool {
	return k.file == nil && 0 < k.kept && k.kept <= record.InlineBytes
}

// prefix returns the kept bytes.
func (k *keeper) prefix() ([]byte, error) {
	if k.file == nil {
		return k.head, nil
	}
	p := make([]byte, k.kept)
	if _, err := io.ReadFull(io.NewSectionReader(k.file, 0, k.kept), p); err != nil {
		return nil, fmt.Errorf("read kept output: %w", err)
	}
	return p, nil
}

// lastBytes returns the end of the stream.
func (k *keeper) lastBytes() []byte { return k.tail[max(0, len(k.tail)-tailBytes):] }

// channel is what the outcome says of the stream. Without text only numbers and hash are filled.
func (k *keeper) channel(text bool) (Channel, error) {
	c := Channel{Bytes: k.total, Truncated: k.kept < k.total, SHA256: hex.EncodeToString(k.sum.Sum(nil))}
	if c.Truncated {
		c.TailB64 = base64.StdEncoding.EncodeToString(k.lastBytes())
	}
	if !text {
		return c, nil
	}
	p, err := k.prefix()
	if err != nil {
		return c, err
	}
	if utf8.Valid(p) && !wasteful(p) {
		s := string(p)
		c.Text = &s
	} else {
		s := base64.StdEncoding.EncodeToString(p)
		c.B64 = &s
	}
	return c, nil
}

// wasteful says whether p is long and would be much longer as a JSON string, where a control character takes six bytes:
// ten megabytes of zeros are valid UTF-8, and base64 takes a quarter of the room.
func wasteful(p []byte) bool {
	if len(p) <= 64<<10 {
		return false
	}
	controls := 0
	for _, c := range p {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' {
			controls++
		}
	}
	return controls > len(p)/16
}

// close releases the file, which stays.
func (k *keeper) close() error {
	if k.file == nil {
		return nil
	}
	return k.file.Close()
}
