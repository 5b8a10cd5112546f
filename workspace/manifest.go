package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// Type is what an entry of a workspace is.
type Type string

const (
	TypeFile    Type = "file"
	TypeDir     Type = "dir"
	TypeLink    Type = "link" // symbolic; in a collected workspace also a hard link that the driver sent as one
	TypeFIFO    Type = "fifo"
	TypeSocket  Type = "socket"
	TypeDevice  Type = "device"
	TypeUnknown Type = "unknown"
)

func typeOf(mode fs.FileMode) Type {
	switch mode.Type() {
	case 0:
		return TypeFile
	case fs.ModeDir:
		return TypeDir
	case fs.ModeSymlink:
		return TypeLink
	case fs.ModeNamedPipe:
		return TypeFIFO
	case fs.ModeSocket:
		return TypeSocket
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return TypeDevice
	}
	return TypeUnknown
}

// Entry is what a manifest knows of one path.
type Entry struct {
	Type    Type
	Size    int64             // of a file's content, in bytes
	Mode    fs.FileMode       // permissions only
	SHA256  [sha256.Size]byte // of a file's content or a link's target; zero for a directory
	ModTime time.Time
}

// Skipped is something in the source that is not copied, because it has no content of its own.
type Skipped struct {
	Path string
	Type Type
}

// Manifest is what a workspace started with. The zero value is that of an empty workspace.
type Manifest struct {
	Entries map[string]Entry // by path below the workspace; names need not be UTF-8
	Skipped []Skipped        // FIFOs, sockets and devices, in path order
	Bytes   int64            // content of all files
}

// Hash is the input hash of a run: SHA-256, in lower-case hexadecimal, over path, type, permissions and content of
// every entry in path order. Times do not count: the same files copied again make the same hash.
func (m Manifest) Hash() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(m.Entries)) {
		e := m.Entries[name]
		fmt.Fprintf(h, "%q %s %o %d %x\n", name, e.Type, e.Mode.Perm(), e.Size, e.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))
}
