package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// A log begins with magic. Then come records, little-endian:
//
//	 0  checksum  uint32  CRC-32C of all that follows
//	 4  length    uint32  of data, 1 to maxRecord
//	 8  channel   uint32  0 stdout, 1 stderr
//	12  at        uint32  milliseconds since the start of the program; 49 days at most
//	16  seq       uint64
//	24  offset    uint64  of the first byte in its channel
//	32  data
const (
	magic       = "silkout\x01"
	headerBytes = 32
	maxRecord   = 64 << 10 // more than is ever written; a reader believes no length beyond it
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli) // has an instruction on amd64 and arm64

// ErrTorn is returned for a log that ends in the midst of a record, or has something at its end that is none. All that
// was read before is good.
var ErrTorn = errors.New("log ends in a torn record")

// Record is one piece of output in a log.
type Record struct {
	Seq     uint64
	At      time.Duration // since the start of the program, in milliseconds
	Channel string        // "stdout" or "stderr"
	Offset  int64         // of the first byte in its channel
	Data    []byte

	channel channel
}

func (r Record) stamp() stamp { return stamp{r.Seq, r.At} }

func appendRecord(b []byte, c channel, at stamp, offset int64, p []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p)))
	b = binary.LittleEndian.AppendUint32(b, uint32(c))
	b = binary.LittleEndian.AppendUint32(b, uint32(min(max(0, at.at.Milliseconds()), 1<<32-1)))
	b = binary.LittleEndian.AppendUint64(b, at.seq)
	b = binary.LittleEndian.AppendUint64(b, uint64(offset))
	b = append(b, p...)
	binary.LittleEndian.PutUint32(b[start:], crc32.Checksum(b[start+4:], castagnoli))
	return b
}

// parseRecord reads the record at the begin of b. Data is a part of b. size is its length in the log.
func parseRecord(b []byte) (r Record, size int, err error) {
	if len(b) < headerBytes {
		return r, 0, fmt.Errorf("%d bytes of a header: %w", len(b), ErrTorn)
	}
	length := lengthOf(b)
	c := binary.LittleEndian.Uint32(b[8:])
	offset := binary.LittleEndian.Uint64(b[24:])
	if length == 0 || length > maxRecord || c >= uint32(channels) || offset > 1<<62 {
		return r, 0, fmt.Errorf("not a record: %w", ErrTorn)
	}
	size = headerBytes + int(length)
	if len(b) < size {
		return r, 0, fmt.Errorf("%d bytes of %d: %w", len(b), size, ErrTorn)
	}
	if crc32.Checksum(b[4:size], castagnoli) != binary.LittleEndian.Uint32(b) {
		return r, 0, fmt.Errorf("checksum does not match: %w", ErrTorn)
	}
	return Record{
		Seq: binary.LittleEndian.Uint64(b[16:]), At: time.Duration(binary.LittleEndian.Uint32(b[12:])) * time.Millisecond,
		Channel: channel(c).String(), Offset: int64(offset), Data: b[headerBytes:size:size], channel: channel(c),
	}, size, nil
}

// lengthOf is what a header says of the length of its data.
func lengthOf(header []byte) uint32 { return binary.LittleEndian.Uint32(header[4:]) }
