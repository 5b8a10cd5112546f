package registry

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/silk-sandbox/silk/image"
)

// layerOf is a layer of files with the given contents.
func layerOf(t *testing.T, files ...[2]string) v1.Layer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

// imageFor is an image for a platform with two layers, of which the second deletes a file of the first.
func imageFor(t *testing.T, architecture string) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: architecture, Config: v1.Config{Env: []string{"PATH=/bin"}}})
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.AppendLayers(img,
		layerOf(t, [2]string{"etc/a", architecture}, [2]string{"etc/b", "gone"}),
		layerOf(t, [2]string{"etc/.wh.b", ""}))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// serve starts a registry on the loopback interface and returns its host:port. alter may change what it answers.
func serve(t *testing.T, alter func(w http.ResponseWriter, r *http.Request, next http.Handler)) string {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if alter != nil {
			alter(w, r, handler)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func push(t *testing.T, ref string, img v1.Image) string {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(parsed, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Context().Name() + "@" + digest.String()
}

func TestPull(t *testing.T) {
	host := serve(t, nil)
	pinned := push(t, host+"/test/image:1", imageFor(t, "amd64"))

	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: imageFor(t, "arm64"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}},
		mutate.IndexAddendum{Add: imageFor(t, "amd64"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
	tag, err := name.NewTag(host + "/test/index:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for what, ref := range map[string]string{"image": pinned, "index": tag.Context().Name() + "@" + digest.String()} {
		seen := int64(0)
		tree, meta, err := Pull(t.Context(), ref, Config{
			Tree:     image.TreeConfig{SpoolDir: t.TempDir()},
			Progress: func(done, _ int64, _ string) { seen = done },
		})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		r, err := tree.Open("/etc/a")
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got, err := io.ReadAll(r); string(got) != "amd64" || err != nil {
			t.Errorf("%s: /etc/a is %q, %v", what, got, err)
		}
		if _, ok := tree.Lookup("/etc/b"); ok {
			t.Errorf("%s: a deleted file is there", what)
		}
		if _, ok := tree.Lookup("/workspace"); !ok {
			t.Errorf("%s: no /workspace", what)
		}
		if meta.Source != "pull "+ref || meta.Env["PATH"] != "/bin" || seen == 0 {
			t.Errorf("%s: %+v, progress %d", what, meta, seen)
		}
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPullRefusesWhatIsNotPinned(t *testing.T) {
	asked := 0
	host := serve(t, func(http.ResponseWriter, *http.Request, http.Handler) { asked++ })
	for _, ref := range []string{host + "/a", host + "/a:latest", "debian"} {
		if _, _, err := Pull(t.Context(), ref, Config{}); !errors.Is(err, ErrUnpinned) {
			t.Errorf("Pull(%s): %v", ref, err)
		}
	}
	for _, ref := range []string{host + "/a@sha256:12", host + "/a@md5:12", "@", host + "/../a@sha256:" + strings.Repeat("0", 64)} {
		if _, _, err := Pull(t.Context(), ref, Config{}); err == nil {
			t.Errorf("Pull(%s) succeeded", ref)
		}
	}
	if asked > 0 {
		t.Errorf("the registry was asked %d times", asked)
	}
}

func TestPullChecksWhatArrives(t *testing.T) {
	other := imageFor(t, "amd64")
	other, err := mutate.AppendLayers(other, layerOf(t, [2]string{"etc/a", "evil"}))
	if err != nil {
		t.Fatal(err)
	}
	evil, err := other.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"/manifests/", "/blobs/"} {
		pushed := false
		host := serve(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if pushed && r.Method == http.MethodGet && strings.Contains(r.URL.Path, part) {
				w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
				_, _ = w.Write(evil)
				return
			}
			next.ServeHTTP(w, r)
		})
		ref := push(t, host+"/test/image:1", imageFor(t, "amd64"))
		pushed = true
		spool := t.TempDir()
		if tree, _, err := Pull(t.Context(), ref, Config{Tree: image.TreeConfig{SpoolDir: spool}}); err == nil {
			t.Errorf("a registry that lies about %s was believed: %v", part, tree)
		}
		if left, _ := os.ReadDir(spool); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestPullOfNothing(t *testing.T) {
	host := serve(t, nil)
	ref := host + "/none@sha256:" + strings.Repeat("0", 64)
	if _, _, err := Pull(t.Context(), ref, Config{}); err == nil || !strings.Contains(err.Error(), "none@sha256") {
		t.Errorf("error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Pull(ctx, ref, Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}
