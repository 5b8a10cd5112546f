package image

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/erofs/go-erofs"
	"github.com/google/go-cmp/cmp"
)

// step is one insertion. Steps of a sample may come in any order, except that a hard link follows its target.
type step struct {
	path string
	add  func(t *Tree) error
}

// sampleSteps makes everything that the format treats differently: sizes around a block, directories of several
// blocks and of almost one, long links, hard links, equal files, odd names, old and new modification times.
func sampleSteps() []step {
	old := time.Unix(1_000_000_000, 0)
	var steps []step
	file := func(path, content string, mode fs.FileMode, mtime time.Time) {
		steps = append(steps, step{path, func(t *Tree) error {
			return t.AddFile(path, mode, mtime, strings.NewReader(content))
		}})
	}
	dir := func(path string, mode fs.FileMode) {
		steps = append(steps, step{path, func(t *Tree) error { return t.AddDir(path, mode) }})
	}
	link := func(path, target string) {
		steps = append(steps, step{path, func(t *Tree) error { return t.AddSymlink(path, target) }})
	}
	dir("/", 0o755)
	dir("/tmp", fs.ModeSticky|0o777)
	dir("/empty", 0o700)
	for _, size := range []int{0, 1, 31, 4000, 4095, 4096, 4097, 8192, 100_000} {
		file(fmt.Sprintf("/sizes/%d", size), strings.Repeat("x", size), 0o640, old)
	}
	file("/etc/late", "clamped", 0o644, DefaultEpoch.Add(time.Hour))
	file("/etc/setuid", "dropped", 0o755|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky, old)
	file("/etc/same", "same content", 0o644, old)
	file("/usr/share/same", "same content", 0o600, old.Add(time.Second))
	link("/bin", "usr/bin")
	link("/etc/long", strings.Repeat("../etc/", 585)) // 4095 bytes
	link("/etc/medium", strings.Repeat("a", 1500))
	for i := range 700 {
		file(fmt.Sprintf("/many/%03d-%s", i, strings.Repeat("n", i%200)), fmt.Sprint("content ", i%50), 0o644, old)
	}
	for i := range 90 { // fills one block of directory entries almost to the last byte
		file(fmt.Sprintf("/full/%02d%s", i, strings.Repeat("f", 31)), "", 0o644, old)
	}
	for _, name := range []string{" ", "!", "-", "...", " .", "\xff\xfe", "a\nb", "ü", strings.Repeat("l", 255), "z"} {
		file("/odd/"+name, name, 0o644, old)
	}
	file("/usr/bin/perl", strings.Repeat("perl", 5000), 0o755, old)
	steps = append(steps, step{"/usr/bin/perl5", func(t *Tree) error {
		if _, ok := t.Lookup("/usr/bin/perl"); !ok {
			if err := t.AddFile("/usr/bin/perl", 0o755, old, strings.NewReader(strings.Repeat("perl", 5000))); err != nil {
				return err
			}
		}
		return t.AddHardlink("/usr/bin/perl5", "/usr/bin/perl")
	}})
	return steps
}

func newTree(t testing.TB) *Tree {
	t.Helper()
	tree, err := NewTree(TreeConfig{SpoolDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree
}

func build(t testing.TB, steps []step) *Tree {
	t.Helper()
	tree := newTree(t)
	for _, s := range steps {
		if err := s.add(tree); err != nil {
			t.Fatalf("add %q: %v", s.path, err)
		}
	}
	return tree
}

func encode(t testing.TB, tree *Tree) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := tree.WriteEROFS(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestEROFSIsTheSameWhateverTheOrder(t *testing.T) {
	steps := sampleSteps()
	last := len(steps) - 1
	want := encode(t, build(t, steps))
	if again := encode(t, build(t, steps)); !bytes.Equal(again, want) {
		t.Fatal("the same insertions gave other bytes")
	}
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 2))
		r.Shuffle(last, func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		if got := encode(t, build(t, steps)); !bytes.Equal(got, want) {
			t.Fatalf("shuffle %d gave other bytes", seed)
		}
	}
}

func TestEROFSReadsBackTheSame(t *testing.T) {
	tree := build(t, sampleSteps())
	raw := encode(t, tree)
	image, err := erofs.Open(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	inodes := map[string]int64{}
	got := map[string]string{}
	err = fs.WalkDir(image, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*erofs.Stat)
		content := ""
		switch {
		case info.Mode().IsRegular():
			data, err := fs.ReadFile(image, name)
			if err != nil {
				return err
			}
			content = string(data)
			if len(stat.Xattrs) > 0 || stat.InodeLayout != erofsPlain {
				t.Errorf("%q: layout %d, %d attributes; gVisor maps only plain ones", name, stat.InodeLayout, len(stat.Xattrs))
			}
		case info.Mode()&fs.ModeSymlink != 0:
			if content, err = fs.ReadLink(image, name); err != nil {
				return err
			}
		}
		if stat.UID != 0 || stat.GID != 0 {
			t.Errorf("%q: owned by %d:%d", name, stat.UID, stat.GID)
		}
		inodes[name] = stat.Ino
		if at := stat.Ino * erofsSlot; raw[at]&1 == 1 && at%erofsBlock > erofsBlock-erofsExtended {
			t.Errorf("%q: its inode crosses a block", name)
		}
		// info.Mode() of go-erofs v0.3.1 lacks the sticky bit; its Stat has it.
		got[cleaned(name)] = fmt.Sprintf("%v %d %d %q", stat.Mode, info.ModTime().Unix(), stat.Nlink, content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for e := range tree.All() {
		content, links := e.Target, e.Links
		if e.Mode.IsRegular() {
			data, err := io.ReadAll(tree.open(e.node))
			if err != nil {
				t.Fatal(err)
			}
			content = string(data)
		}
		if e.Mode.IsDir() {
			links = 2
			for _, child := range e.node.children {
				if child.mode.IsDir() {
					links++
				}
			}
		}
		want[e.Path] = fmt.Sprintf("%v %d %d %q", e.Mode, e.ModTime.Unix(), links, content)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if inodes["usr/bin/perl"] != inodes["usr/bin/perl5"] {
		t.Error("hard links have different inodes")
	}
	if want["/etc/setuid"] != fmt.Sprintf("-rwxr-xr-x 1000000000 1 %q", "dropped") {
		t.Errorf("setuid file: %s", want["/etc/setuid"])
	}
}

func TestEROFSStoresEqualContentsOnce(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	var one, many []step
	for i := range 10 {
		path := fmt.Sprintf("/f%d", i)
		many = append(many, step{path, func(t *Tree) error {
			return t.AddFile(path, 0o644, time.Time{}, strings.NewReader(content))
		}})
	}
	one = many[:1]
	tree := build(t, many)
	if tree.end != int64(len(content)) {
		t.Errorf("%d bytes in the temporary file, want %d", tree.end, len(content))
	}
	small, large := len(encode(t, build(t, one))), len(encode(t, tree))
	if large != small {
		t.Errorf("one copy takes %d bytes, ten take %d", small, large)
	}
}
