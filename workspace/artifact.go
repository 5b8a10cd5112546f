package workspace

import "io/fs"

// Defaults of [CollectConfig].
const (
	DefaultArtifacts     = 1000
	DefaultArtifactBytes = 64 << 20
	DefaultTotalBytes    = 256 << 20
)

// Records with which a driver says in the PAX header of an entry what tar cannot say.
const (
	RecordOmitted = "SILK.omitted" // why the content of a file was not sent; the entry's own size is 0
	RecordSize    = "SILK.size"    // size of the omitted content in bytes, decimal
	RecordType    = "SILK.type"    // a Type that tar has no letter for, "socket", or needs numbers for, "device"
)

// CollectConfig says what is kept. The zero value lists artifacts within the default limits and copies nothing.
type CollectConfig struct {
	Dir        string   // copies go here; made if missing; "": artifacts are listed only
	Ignore     []string // base names that are no artifacts, nor is anything below them
	Files      int      // files listed at most, and as many links and special files; 0: DefaultArtifacts
	FileBytes  int64    // of one file; 0: DefaultArtifactBytes
	TotalBytes int64    // of all files that are kept; 0: DefaultTotalBytes

	// Display looks at files that are results which the program shows, by path and content, and returns their type; an error says why one is
	// none, and then it is no artifact either. It is asked for the files in DisplayDir, whatever Ignore says, and those alone. nil: there are none.
	Display      func(path string, content []byte) (mime string, err error)
	DisplayDir   string // below the workspace, with slashes
	DisplayBytes int64  // of one; Display does not see a larger one, which is none
	Displays     int    // at most
}

func (c CollectConfig) withDefaults() CollectConfig {
	if c.Files == 0 {
		c.Files = DefaultArtifacts
	}
	if c.FileBytes == 0 {
		c.FileBytes = DefaultArtifactBytes
	}
	if c.TotalBytes == 0 {
		c.TotalBytes = DefaultTotalBytes
	}
	return c
}

// Artifact is a file that the run made or changed, or a link or special file that it made.
type Artifact struct {
	Path    string // below the workspace; where the name is not UTF-8, U+FFFD stands for each faulty part
	PathB64 string // the name itself in base64, if it is not UTF-8
	Type    Type
	Size    int64
	Mode    fs.FileMode // permissions as the program left them
	SHA256  string      // of the content; empty if that was not read, and for everything but files
	MIME    string      // from the first bytes, not from the name; empty with SHA256
	Display string      // type of the result that the program shows by this file; empty: it is none
	Omitted string      // why the content is not kept; empty: it is (in Dir, if there is one). Links and special files
	// have no content and say nothing here
}

// Collected is what came out of a workspace.
type Collected struct {
	Artifacts []Artifact // in the order of the stream
	Bytes     int64      // content kept
	Omitted   int        // files in the list whose content is not kept
	More      int        // files, links and special files beyond the limits that are not even listed, at least
	Ignored   int        // files with or below an ignored name
	Hidden    int        // files that should have been results and are none
}
