// Package registry pulls images from OCI registries into an [image.Tree].
//
// It is apart from package image so that what only runs images links no registry client. Only references pinned by a
// digest are pulled, and everything that arrives is checked against that digest, so it does not matter which registry
// or proxy answers. No credentials are used: what needs a login is exported by the tool that has it, and imported.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/silk-sandbox/silk/image"
)

// Config says how to pull. The zero value works.
type Config struct {
	Tree        image.TreeConfig
	DropSpecial bool              // as image.ImportConfig
	Transport   http.RoundTripper // nil means one with time limits that honours HTTPS_PROXY
	Progress    image.Progress    // bytes of each layer as they are sent
}

// ErrUnpinned is returned for a reference without a digest.
var ErrUnpinned = errors.New("the reference is not pinned by a digest")

// Pull fetches the image that ref names, NAME@sha256:..., and returns it as a tree, which the caller closes. The digest
// may be that of an index, of which the image for linux/amd64 is taken. A registry at localhost or 127.0.0.1 is spoken
// to in plain HTTP.
func Pull(ctx context.Context, ref string, config Config) (*image.Tree, image.Meta, error) {
	tree, meta, err := pull(ctx, ref, config)
	if err != nil {
		return nil, image.Meta{}, fmt.Errorf("pull %s: %w", ref, err)
	}
	meta.Source = "pull " + ref
	return tree, meta, nil
}

func pull(ctx context.Context, ref string, config Config) (*image.Tree, image.Meta, error) {
	if !strings.Contains(ref, "@") {
		return nil, image.Meta{}, fmt.Errorf("%w: write NAME@sha256:DIGEST, which `docker buildx imagetools inspect %s` or the registry's page shows", ErrUnpinned, ref)
	}
	pinned, err := name.NewDigest(ref)
	if err != nil {
		return nil, image.Meta{}, err
	}
	if strings.Contains(pinned.RepositoryStr(), "..") { // it becomes part of a URL's path
		return nil, image.Meta{}, fmt.Errorf("the name contains .. (%s)", pinned.RepositoryStr())
	}
	root, err := image.ParseDigest(pinned.DigestStr())
	if err != nil {
		return nil, image.Meta{}, err
	}
	options := []remote.Option{remote.WithContext(ctx)}
	if config.Transport != nil {
		options = append(options, remote.WithTransport(config.Transport))
	}
	puller, err := remote.NewPuller(options...)
	if err != nil {
		return nil, image.Meta{}, err
	}
	return image.ImportOCI(ctx, &blobs{pinned.Context(), puller}, root, image.ImportConfig{
		Tree:        config.Tree,
		DropSpecial: config.DropSpecial,
		Progress:    config.Progress,
	})
}

// blobs are those of one repository.
type blobs struct {
	repository name.Repository
	puller     *remote.Puller
}

// Open implements [image.Blobs]. Manifests and other blobs are at different addresses.
func (b *blobs) Open(ctx context.Context, blob image.Blob) (io.ReadCloser, error) {
	at := b.repository.Digest(blob.Digest.String())
	kind := types.MediaType(blob.MediaType)
	if blob.MediaType == "" || kind.IsImage() || kind.IsIndex() {
		manifest, err := b.puller.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		return io.NopCloser(strings.NewReader(string(manifest.Manifest))), nil
	}
	layer, err := b.puller.Layer(ctx, at)
	if err != nil {
		return nil, err
	}
	return layer.Compressed()
}
