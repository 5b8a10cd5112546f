package image

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
)

// Blob names one blob of an OCI image, as a descriptor does.
type Blob struct {
	Digest    Digest
	MediaType string // empty: a manifest or index, not known which
	SizeBytes int64  // 0 if not known
}

// Blobs is where the blobs of an OCI image are, such as a registry.
type Blobs interface {
	// Open reads a blob as it is stored. What it yields need not be trusted: it is checked against the digest of the
	// blob or, for layers, that of the unpacked layer.
	Open(ctx context.Context, blob Blob) (io.ReadCloser, error)
}

// ImportOCI reads the image whose manifest, or index with a manifest for linux/amd64, is root. The caller closes the
// tree. Of config, Kind and DropSetuid are not used.
func ImportOCI(ctx context.Context, blobs Blobs, root Digest, config ImportConfig) (*Tree, Meta, error) {
	imp, err := newImporter(config)
	if err != nil {
		return nil, Meta{}, err
	}
	return imp.finish(imp.fromManifest(ctx, blobs, ociDescriptor{Digest: root}, 0))
}

// layoutBlobs are the blobs of an image layout.
type layoutBlobs struct{ files }

func (b layoutBlobs) Open(_ context.Context, blob Blob) (io.ReadCloser, error) {
	return b.open(blobName(blob.Digest))
}

// fromLayout imports an OCI image layout.
func (i *importer) fromLayout(ctx context.Context, in files) error {
	r, err := in.open("index.json")
	if err != nil {
		return fmt.Errorf("open image layout: %w", err)
	}
	defer r.Close()
	var index ociIndex
	if err := readJSON(r, "index.json", Digest{}, &index); err != nil {
		return err
	}
	return i.fromIndex(ctx, layoutBlobs{in}, "index.json", index, 0)
}

// maxIndexDepth is how deep indexes may nest; one level is common.
const maxIndexDepth = 4

// fromIndex chooses the one image for linux/amd64.
func (i *importer) fromIndex(ctx context.Context, blobs Blobs, name string, index ociIndex, depth int) error {
	var fitting, all []ociDescriptor
	for _, d := range index.Manifests {
		if d.MediaType != mediaManifest && d.MediaType != mediaIndex && d.MediaType != dockerManifest && d.MediaType != dockerIndex {
			continue
		}
		all = append(all, d)
		if d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == "amd64" {
			fitting = append(fitting, d)
		}
	}
	if len(fitting) == 0 && len(all) == 1 && all[0].Platform == nil {
		fitting = all
	}
	if len(fitting) != 1 {
		return &RefusedError{name, fmt.Errorf("%d images, of which %d for linux/amd64; want exactly one", len(all), len(fitting))}
	}
	return i.fromManifest(ctx, blobs, fitting[0], depth+1)
}

// fromManifest imports the image that a descriptor leads to. Each step is checked by the digest in the one before: the
// manifest's is given, the manifest names the configuration, and that names the unpacked layers.
func (i *importer) fromManifest(ctx context.Context, blobs Blobs, d ociDescriptor, depth int) error {
	if depth > maxIndexDepth {
		return &RefusedError{d.Digest.String(), fmt.Errorf("indexes nested more than %d deep", maxIndexDepth)}
	}
	var either struct {
		ociManifest
		Manifests []ociDescriptor `json:"manifests"`
	}
	if err := readBlob(ctx, blobs, d, &either); err != nil {
		return err
	}
	if len(either.Manifests) > 0 {
		return i.fromIndex(ctx, blobs, d.Digest.String(), ociIndex{Manifests: either.Manifests}, depth)
	}
	var config ociConfig
	if err := readBlob(ctx, blobs, either.Config, &config); err != nil {
		return err
	}
	if len(config.RootFS.DiffIDs) != len(either.Layers) {
		return &RefusedError{d.Digest.String(), fmt.Errorf("%d layers, but %d digests of them", len(either.Layers), len(config.RootFS.DiffIDs))}
	}
	return i.fromLayers(ctx, either.Config.Digest.String(), config, func(n int) (io.ReadCloser, error) {
		layer := either.Layers[n]
		r, err := blobs.Open(ctx, layer.blob())
		if err != nil {
			return nil, fmt.Errorf("open layer %s: %w", layer.Digest.Short(), err)
		}
		return watchedCloser{i.watched(r, layer.Size, fmt.Sprintf("layer %d of %d", n+1, len(either.Layers))), r}, nil
	})
}

func (d ociDescriptor) blob() Blob { return Blob{d.Digest, d.MediaType, d.Size} }

type watchedCloser struct {
	io.Reader
	io.Closer
}

func readBlob(ctx context.Context, blobs Blobs, d ociDescriptor, into any) error {
	if d.Digest.IsZero() {
		return &RefusedError{"a descriptor", fmt.Errorf("it has no digest")}
	}
	r, err := blobs.Open(ctx, d.blob())
	if err != nil {
		return fmt.Errorf("open blob %s: %w", d.Digest.Short(), err)
	}
	defer r.Close()
	return readJSON(r, d.Digest.String(), d.Digest, into)
}

// fromLayers applies the layers of an image, lowest first.
func (i *importer) fromLayers(ctx context.Context, name string, config ociConfig, open func(n int) (io.ReadCloser, error)) error {
	if config.OS != "" && config.OS != "linux" || config.Architecture != "" && config.Architecture != "amd64" {
		return &RefusedError{name, fmt.Errorf("it is for %s/%s; want linux/amd64", config.OS, config.Architecture)}
	}
	for n, want := range config.RootFS.DiffIDs {
		if err := i.fromLayer(ctx, want, n, open); err != nil {
			return fmt.Errorf("layer %d: %w", n+1, err)
		}
	}
	for _, variable := range config.Config.Env {
		key, value, ok := strings.Cut(variable, "=")
		if !ok {
			continue
		}
		if i.meta.Env == nil {
			i.meta.Env = map[string]string{}
		}
		i.meta.Env[key] = value
	}
	i.meta.Command = append(config.Config.Entrypoint, config.Config.Cmd...)
	return nil
}

func (i *importer) fromLayer(ctx context.Context, want Digest, n int, open func(n int) (io.ReadCloser, error)) error {
	packed, err := open(n)
	if err != nil {
		return err
	}
	defer packed.Close()
	r, err := decompress(packed)
	if err != nil {
		return err
	}
	hash := sha256.New()
	l := layer{importer: i, dropSetuid: true, whiteouts: true}
	if err := l.apply(ctx, io.TeeReader(i.bounded(r), hash)); err != nil {
		return err
	}
	if digestOf(hash.Sum(nil)) != want {
		return &RefusedError{want.String(), ErrDigest}
	}
	return nil
}

// fromDockerArchive imports what docker save wrote: docker's image spec v1.2, "Combined Image JSON + Filesystem
// Changeset Format". Its manifest has no digests, but the configuration has those of the layers.
func (i *importer) fromDockerArchive(ctx context.Context, in files) error {
	var manifest []dockerImage
	if err := readFile(in, "manifest.json", &manifest); err != nil {
		return err
	}
	if len(manifest) != 1 {
		return &RefusedError{"manifest.json", fmt.Errorf("%d images; want exactly one: docker save one image at a time", len(manifest))}
	}
	var config ociConfig
	if err := readFile(in, manifest[0].Config, &config); err != nil {
		return err
	}
	layers := manifest[0].Layers
	if len(config.RootFS.DiffIDs) != len(layers) {
		return &RefusedError{"manifest.json", fmt.Errorf("%d layers, but %d digests of them", len(layers), len(config.RootFS.DiffIDs))}
	}
	return i.fromLayers(ctx, manifest[0].Config, config, func(n int) (io.ReadCloser, error) {
		r, err := in.open(layers[n])
		if err != nil {
			return nil, err
		}
		return watchedCloser{i.watched(r, -1, fmt.Sprintf("layer %d of %d", n+1, len(layers))), r}, nil
	})
}

func readFile(in files, name string, into any) error {
	r, err := in.open(name)
	if err != nil {
		return fmt.Errorf("open archive: %w", err)
	}
	defer r.Close()
	return readJSON(r, name, Digest{}, into)
}
