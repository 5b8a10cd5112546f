// Package image keeps root filesystems: each one file, an uncompressed EROFS, named by the SHA-256 of its bytes.
//
// A [Tree] is a root filesystem being put together, from packages, an archive, a directory or another image. It knows
// how usr-merged systems hang together (a parent that is a symbolic link is followed, inside the tree), owns every
// file as root, drops setuid bits and device nodes, and becomes the same bytes whatever the order it was filled in.
// A [Store] keeps what [Tree.WriteEROFS] wrote under its digest, with a description ([Meta]) and tags, and hands a
// run an open descriptor of it.
//
//	store, err := image.Open(image.Config{Home: home + "/images", System: "/usr/share/silk/images"})
//	img, err := store.Resolve("lab:python") // a tag, a digest or the beginning of one
//	root, err := store.OpenRoot(img)        // *os.File, read-only, for driver.Spec
//
// Images come from packages (image/recipe), from archives and directories ([Import]), from other images ([Store.Tree])
// and from an OCI registry (image/registry). [Store.Export] writes an OCI layout that other tools load.
//
// The package trusts no archive: names that lead out, device nodes, setuid files, lying sizes and floods are refused
// with the entry named, see [RefusedError]. It never runs anything that it unpacks.
package image

import "time"

// Meta describes an image. It is stored as JSON ("silk.image/v1") beside the blob and is no part of the digest.
type Meta struct {
	Schema       string            `json:"schema"` // always MetaSchema
	Digest       Digest            `json:"digest"`
	SizeBytes    int64             `json:"sizeBytes"`
	Created      time.Time         `json:"created"`            // when this store made it; no part of the digest
	Source       string            `json:"source"`             // "build lab:python", "import app.tar", "pull host/name@sha256:..."
	Packages     []Package         `json:"packages,omitempty"` // what it was built from, sorted by name
	Trees        []string          `json:"trees"`              // what programs may read of it, see Tree.Trees
	Licences     string            `json:"licences,omitempty"` // where the licences of its contents are to be found
	Env          map[string]string `json:"env,omitempty"`      // what its programs expect, such as PATH
	Interpreters map[string]string `json:"interpreters,omitempty"`
	Command      []string          `json:"command,omitempty"` // what an imported image says is to be run in it
	Dropped      []string          `json:"dropped,omitempty"` // what an importer left out: "setuid /usr/bin/su"; at most 1,000
}

// MetaSchema is the version of [Meta] that this package writes.
const MetaSchema = "silk.image/v1"

// Package is one locked package in an image.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Arch    string `json:"arch,omitempty"`
	SHA256  string `json:"sha256,omitempty"` // hex, of the archive it came from
}

// Progress is told how long work goes on: done of total units (bytes, unless what says otherwise) of what. A total of
// -1 means unknown. It is called from the goroutine that works, often; nil means that nobody wants to know.
type Progress func(done, total int64, what string)

func (p Progress) report(done, total int64, what string) {
	if p != nil {
		p(done, total, what)
	}
}
