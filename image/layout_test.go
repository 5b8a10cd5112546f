//go:build unix

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/klauspost/compress/gzip"
)

// linuxAMD64 is an image whose layers are archives.
func linuxAMD64(t testing.TB, layers ...[]byte) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: "amd64",
		Config: v1.Config{Env: []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}, Entrypoint: []string{"node"}, Cmd: []string{"/app/main.js"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range layers {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil })
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// asLayout writes images into a new OCI image layout, the first for linux/amd64.
func asLayout(t testing.TB, images ...v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for i, img := range images {
		platform := v1.Platform{OS: "linux", Architecture: []string{"amd64", "arm64", "unknown"}[i]}
		if err := path.AppendImage(img, layout.WithPlatform(platform)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tarOf packs a directory as it is.
func tarOf(t testing.TB, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func compressed(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func asDockerArchive(t testing.TB, images ...v1.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	refs := map[name.Reference]v1.Image{}
	for i, img := range images {
		tag, err := name.NewTag(fmt.Sprintf("test/image:%d", i))
		if err != nil {
			t.Fatal(err)
		}
		refs[tag] = img
	}
	if err := tarball.MultiRefWrite(refs, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestLayers(t *testing.T) {
	for _, test := range []struct {
		name   string
		layers [][]string
		want   []string
	}{
		{"a later layer wins", [][]string{{"a=1", "b=1"}, {"b=2"}}, []string{
			`-rw-r--r-- /a = "1"`, `-rw-r--r-- /b = "2"`,
		}},
		{"whiteout", [][]string{{"d/a=1", "d/b=1", "e/x=1"}, {"d/.wh.a", ".wh.e", ".wh.none"}}, []string{
			`drwxr-xr-x /d`, `-rw-r--r-- /d/b = "1"`,
		}},
		{"whiteout of a link leaves what it leads to", [][]string{{"usr/bin/x=1", "bin -> usr/bin"}, {".wh.bin"}}, []string{
			`drwxr-xr-x /usr`, `drwxr-xr-x /usr/bin`, `-rw-r--r-- /usr/bin/x = "1"`,
		}},
		{"whiteout through a link", [][]string{{"usr/bin/x=1", "bin -> usr/bin"}, {"bin/.wh.x"}}, []string{
			`Lrwxrwxrwx /bin -> usr/bin`, `drwxr-xr-x /usr`, `drwxr-xr-x /usr/bin`,
		}},
		{"a whiteout comes back", [][]string{{"a=1"}, {".wh.a"}, {"a=3"}}, []string{`-rw-r--r-- /a = "3"`}},
		{"whiteouts do not touch their own layer", [][]string{{"a=1", "d/old=1"}, {"a=2", ".wh.a", "d/new=2", ".wh.d"}}, []string{
			`-rw-r--r-- /a = "2"`, `drwxr-xr-x /d`, `-rw-r--r-- /d/new = "2"`,
		}},
		{"opaque directory", [][]string{{"o/old=1", "o/sub/old=1", "p=1"}, {"o/", "o/.wh..wh..opq", "o/new=2"}}, []string{
			`drwxr-xr-x /o`, `-rw-r--r-- /o/new = "2"`, `-rw-r--r-- /p = "1"`,
		}},
		{"opaque mark last", [][]string{{"o/old=1", "o/sub/old=1"}, {"o/new=2", "o/sub/", "o/sub/new=2", "o/.wh..wh..opq"}}, []string{
			`drwxr-xr-x /o`, `-rw-r--r-- /o/new = "2"`, `drwxr-xr-x /o/sub`, `-rw-r--r-- /o/sub/new = "2"`,
		}},
		{"what aufs kept for itself", [][]string{{"a=1", ".wh..wh.plnk/1.2=x", ".wh..wh.aufs="}}, []string{`-rw-r--r-- /a = "1"`}},
		{"hard links keep the old content", [][]string{{"a=old", "b => a"}, {"a=new"}}, []string{
			`-rw-r--r-- /a = "new"`, `-rw-r--r-- /b = "old"`,
		}},
		{"hard link to a lower layer", [][]string{{"a=1"}, {"b => a"}, {".wh.a"}}, []string{`-rw-r--r-- /b = "1"`}},
		{"a file replaces a directory", [][]string{{"d/x=1"}, {"d=2"}}, []string{`-rw-r--r-- /d = "2"`}},
		{"a directory replaces a file", [][]string{{"d=1"}, {"d/", "d/x=2"}}, []string{`drwxr-xr-x /d`, `-rw-r--r-- /d/x = "2"`}},
		{"a directory replaces a link", [][]string{{"t/x=1", "d -> t"}, {"d/", "d/y=2"}}, []string{
			`drwxr-xr-x /d`, `-rw-r--r-- /d/y = "2"`, `drwxr-xr-x /t`, `-rw-r--r-- /t/x = "1"`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var layers [][]byte
			for _, lines := range test.layers {
				layers = append(layers, archive(t, lines...))
			}
			img := linuxAMD64(t, layers...)
			dir := asLayout(t, img)
			for kind, path := range map[string]string{
				"layout":            dir,
				"layout in tar":     writeTemp(t, tarOf(t, dir)),
				"layout in tar.gz":  writeTemp(t, compressed(t, tarOf(t, dir))),
				"docker archive":    writeTemp(t, asDockerArchive(t, img)),
				"docker archive gz": writeTemp(t, compressed(t, asDockerArchive(t, img))),
			} {
				tree, meta, err := importPath(t, path, ImportConfig{})
				if err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				if diff := cmp.Diff(test.want, contents(t, tree)); diff != "" {
					t.Errorf("%s: %s", kind, diff)
				}
				if diff := cmp.Diff(map[string]string{"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}, meta.Env); diff != "" {
					t.Errorf("%s: %s", kind, diff)
				}
				if diff := cmp.Diff([]string{"node", "/app/main.js"}, meta.Command); diff != "" {
					t.Errorf("%s: %s", kind, diff)
				}
			}
		})
	}
}

// TestOldDockerArchive reads what docker wrote before version 25: a directory for each layer, and a symbolic link where
// a layer is the same as an earlier one.
func TestOldDockerArchive(t *testing.T) {
	first, second := archive(t, "a=1", "b=1"), archive(t, ".wh.b")
	config := fmt.Sprintf(`{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":["%v","%v","%v"]}}`,
		sumOf(first), sumOf(second), sumOf(first))
	lines := func(third string) []string {
		return []string{
			"id1/", "id1/layer.tar=" + string(first), "id2/layer.tar=" + string(second), third, "conf.json=" + config,
			`manifest.json=[{"Config":"conf.json","RepoTags":["x:y"],"Layers":["id1/layer.tar","id2/layer.tar","id3/layer.tar"]}]`,
		}
	}
	tree, _, err := importBytes(t, archive(t, lines("id3/layer.tar -> ../id1/layer.tar")...), ImportConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`-rw-r--r-- /a = "1"`, `-rw-r--r-- /b = "1"`}, contents(t, tree)); diff != "" {
		t.Error(diff)
	}
	for _, target := range []string{"../id3/layer.tar", "../../../../etc/passwd", "/etc/passwd"} {
		if _, _, err := importBytes(t, archive(t, lines("id3/layer.tar -> "+target)...), ImportConfig{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("link to %s: %v", target, err)
		}
	}
	if _, _, err := importBytes(t, archive(t, lines("id3/layer.tar="+string(second))...), ImportConfig{}); !errors.Is(err, ErrDigest) {
		t.Errorf("another third layer: %v", err)
	}
}

func TestLayersDropSetuid(t *testing.T) {
	su := special(t, tar.Header{Typeflag: tar.TypeReg, Name: "usr/bin/su", Mode: 0o4755})
	_, meta, err := importPath(t, asLayout(t, linuxAMD64(t, su)), ImportConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"setuid /usr/bin/su"}, meta.Dropped); diff != "" {
		t.Error(diff)
	}
	device := special(t, tar.Header{Typeflag: tar.TypeBlock, Name: "dev/sda"})
	if _, _, err := importPath(t, asLayout(t, linuxAMD64(t, device)), ImportConfig{}); !errors.Is(err, ErrSpecial) {
		t.Errorf("device: %v", err)
	}
}

func TestLayoutRefuses(t *testing.T) {
	good := linuxAMD64(t, archive(t, "a=1"))
	other := linuxAMD64(t, archive(t, "b=1"))
	blob := func(h v1.Hash, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return "blobs/sha256/" + h.Hex
	}
	layerOf := func(img v1.Image) v1.Layer {
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		return layers[0]
	}
	replace := func(dir, blob, with string) error {
		data, err := os.ReadFile(filepath.Join(dir, with))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, blob), data, 0o644)
	}
	manifest, config, layer := blob(good.Digest()), blob(good.ConfigName()), blob(layerOf(good).Digest())
	otherManifest, otherConfig, otherLayer := blob(other.Digest()), blob(other.ConfigName()), blob(layerOf(other).Digest())
	index := func(dir, json string) error {
		return os.WriteFile(filepath.Join(dir, "index.json"), []byte(json), 0o644)
	}
	for _, test := range []struct {
		name string
		do   func(dir string) error
		want error
	}{
		{"another manifest", func(d string) error { return replace(d, manifest, otherManifest) }, ErrDigest},
		{"another configuration", func(d string) error { return replace(d, config, otherConfig) }, ErrDigest},
		{"another layer", func(d string) error { return replace(d, layer, otherLayer) }, ErrDigest},
		{"no manifest", func(d string) error { return os.Remove(filepath.Join(d, manifest)) }, fs.ErrNotExist},
		{"no layer", func(d string) error { return os.Remove(filepath.Join(d, layer)) }, fs.ErrNotExist},
		{"a truncated layer", func(d string) error { return os.Truncate(filepath.Join(d, layer), 40) }, nil},
		{"a layer that is a link out", func(d string) error {
			return errors.Join(os.Remove(filepath.Join(d, layer)), os.Symlink("/etc/passwd", filepath.Join(d, layer)))
		}, nil},
		{"an index that is no JSON", func(d string) error { return index(d, "{") }, nil},
		{"an empty index", func(d string) error { return index(d, "{}") }, nil},
		{"a digest that is a path", func(d string) error {
			return index(d, `{"manifests":[{"mediaType":"`+mediaManifest+`","digest":"sha256:../../../etc/passwd"}]}`)
		}, nil},
		{"two manifests for one platform", func(d string) error {
			data, err := os.ReadFile(filepath.Join(d, "index.json"))
			if err != nil {
				return err
			}
			return index(d, strings.ReplaceAll(string(data), "arm64", "amd64"))
		}, nil},
		{"a huge index", func(d string) error { return index(d, strings.Repeat(" ", 9<<20)) }, ErrTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := asLayout(t, good, other)
			if err := test.do(dir); err != nil {
				t.Fatal(err)
			}
			_, _, err := importPath(t, dir, ImportConfig{})
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
		})
	}
	if _, _, err := importPath(t, asLayout(t, good, other), ImportConfig{}); err != nil {
		t.Errorf("of two platforms, one fits: %v", err)
	}
	var refused *RefusedError
	if _, _, err := importBytes(t, asDockerArchive(t, good, other), ImportConfig{}); !errors.As(err, &refused) {
		t.Errorf("two images in a docker archive: %v", err)
	}
}

func TestAnotherPlatformIsRefused(t *testing.T) {
	for _, config := range []v1.ConfigFile{{OS: "linux", Architecture: "arm64"}, {OS: "windows", Architecture: "amd64"}} {
		img, err := mutate.ConfigFile(empty.Image, &config)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = importBytes(t, asDockerArchive(t, img), ImportConfig{})
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), config.OS+"/"+config.Architecture) {
			t.Errorf("error is %v", err)
		}
	}
}

func TestNestedIndexes(t *testing.T) {
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: linuxAMD64(t, archive(t, "a=1"))})
	for depth := 1; depth <= maxIndexDepth+1; depth++ { // index.json is the outermost
		dir := t.TempDir()
		if _, err := layout.Write(dir, index); err != nil {
			t.Fatal(err)
		}
		_, _, err := importPath(t, dir, ImportConfig{})
		if fits := depth <= maxIndexDepth; (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "nested more than 4 deep") {
			t.Errorf("%d indexes: error is %v", depth, err)
		}
		index = mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index})
	}
}

// loop is a set of blobs in which an index leads to itself; no such thing can have a true digest.
type loop struct{}

func (loop) Open(_ context.Context, blob Blob) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(`{"manifests":[{"mediaType":"` + mediaIndex + `","digest":"` + blob.Digest.String() + `"}]}`)), nil
}

func TestImportOCIChecksTheFirstDigest(t *testing.T) {
	if _, _, err := ImportOCI(t.Context(), loop{}, sumOf(nil), ImportConfig{Tree: TreeConfig{SpoolDir: t.TempDir()}}); !errors.Is(err, ErrDigest) {
		t.Errorf("error is %v", err)
	}
}

func TestExport(t *testing.T) {
	store := openStore(t, Config{Home: t.TempDir()})
	tree := build(t, sampleSteps())
	if err := EnsureMountpoints(tree); err != nil {
		t.Fatal(err)
	}
	if err := tree.AddDir("/", 0o711); err != nil {
		t.Fatal(err)
	}
	img, err := store.Put(t.Context(), tree.WriteEROFS, Meta{Source: "test", Env: map[string]string{"PATH": "/bin", "A": "b=c"}, Command: []string{"sh", "-c", "true"}}, "lab:sample")
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	var done, total int64
	if err := store.Export(t.Context(), "lab:sample", &first, func(d, all int64, _ string) { done, total = d, all }); err != nil {
		t.Fatal(err)
	}
	if err := store.Export(t.Context(), "lab:sample", &second, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("a second export has other bytes")
	}
	if done == 0 || done > total {
		t.Errorf("progress ended at %d of %d", done, total)
	}

	dir := t.TempDir()
	r := tar.NewReader(&second)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index, validate.Fast); err != nil { // the slow way knows only gzip
		t.Errorf("not a valid layout: %v", err)
	}
	docker, err := tarball.ImageFromPath(writeTemp(t, first.Bytes()), nil)
	if err != nil {
		t.Fatalf("docker load would not read it: %v", err)
	}
	if err := validate.Image(docker); err != nil {
		t.Errorf("docker load would not read it: %v", err)
	}

	unpacked := filepath.Join(t.TempDir(), "layout")
	if err := store.ExportLayout(t.Context(), "lab:sample", unpacked, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(filesBelow(t, dir), filesBelow(t, unpacked)); diff != "" {
		t.Errorf("a layout in a directory is not what is in the archive: %s", diff)
	}
	if err := store.ExportLayout(t.Context(), "lab:sample", unpacked, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another layout: error is %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	defer cancel()
	nowhere := t.TempDir()
	err = store.ExportLayout(canceled, "lab:sample", filepath.Join(nowhere, "x"), func(int64, int64, string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: error is %v", err)
	}
	if left := filesBelow(t, nowhere); len(left) > 0 {
		t.Errorf("a canceled export left %v", left)
	}

	back, meta, err := importBytes(t, first.Bytes(), ImportConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if got := sumOf(encode(t, back)); got != img.Digest {
		t.Errorf("import of an export has digest %v, want %v", got, img.Digest)
	}
	if diff := cmp.Diff(map[string]string{"PATH": "/bin", "A": "b=c"}, meta.Env); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"sh", "-c", "true"}, meta.Command); diff != "" {
		t.Error(diff)
	}
	if err := store.Export(t.Context(), "none", io.Discard, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("error is %v", err)
	}
}

// filesBelow are the files in a directory, by their names and contents.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
