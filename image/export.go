package image

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Export writes an image as an OCI image layout in a tar archive, which docker load, podman load and skopeo read, and
// [Import] too. It has one uncompressed layer and is the same bytes each time. A tag given as ref becomes the name of
// the image in the layout.
func (s *Store) Export(ctx context.Context, ref string, w io.Writer, progress Progress) error {
	return s.export(ctx, ref, func(tree *Tree, meta Meta) error {
		_, err := writeArchive(ctx, tree, meta, func(Digest) string { return ref }, w, progress)
		return err
	})
}

// Archive writes the image in an EROFS file, which stays open, as [Store.Export] writes one of a store, for an engine that
// is to run it: under a name, and the beginning of its layer's digest as the tag. It returns what a Docker Engine calls the image afterwards, its id: the digest of its configuration. The content is
// read twice, and not kept.
func Archive(ctx context.Context, root *os.File, name string, w io.Writer) (id Digest, err error) {
	fd, err := dup(root)
	if err == nil {
		id, err = archiveOf(ctx, fd, name, w)
	}
	if err != nil {
		return Digest{}, fmt.Errorf("write archive of image %s: %w", name, err)
	}
	return id, nil
}

func archiveOf(ctx context.Context, root *os.File, name string, w io.Writer) (id Digest, err error) {
	tree, err := loadTree(ctx, root, TreeConfig{MaxBytes: 1<<63 - 2, MaxEntries: 1<<31 - 1})
	if err != nil {
		return Digest{}, errors.Join(err, root.Close())
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	return writeArchive(ctx, tree, Meta{}, func(layer Digest) string { return name + ":" + layer.Hex()[:24] }, w, nil)
}

// dup opens a file again that may have no name any more.
func dup(f *os.File) (*os.File, error) {
	r, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("open %s again: %w", f.Name(), err)
	}
	return r, nil
}

// export calls write with the files of an image and what is known about it.
func (s *Store) export(ctx context.Context, ref string, write func(*Tree, Meta) error) error {
	img, err := s.Resolve(ref)
	if err != nil {
		return err
	}
	meta, err := s.Meta(img)
	if err != nil {
		return err
	}
	tree, err := s.Tree(ctx, img, TreeConfig{MaxBytes: 1<<63 - 2, MaxEntries: 1<<31 - 1})
	if err == nil {
		err = errors.Join(write(tree, meta), tree.Close())
	}
	if err != nil {
		return fmt.Errorf("export image %s: %w", ref, err)
	}
	return nil
}

// writeArchive returns the digest of the configuration. ref names the image, by its layer.
func writeArchive(ctx context.Context, tree *Tree, meta Meta, ref func(layer Digest) string, w io.Writer, progress Progress) (Digest, error) {
	// A tar entry begins with its size, so the layer is written twice: once to measure it.
	layer := &measure{hash: sha256.New()}
	if err := tree.writeTar(&contextWriter{ctx, layer}, progress, "measure layer"); err != nil {
		return Digest{}, err
	}
	layerBlob := layer.descriptor()
	files, err := layoutFiles(tree.Epoch(), meta, layerBlob, ref(layerBlob.Digest))
	if err != nil {
		return Digest{}, err
	}
	out := layoutWriter{tar.NewWriter(&contextWriter{ctx, w}), tree.Epoch()}
	for _, file := range files {
		if err := out.header(file.name, int64(len(file.data))); err != nil {
			return Digest{}, err
		}
		if _, err := out.Write(file.data); err != nil {
			return Digest{}, err
		}
	}
	if err := out.header(blobName(layerBlob.Digest), layerBlob.Size); err != nil {
		return Digest{}, err
	}
	if err := tree.writeTar(out, progress, "write layer"); err != nil {
		return Digest{}, err
	}
	return sumOf(files[len(files)-1].data), out.Close()
}

type layoutFile struct {
	name string
	data []byte
}

func blobName(d Digest) string { return "blobs/sha256/" + d.Hex() }

// layoutFiles makes all of the layout but its layer.
func layoutFiles(epoch time.Time, meta Meta, layer ociDescriptor, ref string) ([]layoutFile, error) {
	platform := ociPlatform{Architecture: "amd64", OS: "linux"}
	config := ociConfig{
		Created:     epoch.Format(time.RFC3339),
		ociPlatform: platform,
		Config:      ociRuntime{WorkingDir: "/workspace", Cmd: meta.Command},
		RootFS:      ociRootFS{"layers", []Digest{layer.Digest}},
	}
	for _, key := range slices.Sorted(maps.Keys(meta.Env)) {
		config.Config.Env = append(config.Config.Env, key+"="+meta.Env[key])
	}
	configBlob, configFile, err := jsonBlob(mediaConfig, config)
	if err != nil {
		return nil, err
	}
	manifest := ociManifest{2, mediaManifest, configBlob, []ociDescriptor{layer}}
	manifestBlob, manifestFile, err := jsonBlob(mediaManifest, manifest)
	if err != nil {
		return nil, err
	}
	manifestBlob.Platform = &platform
	if checkTag(ref) == nil {
		manifestBlob.Annotations = map[string]string{annotationRef: ref}
	}
	index, err := json.Marshal(ociIndex{2, mediaIndex, []ociDescriptor{manifestBlob}})
	if err != nil {
		return nil, err
	}
	// docker load reads this one before version 25, and podman load.
	archive := []dockerImage{{Config: configFile.name, Layers: []string{blobName(layer.Digest)}}}
	if name, version, _ := strings.Cut(ref, ":"); checkTag(ref) == nil && ref == strings.ToLower(ref) && !strings.Contains(version, ":") {
		archive[0].RepoTags = []string{name + ":" + cmp.Or(version, "latest")}
	}
	docker, err := json.Marshal(archive)
	if err != nil {
		return nil, err
	}
	return []layoutFile{ // the configuration last: see writeArchive
		{"manifest.json", docker},
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", index},
		manifestFile,
		configFile,
	}, nil
}

func jsonBlob(mediaType string, value any) (ociDescriptor, layoutFile, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return ociDescriptor{}, layoutFile{}, err
	}
	d := sumOf(data)
	return ociDescriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}, layoutFile{blobName(d), data}, nil
}

// layoutWriter writes the outer archive.
type layoutWriter struct {
	*tar.Writer
	epoch time.Time
}

func (w layoutWriter) header(name string, size int64) error {
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: w.epoch})
}

// measure counts and hashes what is written to it.
type measure struct {
	hash hash.Hash
	size int64
}

func (m *measure) Write(p []byte) (int, error) {
	m.size += int64(len(p))
	return m.hash.Write(p)
}

// descriptor is that of a layer, when all of it was written.
func (m *measure) descriptor() ociDescriptor {
	return ociDescriptor{MediaType: mediaLayer, Digest: digestOf(m.hash.Sum(nil)), Size: m.size}
}

// writeTar writes the tree as a tar archive, in the order of a walk.
func (t *Tree) writeTar(w io.Writer, progress Progress, what string) error {
	out := tar.NewWriter(w)
	firsts := map[*node]string{}
	done := int64(0)
	for entry := range t.All() {
		header := &tar.Header{Name: "." + entry.Path, Mode: int64(unixMode(entry.Mode) & 0o7777), ModTime: entry.ModTime}
		first, again := firsts[entry.node]
		switch {
		case entry.Mode.IsDir():
			header.Typeflag, header.Name = tar.TypeDir, strings.TrimSuffix(header.Name, "/")+"/"
		case again:
			header.Typeflag, header.Linkname = tar.TypeLink, first
		case entry.Mode&fs.ModeSymlink != 0:
			header.Typeflag, header.Linkname = tar.TypeSymlink, entry.Target
		default:
			header.Typeflag, header.Size = tar.TypeReg, entry.Size
		}
		if entry.Links > 1 && !again {
			firsts[entry.node] = header.Name
		}
		if err := out.WriteHeader(header); err != nil {
			return fmt.Errorf("%q: %w", entry.Path, err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{t.open(entry.node)}, t.buffer); err != nil {
				return fmt.Errorf("%q: %w", entry.Path, err)
			}
			done += entry.Size
			progress.report(done, t.bytes, what)
		}
	}
	return out.Close()
}
