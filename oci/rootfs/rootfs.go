// Package rootfs makes images of the root directories that container engines hand to their runtimes.
//
// A sandbox of silk's has an EROFS image as its root, not a directory of the host. An engine's directory is nearly always an
// overlay mount of layers that never change, below one that is the container's own and empty; so the image is made once for
// the layers, and found again by them: see [Key]. What cannot be known by its layers is known by its files.
//
// The image is one of the image store's, under a tag ("rootfs:..."), with what no program may read left out. Its files can
// be read by the sandbox's one user if the container's user may read them: see [User].
//
// The package trusts the engine, who is root on this host, and nothing in the directory.
package rootfs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/internal/lockfile"
)

// TagPrefix begins the tags of images that were made of root directories.
const TagPrefix = "rootfs:"

// Cache finds images of root directories and makes those that are missing. Any number of processes may use the same one.
type Cache struct {
	Images *image.Store
	Dir    string // of what is known about directories; made if missing
}

// entry is what the cache knows of a key.
type entry struct {
	Digest string   `json:"digest"`
	Layers []string `json:"layers"` // directories without which the entry is of no use any more
}

// Image returns the digest of the image of root as user reads it, and whether it had to be made.
func (c Cache) Image(ctx context.Context, root string, user User) (digest string, made bool, err error) {
	key, err := keyOf(ctx, root, user)
	if err != nil {
		return "", false, fmt.Errorf("look at root file system %s: %w", root, err)
	}
	if digest, ok := c.find(key); ok {
		return digest, false, nil
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return "", false, fmt.Errorf("make directory of root file systems: %w", err)
	}
	lock, err := lockfile.Directory(ctx, c.Dir) // twenty containers of one image make it once
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, lock.Leave()) }()
	if digest, ok := c.find(key); ok {
		return digest, false, nil
	}
	digest, err = c.make(ctx, root, user, key)
	if err != nil {
		return "", false, fmt.Errorf("make image of root file system %s: %w", root, err)
	}
	return digest, true, nil
}

func (c Cache) path(id string) string { return filepath.Join(c.Dir, id+".json") }

// find looks key up; an image that was removed since is none.
func (c Cache) find(key Key) (digest string, ok bool) {
	data, err := os.ReadFile(c.path(key.ID))
	if err != nil {
		return "", false
	}
	var e entry
	if json.Unmarshal(data, &e) != nil {
		return "", false
	}
	if _, err := c.Images.Resolve(e.Digest); err != nil {
		return "", false
	}
	return e.Digest, true
}

// make makes the image and remembers it.
func (c Cache) make(ctx context.Context, root string, user User, key Key) (string, error) {
	tree, meta, err := image.Import(ctx, root, image.ImportConfig{
		Tree: image.TreeConfig{SpoolDir: c.Dir}, Kind: image.KindDirectory, DropSetuid: true, DropSpecial: true, Mode: user.mode,
	})
	if err != nil {
		return "", err
	}
	defer tree.Close() // was only read
	if err := prepare(tree, &meta); err != nil {
		return "", err
	}
	meta.Source = "root file system " + key.ID[:12]
	img, err := c.Images.Put(ctx, tree.WriteEROFS, meta, TagPrefix+key.ID[:40])
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(entry{img.Digest.String(), key.Layers})
	if err != nil {
		return "", err
	}
	return img.Digest.String(), atomicfile.Write(c.path(key.ID), data, 0o600)
}

// supplied are files that a sandbox lays others over, or that keep ordinary programs from what they must not read. A name
// service that has accounts from nowhere makes ls show numbers; with the usual one it would open /etc/passwd and end the run.
var supplied = []struct {
	name, content string
	always        bool
}{
	{"/etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost\n", false},
	{"/etc/hostname", "silk\n", false},
	{"/etc/resolv.conf", "nameserver 127.0.0.1\n", true},
	{"/etc/nsswitch.conf", "passwd: cache\ngroup: cache\nshadow: cache\ngshadow:\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n", true},
}

// prepare makes tree one for a sandbox.
func prepare(tree *image.Tree, meta *image.Meta) error {
	removed, err := tree.Without(rules.Forbidden())
	if err != nil {
		return err
	}
	for _, name := range removed {
		meta.Dropped = append(meta.Dropped, "forbidden "+name)
	}
	for _, f := range supplied {
		if e, ok := tree.Lookup(f.name); ok && e.Mode.IsRegular() && !f.always { // nothing is laid over what a link leads to
			continue
		}
		if err := tree.AddFile(f.name, 0o644, tree.Epoch(), strings.NewReader(f.content)); err != nil {
			return err
		}
	}
	meta.Trees = tree.Trees()
	return nil
}

// Prune removes the images of root directories whose layers are gone, or with dry only names them. On error the names are
// those dealt with.
func (c Cache) Prune(dry bool) (removed []string, err error) {
	entries, err := os.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list root file systems: %w", err)
	}
	var errs []error
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || len(id) < 40 || c.wanted(id) {
			continue
		}
		if !dry {
			if err := c.remove(id); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		removed = append(removed, TagPrefix+id[:40])
	}
	return removed, errors.Join(errs...)
}

// wanted says whether a container may come whose key is id.
func (c Cache) wanted(id string) bool {
	data, err := os.ReadFile(c.path(id))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	var e entry
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&e); err != nil {
		return false
	}
	for _, layer := range e.Layers {
		if _, err := os.Lstat(layer); errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

func (c Cache) remove(id string) error {
	if err := c.Images.Remove(TagPrefix + id[:40]); err != nil && !errors.Is(err, image.ErrNotFound) {
		return err
	}
	return os.Remove(c.path(id))
}
