package image

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// The on-disk format, include/uapi in fs/erofs/erofs_fs.h and https://docs.kernel.org/filesystems/erofs.html.
//
// Only its plainest part is written: no compression, no extended attributes, no chunks, and regular files always in
// whole blocks of their own. gVisor's Sentry maps those blocks into the sandbox; a file whose tail is packed behind
// its inode it can read but not map (SIGBUS), and that is what github.com/erofs/go-erofs writes for files under a
// block, besides knowing no hard links. Hence this writer; go-erofs checks it, as reader, in Verify and in the tests.
const (
	erofsMagic       = 0xe0f5e1e2
	erofsBlockBits   = 12
	erofsBlock       = 1 << erofsBlockBits
	erofsSuperOffset = 1024
	erofsSuperSize   = 128
	erofsSlot        = 32 // a node number counts slots of this size
	erofsCompact     = 32
	erofsExtended    = 64
	erofsDirent      = 12

	erofsPlain  = 0 // data layouts
	erofsInline = 2

	erofsChecksumFeature = 1
)

// inlineMax is the size up to which a directory or link target moves with its inode to a new block to stay inline.
const inlineMax = 1024

// inode is a node with its place in the image.
type inode struct {
	node   *node
	parent *inode
	names  []string // of children, sorted
	kids   []*inode // in the order of names
	links  int
	offset int64  // of the inode itself, in bytes from the start of the image
	core   int    // size of the inode itself
	data   []byte // of a directory or link
	size   int64
	inline bool
	block  uint32 // first data block
}

func (i *inode) nid() uint64 { return uint64(i.offset / erofsSlot) }

// WriteEROFS writes the tree as an uncompressed EROFS image with blocks of 4 KiB. Equal trees give equal bytes,
// whatever the order they were filled in. Hard links share their inode and equal files their blocks.
// It writes sequentially, and reads every file's content once.
func (t *Tree) WriteEROFS(w io.Writer) error {
	layout := erofsLayout{tree: t, seen: map[*node]*inode{}, blocks: map[[sha256.Size]byte]uint32{}}
	if err := layout.plan(); err != nil {
		return fmt.Errorf("lay out image: %w", err)
	}
	out := bufio.NewWriterSize(w, 1<<20)
	if err := layout.write(out); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	return nil
}

type erofsLayout struct {
	tree   *Tree
	inodes []*inode // in the order of their place
	seen   map[*node]*inode
	blocks map[[sha256.Size]byte]uint32 // a content's first block
	meta   int64                        // bytes of superblock and inodes
	next   uint32                       // first free data block
}

// plan gives every inode and every content its place.
func (l *erofsLayout) plan() error {
	l.collect(l.tree.root, nil)
	at := int64(erofsSuperOffset + erofsSuperSize)
	for _, i := range l.inodes {
		tail := 0
		switch {
		case i.node.mode.IsDir():
			tail = direntsSize(i.names)
			i.size = int64(tail)
		case i.node.mode&fs.ModeSymlink != 0:
			i.data = []byte(i.node.target)
			tail = len(i.data)
			i.size = int64(tail)
		default:
			i.size = i.node.content.size
		}
		i.core = erofsCompact
		if i.size > 1<<32-1 || i.links > 1<<16-1 || i.node.mode.IsRegular() && !i.node.mtime.Equal(l.tree.config.Epoch) {
			i.core = erofsExtended
		}
		room := erofsBlock - int(at%erofsBlock)
		switch {
		case tail > 0 && i.core+tail <= room:
			i.inline = true
		case tail > 0 && tail <= inlineMax || i.core > room:
			at += int64(room)
			i.inline = tail > 0 && i.core+tail <= erofsBlock
		}
		i.offset = at
		at += int64(i.core)
		if i.inline {
			at += int64(tail)
		}
		at = roundUp(at, erofsSlot)
	}
	l.meta = roundUp(at, erofsBlock)
	blocks := l.meta >> erofsBlockBits
	for _, i := range l.inodes {
		if i.inline || i.size == 0 {
			continue
		}
		if i.node.mode.IsRegular() {
			if block, ok := l.blocks[i.node.content.sum]; ok {
				i.block = block
				continue
			}
			l.blocks[i.node.content.sum] = uint32(blocks)
		}
		i.block = uint32(blocks)
		blocks += roundUp(i.size, erofsBlock) >> erofsBlockBits
	}
	if blocks > 1<<32-1 {
		return fmt.Errorf("%d blocks: %w", blocks, ErrTooLarge)
	}
	l.next = uint32(blocks)
	return nil
}

// collect lists inodes in the order of a walk, so that what lies together in the tree lies together on disk.
func (l *erofsLayout) collect(n *node, parent *inode) *inode {
	if known, ok := l.seen[n]; ok {
		known.links++
		return known
	}
	i := &inode{node: n, parent: parent, links: 1}
	l.inodes = append(l.inodes, i)
	if !n.mode.IsDir() {
		l.seen[n] = i
		return i
	}
	i.links = 2
	if parent == nil {
		i.parent = i
	}
	i.names = slices.Sorted(maps.Keys(n.children))
	for _, name := range i.names {
		kid := l.collect(n.children[name], i)
		i.kids = append(i.kids, kid)
		if kid.node.mode.IsDir() {
			i.links++
		}
	}
	return i
}

func (l *erofsLayout) write(out *bufio.Writer) error {
	meta := make([]byte, l.meta)
	for number, i := range l.inodes {
		if i.node.mode.IsDir() {
			i.data = dirents(i)
		}
		l.putInode(meta[i.offset:], i, uint32(number+1))
	}
	l.putSuper(meta)
	if _, err := out.Write(meta); err != nil {
		return err
	}
	var padding [erofsBlock]byte
	next := uint32(l.meta >> erofsBlockBits)
	for _, i := range l.inodes {
		if i.inline || i.size == 0 || i.block < next { // a shared content was written before
			continue
		}
		if i.node.mode.IsRegular() {
			n, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{l.tree.open(i.node)}, l.tree.buffer)
			if err != nil {
				return err
			}
			if n != i.size {
				return fmt.Errorf("temporary file: %w", io.ErrUnexpectedEOF)
			}
		} else if _, err := out.Write(i.data); err != nil {
			return err
		}
		if _, err := out.Write(padding[:roundUp(i.size, erofsBlock)-i.size]); err != nil {
			return err
		}
		next += uint32(roundUp(i.size, erofsBlock) >> erofsBlockBits)
	}
	return nil
}

// putSuper fills in the superblock. Its checksum covers the rest of the first block, which must be complete.
func (l *erofsLayout) putSuper(meta []byte) {
	epoch := l.tree.config.Epoch
	super := meta[erofsSuperOffset:erofsBlock]
	le := binary.LittleEndian
	le.PutUint32(super[0:], erofsMagic)
	le.PutUint32(super[8:], erofsChecksumFeature)
	super[12] = erofsBlockBits
	le.PutUint16(super[14:], uint16(l.inodes[0].nid()))
	le.PutUint64(super[16:], uint64(len(l.inodes)))
	le.PutUint64(super[24:], uint64(epoch.Unix()))
	le.PutUint32(super[36:], l.next)
	// Metadata begins at block 0, extended attributes and all features are absent: zero.
	le.PutUint32(super[4:], ^crc32.Checksum(super, crc32.MakeTable(crc32.Castagnoli))) // without the last inversion
}

func (l *erofsLayout) putInode(b []byte, i *inode, number uint32) {
	le := binary.LittleEndian
	layout := uint16(erofsPlain)
	if i.inline {
		layout = erofsInline
		copy(b[i.core:], i.data)
	}
	le.PutUint16(b[4:], unixMode(i.node.mode))
	le.PutUint32(b[16:], i.block)
	le.PutUint32(b[20:], number)
	if i.core == erofsCompact {
		le.PutUint16(b[0:], layout<<1)
		le.PutUint16(b[6:], uint16(i.links))
		le.PutUint32(b[8:], uint32(i.size))
		return
	}
	mtime := l.tree.config.Epoch
	if i.node.mode.IsRegular() {
		mtime = i.node.mtime
	}
	le.PutUint16(b[0:], layout<<1|1)
	le.PutUint64(b[8:], uint64(i.size))
	le.PutUint64(b[32:], uint64(mtime.Unix()))
	le.PutUint32(b[44:], uint32(i.links))
}

// direntBlocks splits the sorted names of a directory, "." and ".." included, into what fits in one block each.
func direntBlocks(names []string) [][]string {
	all := slices.Concat(names, []string{".", ".."})
	slices.Sort(all)
	var blocks [][]string
	start, used := 0, 0
	for k, name := range all {
		if used += erofsDirent + len(name); used > erofsBlock {
			blocks = append(blocks, all[start:k])
			start, used = k, erofsDirent+len(name)
		}
	}
	return append(blocks, all[start:])
}

func direntsSize(names []string) int {
	blocks := direntBlocks(names)
	size := (len(blocks) - 1) * erofsBlock
	for _, name := range blocks[len(blocks)-1] {
		size += erofsDirent + len(name)
	}
	return size
}

// dirents encodes a directory: in each block the entries, then their names.
func dirents(i *inode) []byte {
	kids := make(map[string]*inode, len(i.names)+2)
	for k, name := range i.names {
		kids[name] = i.kids[k]
	}
	kids["."], kids[".."] = i, i.parent
	data := make([]byte, i.size)
	for number, names := range direntBlocks(i.names) {
		block := data[number*erofsBlock:]
		at := len(names) * erofsDirent
		for k, name := range names {
			entry := block[k*erofsDirent:]
			binary.LittleEndian.PutUint64(entry, kids[name].nid())
			binary.LittleEndian.PutUint16(entry[8:], uint16(at))
			entry[10] = fileType(kids[name].node.mode)
			at += copy(block[at:], name)
		}
	}
	return data
}

func fileType(mode fs.FileMode) byte { // EROFS_FT_*, the same as DT_* packed
	switch {
	case mode.IsDir():
		return 2
	case mode&fs.ModeSymlink != 0:
		return 7
	default:
		return 1
	}
}

func unixMode(mode fs.FileMode) uint16 { // inode(7)
	bits := uint16(mode.Perm())
	switch {
	case mode.IsDir():
		bits |= 0o040000
	case mode&fs.ModeSymlink != 0:
		bits |= 0o120000
	default:
		bits |= 0o100000
	}
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// erofsSuper is what readSuper learns from the beginning of an image.
type erofsSuper struct {
	sizeBytes int64
	built     time.Time
}

// readSuper checks that r begins with the superblock of an image as this package writes them.
func readSuper(r io.ReaderAt) (erofsSuper, error) {
	var super [erofsSuperSize]byte
	if _, err := r.ReadAt(super[:], erofsSuperOffset); err != nil {
		return erofsSuper{}, fmt.Errorf("read superblock: %w", err)
	}
	le := binary.LittleEndian
	if le.Uint32(super[0:]) != erofsMagic || super[12] != erofsBlockBits || le.Uint32(super[80:]) != 0 {
		return erofsSuper{}, fmt.Errorf("not an uncompressed EROFS image with blocks of %d bytes", erofsBlock)
	}
	return erofsSuper{
		sizeBytes: int64(le.Uint32(super[36:])) << erofsBlockBits,
		built:     time.Unix(int64(le.Uint64(super[24:])), 0).UTC(),
	}, nil
}
