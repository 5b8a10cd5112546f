package workspace

import (
	"io"
	"io/fs"
)

// Defaults of [CollectConfig].
const (
	DefaultArtifacts     = 1000
	DefaultArtifactBytes = 64 << 20
	DefaultTotalBytes    = 256 << 20
)

// DefaultIgnore are base names that are never artifacts, nor is anything below them: caches, and silk's own places.
var DefaultIgnore = []string{"__pycache__", ".cache", "node_modules", ".git", ".silk", ".gotmp", ".gocache"}

// CollectConfig says what is kept. The zero value lists artifacts within the default limits and copies nothing.
type CollectConfig struct {
	Dir        string   // copies go here; made if missing; "": artifacts are listed only
	Ignore     []string // base names that are no artifacts, besides DefaultIgnore
	Files      int      // artifacts listed at most, and as many links and special files; 0: DefaultArtifacts
	FileBytes  int64    // of one artifact; 0: DefaultArtifactBytes
	TotalBytes int64    // of all artifacts; 0: DefaultTotalBytes
}

// Artifact is a file that the run made or changed, or a link or special file that it made.
type Artifact struct {
	Path    string // below the workspace; where the name is not UTF-8, U+FFFD stands for each faulty part
	PathB64 string // the name itself in base64, if it is not UTF-8
	Type    Type
	Size    int64
	Mode    fs.FileMode // permissions as the program left them
	SHA256  string      // of the content; empty if it did not arrive, and for everything but files
	MIME    string      // from the first bytes, not from the name
	Omitted string      // why the content is not kept, one sentence; empty: it is kept (in Dir, if there is one)
}

// Collected is what came out of a workspace.
type Collected struct {
	Artifacts []Artifact // in the order of the stream
	Bytes     int64      // content kept
	Omitted   int        // artifacts in the list whose content is not kept
	More      int        // artifacts beyond the limits that are not even listed
	Ignored   int        // files below ignored names
}

// Collect reads r.
func Collect(r io.Reader, before Manifest, cfg CollectConfig) (Collected, error) { panic("skeleton") }
