package image

import (
	"context"
	"errors"
	"io"
	"os"
)

// Config says where images are kept. At least one of the directories must be given.
type Config struct {
	Home   string // the user's own store, read and written; made if missing; empty means read-only use
	System string // a store that is only read, such as /usr/share/silk/images; need not exist; empty means none
}

// Store keeps images in a home directory and finds them there, then in a system directory. It holds no state besides
// the files, so any number of processes may use the same directories at once, and one Store any number of goroutines.
type Store struct {
	config Config
}

// Image is one stored image, found but not loaded: making one costs no more than a stat.
type Image struct {
	Digest    Digest
	Tags      []string // sorted; only [Store.List] fills it
	SizeBytes int64
	System    bool // in the system store, so it cannot be removed or retagged there

	path string
}

// Errors that callers branch on; both come wrapped in a sentence that says what to do.
var (
	ErrNotFound  = errors.New("image not found") // Resolve, and what calls it
	ErrCorrupt   = errors.New("image is damaged") // OpenRoot, Verify
	errSkeletons = errors.New("being written")
)

// Open opens the stores.
func Open(config Config) (*Store, error) { return &Store{config}, nil }

// Resolve finds an image by tag, digest, or the first 12 or more digits of one ("sha256:" may be left out), in the
// home store, then in the system store.
func (s *Store) Resolve(ref string) (Image, error) { return Image{}, errSkeletons }

// Meta reads the description of an image.
func (s *Store) Meta(img Image) (Meta, error) { return Meta{}, errSkeletons }

// OpenRoot opens an image's EROFS file, read-only, for a sandbox to use; the caller closes it.
func (s *Store) OpenRoot(img Image) (*os.File, error) { return nil, errSkeletons }

// Put stores what content writes under its digest, with meta as its description and tags pointing to it.
// Digest, size, schema and creation time of meta are filled in. Use [Tree.WriteEROFS] as content.
func (s *Store) Put(ctx context.Context, content func(io.Writer) error, meta Meta, tags ...string) (Image, error) {
	return Image{}, errSkeletons
}

// Tag makes tag point to img, whatever it pointed to before.
func (s *Store) Tag(img Image, tag string) error { return errSkeletons }

// List returns all images, sorted by first tag, untagged ones last.
func (s *Store) List() ([]Image, error) { return nil, errSkeletons }

// Remove takes away a tag, or, given a digest, an image and all its tags. The last tag of an image takes the image
// with it. Sandboxes that use it keep their open file.
func (s *Store) Remove(ref string) error { return errSkeletons }

// Verify reads all of an image: its digest, and that every inode in it is one that this package would have written.
func (s *Store) Verify(ctx context.Context, ref string, progress Progress) error { return errSkeletons }

// GCResult says what [Store.GC] removed, or would remove.
type GCResult struct {
	Images    []Image // untagged
	Leftovers int     // temporary files of writers that died
	Bytes     int64   // freed
}

// GC removes untagged images and leftovers from the home store. With dryRun it only says what it would remove.
func (s *Store) GC(dryRun bool) (GCResult, error) { return GCResult{}, errSkeletons }

// Export writes an image as an OCI image layout in a tar archive, the same bytes each time.
func (s *Store) Export(ctx context.Context, ref string, w io.Writer, progress Progress) error {
	return errSkeletons
}

// Tree loads an image into a tree, to build another upon it. The caller closes it.
func (s *Store) Tree(ctx context.Context, img Image, config TreeConfig) (*Tree, error) {
	return nil, errSkeletons
}

// WriteEROFS writes the tree as an uncompressed EROFS image. Equal trees give equal bytes.
func (t *Tree) WriteEROFS(w io.Writer) error { return errSkeletons }
