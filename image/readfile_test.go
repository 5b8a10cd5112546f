package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadFile(t *testing.T) {
	tree, err := NewTree(TreeConfig{Epoch: time.Unix(1e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	err = errors.Join(
		tree.AddFile("/etc/hosts", 0o644, time.Unix(1e9, 0), strings.NewReader("127.0.0.1 localhost\n")),
		tree.AddFile("/etc/empty", 0o644, time.Unix(1e9, 0), strings.NewReader("")),
		tree.AddSymlink("/etc/near", "hosts"),
		tree.AddSymlink("/far", "/etc/near"),
		tree.AddSymlink("/out", "../../../../etc/hosts"),
		tree.AddSymlink("/nowhere", "/etc/none"),
	)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := tree.WriteEROFS(f); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, file, want string
		fails            error
	}{
		{"a file", "/etc/hosts", "127.0.0.1 localhost\n", nil},
		{"an empty one", "/etc/empty", "", nil},
		{"by a link", "/etc/near", "127.0.0.1 localhost\n", nil},
		{"by two links", "/far", "127.0.0.1 localhost\n", nil},
		{"by a link that seems to lead out", "/out", "127.0.0.1 localhost\n", nil},
		{"by a link to nothing", "/nowhere", "", fs.ErrNotExist},
		{"nothing", "/etc/none", "", fs.ErrNotExist},
		{"a directory", "/etc", "", fs.ErrInvalid},
	} {
		got, err := ReadFile(f, test.file, 20)
		if string(got) != test.want || !errors.Is(err, test.fails) {
			t.Errorf("%s: %q, %v, want %q, %v", test.name, got, err, test.want, test.fails)
		}
	}
	if got, err := ReadFile(f, "/etc/hosts", 19); err == nil {
		t.Errorf("a file that is too large: %q", got)
	}
	if _, err := ReadFile(os.Stdin, "/etc/hosts", 20); !errors.Is(err, ErrCorrupt) {
		t.Errorf("what is no image: %v", err)
	}
}
