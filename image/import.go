package image

import (
	"context"
	"fmt"
)

// Kind is what an import reads.
type Kind string

const (
	KindAuto          Kind = ""               // look and see
	KindOCI           Kind = "oci"            // an OCI image layout: a directory, or a tar of one
	KindDockerArchive Kind = "docker-archive" // what docker save writes
	KindTar           Kind = "tar"            // a root filesystem in a tar archive
	KindDirectory     Kind = "dir"            // a root filesystem in a directory
)

// ImportConfig says how to import. The zero value works.
type ImportConfig struct {
	Tree TreeConfig
	Kind Kind

	// DropSetuid imports setuid and setgid files as ordinary ones, and names them in Meta.Dropped, instead of
	// refusing them. It weakens nothing: no sandbox has a privilege to gain from them. OCI images and docker archives
	// are always imported so, because su and mount are in nearly all of them.
	DropSetuid bool

	// DropSpecial leaves out device nodes, fifos and sockets, and names them in Meta.Dropped, instead of refusing them.
	DropSpecial bool

	Progress Progress // bytes of the archive
}

// RefusedError is why an archive, a directory or an image from elsewhere was not imported.
type RefusedError struct {
	Entry  string // name as the archive spells it; may hold any bytes
	Reason string // "is a device node", ...
}

func (e *RefusedError) Error() string { return fmt.Sprintf("entry %q refused: %s", e.Entry, e.Reason) }

// Import reads the archive or directory at path into a new tree, which the caller closes, and describes where it came
// from. Archives may be compressed with gzip or zstd. Of an OCI layout or docker archive that holds several images the
// one for linux/amd64 is taken; if that is not exactly one, Import refuses.
func Import(ctx context.Context, path string, config ImportConfig) (*Tree, Meta, error) {
	return nil, Meta{}, errSkeletons
}

// EnsureMountpoints makes the directories that a sandbox mounts over or expects: /workspace, /proc, /sys, /dev,
// /dev/shm, /tmp and /etc. Import and image/registry have done it already.
func EnsureMountpoints(t *Tree) error { return errSkeletons }
