package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// asOrdinaryUser runs f with the file permissions of nobody when the tests run as root.
func asOrdinaryUser(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread() // the file system uid belongs to the thread: setfsuid(2)
	defer runtime.UnlockOSThread()
	must(t, syscall.Setfsuid(65534))
	defer func() { must(t, syscall.Setfsuid(0)) }()
	f()
}

func TestFillUnreadable(t *testing.T) {
	d := t.TempDir()
	must(t, os.Chmod(d, 0o755))
	must(t, os.Chmod(filepath.Dir(d), 0o755))
	write(t, filepath.Join(d, "file", "a", "secret"), "x")
	must(t, os.Chmod(filepath.Join(d, "file", "a", "secret"), 0))
	must(t, os.MkdirAll(filepath.Join(d, "dir", "closed"), 0o755))
	must(t, os.Chmod(filepath.Join(d, "dir", "closed"), 0))
	for dir, name := range map[string]string{"file": `"a/secret"`, "dir": `"closed"`} {
		asOrdinaryUser(t, func() {
			_, err := Fill(io.Discard, Source{Dir: filepath.Join(d, dir)}, FillLimits{})
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v, want a permission error that names %s", err, name)
			}
		})
	}
}

// A tree of 5,000 levels, with a second directory on each of the first 200, so that the walk comes back up past
// directories that it had to close.
func TestFillDeepTree(t *testing.T) {
	const levels, forks = 5000, 200
	d := t.TempDir()
	t.Cleanup(func() { removeDeep(t, d) })
	root, err := os.OpenRoot(d)
	must(t, err)
	for level := range levels {
		must(t, root.Mkdir("d", 0o755))
		if level < forks {
			must(t, root.Mkdir("e", 0o755))
			f, err := root.OpenFile("e/f", os.O_CREATE|os.O_WRONLY, 0o644)
			must(t, err)
			must(t, f.Close())
		}
		next, err := root.OpenRoot("d")
		must(t, err)
		must(t, root.Close())
		root = next
	}
	f, err := root.OpenFile("bottom", os.O_CREATE|os.O_WRONLY, 0o644)
	must(t, err)
	must(t, errors.Join(f.Close(), root.Close()))

	pr, pw := io.Pipe()
	filled := make(chan Manifest, 1)
	go func() {
		m, err := Fill(pw, Source{Dir: d}, FillLimits{})
		pw.CloseWithError(err)
		filled <- m
	}()
	got, err := Collect(pr, Manifest{}, CollectConfig{})
	must(t, err)
	before := <-filled
	if want := levels + 2*forks + 1; len(before.Entries) != want {
		t.Errorf("the manifest has %d entries, want %d", len(before.Entries), want)
	}
	if len(got.Artifacts) != forks+1 || got.Artifacts[0].Path != strings.Repeat("d/", levels)+"bottom" {
		t.Errorf("got %d artifacts, want %d, the deepest first", len(got.Artifacts), forks+1)
	}
	for level := range forks {
		want := strings.Repeat("d/", level) + "e/f"
		if a := got.Artifacts[forks-level]; a.Path != want {
			t.Fatalf("artifact %d is %q, want %q", forks-level, a.Path, want)
		}
	}
}

func TestTreeKeepsFewDescriptors(t *testing.T) {
	d := t.TempDir()
	must(t, deepRoot(t, d, slices.Repeat([]string{"d"}, 3*maxOpenDirs)).Close())
	tr, err := openTree(d)
	must(t, err)
	defer tr.close()
	check := func() {
		open := 0
		for _, f := range tr.frames {
			if f.root != nil {
				open++
			}
		}
		if open > maxOpenDirs+1 {
			t.Fatalf("%d directories are open at depth %d", open, len(tr.frames))
		}
	}
	must(t, tr.read(10))
	for {
		name, ok := tr.next()
		if !ok {
			break
		}
		info, err := tr.root().Lstat(name)
		must(t, err)
		must(t, tr.push(name, info))
		must(t, tr.read(10))
		check()
	}
	if depth := len(tr.frames) - 1; depth != 3*maxOpenDirs {
		t.Fatalf("came down %d levels, want %d", depth, 3*maxOpenDirs)
	}
	for i := range tr.frames {
		tr.frames[i].names = []string{"more"}
	}
	for more := true; more; check() {
		more, err = tr.pop()
		must(t, err)
		if tr.root() == nil {
			t.Fatalf("the directory at depth %d is closed", len(tr.frames))
		}
	}
}

// While the walk is deep below, a directory on the way is exchanged for a link: coming back must notice.
func TestTreeNoticesExchangedDirectory(t *testing.T) {
	d, outside := t.TempDir(), t.TempDir()
	root := deepRoot(t, d, slices.Repeat([]string{"d"}, 2*maxOpenDirs))
	must(t, root.Close())
	must(t, deepRoot(t, outside, slices.Repeat([]string{"d"}, 2*maxOpenDirs)).Close())
	tr, err := openTree(d)
	must(t, err)
	defer tr.close()
	for range 2 * maxOpenDirs {
		info, err := tr.root().Lstat("d")
		must(t, err)
		must(t, tr.push("d", info))
		tr.top().names = []string{"more"}
	}
	must(t, os.Rename(filepath.Join(d, "d"), filepath.Join(d, "moved")))
	must(t, os.Rename(filepath.Join(outside, "d"), filepath.Join(d, "d")))
	for {
		more, err := tr.pop()
		if errors.Is(err, errReplaced) {
			return
		}
		must(t, err)
		if !more {
			t.Fatal("the walk came back up through a directory that it had not gone down through")
		}
	}
}

func TestFillNamesLimit(t *testing.T) {
	d := t.TempDir()
	t.Cleanup(func() { removeDeep(t, d) })
	root := deepRoot(t, d, slices.Repeat([]string{strings.Repeat("n", 255)}, 740))
	must(t, root.Close())
	var limit *LimitError
	_, err := Fill(io.Discard, Source{Dir: d}, FillLimits{})
	if !errors.As(err, &limit) || limit.What != "names" || len(err.Error()) > 1000 {
		t.Errorf("got %.300v, want a limit on names that does not spell the whole path", err)
	}
}
