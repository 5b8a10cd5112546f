package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestArchiveIsWhatAnEngineLoads: the id that is returned is the name of the configuration, which the list of the archive names, and the
// file stays open.
func TestArchiveIsWhatAnEngineLoads(t *testing.T) {
	tree, err := NewTree(TreeConfig{Epoch: time.Unix(1e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if err := errors.Join(tree.AddDir("/usr", 0o755), tree.AddFile("/usr/a", 0o644, time.Unix(1e9, 0), strings.NewReader("content"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := tree.WriteEROFS(f); err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var first, second bytes.Buffer
	id, err := Archive(context.Background(), root, "silk", &first)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Archive(context.Background(), root, "silk", &second); err != nil || again != id || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("again it is %s, %v, and %d bytes", again, err, second.Len())
	}
	files := map[string]string{}
	for in := tar.NewReader(&first); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(content)
	}
	var list []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal([]byte(files["manifest.json"]), &list); err != nil || len(list) != 1 {
		t.Fatalf("manifest.json: %v, %q", err, files["manifest.json"])
	}
	if list[0].Config != "blobs/sha256/"+id.Hex() || len(list[0].RepoTags) != 1 || list[0].RepoTags[0] != "silk:"+filepath.Base(list[0].Layers[0])[:24] {
		t.Errorf("the list has %+v, want configuration %s", list[0], id)
	}
	if got := sumOf([]byte(files[list[0].Config])); got != id {
		t.Errorf("the configuration has the digest %s, not %s", got, id)
	}
	if !strings.Contains(files[list[0].Layers[0]], "content") {
		t.Error("the layer does not have the file")
	}
	if _, err := root.Stat(); err != nil {
		t.Errorf("the file was closed: %v", err)
	}
}
