package disktrace_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/internal/disktrace"
	"github.com/silk-sandbox/silk/internal/testenv"
)

const dirEnv = "SILK_DISKTRACE_TEST_DIR"

// story is a program in which each step says its name when it is done.
var story = []struct {
	name string
	do   func(dir string) error
	// what is there if the power fails after the step, and before the next one: all names and contents
	kept map[string]string
}{
	{"make", func(dir string) error {
		return errors.Join(os.Mkdir(filepath.Join(dir, "d"), 0o700), put(dir, "d/a", 0, "hello"))
	}, map[string]string{}},
	{"sync the file", func(dir string) error { return sync(dir, "d/a") }, map[string]string{}}, // it has no name
	{"sync its directory", func(dir string) error { return sync(dir, "d") }, map[string]string{}},
	{"sync the root", func(dir string) error { return sync(dir, ".") }, map[string]string{"d": "", "d/a": "hello"}},
	{"write more", func(dir string) error { return errors.Join(put(dir, "d/a", 2, "LLO, all"), put(dir, "d/a", 20, "x")) }, map[string]string{"d": "", "d/a": "hello"}},
	{"sync again", func(dir string) error { return sync(dir, "d/a") }, map[string]string{"d": "", "d/a": "heLLO, all\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00x"}},
	{"cut", func(dir string) error {
		return errors.Join(os.Truncate(filepath.Join(dir, "d/none"), 1), cut(dir, "d/a", 3))
	}, map[string]string{"d": "", "d/a": "heLLO, all\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00x"}},
	{"sync the cut", func(dir string) error { return sync(dir, "d/a") }, map[string]string{"d": "", "d/a": "heL"}},
	{"rename", func(dir string) error { return os.Rename(filepath.Join(dir, "d/a"), filepath.Join(dir, "b")) }, map[string]string{"d": "", "d/a": "heL"}},
	{"sync where it is now", func(dir string) error { return sync(dir, ".") }, map[string]string{"d": "", "d/a": "heL"}}, // as nobody says that it has gone from d
	{"sync where it was", func(dir string) error { return sync(dir, "d") }, map[string]string{"d": "", "b": "heL"}},
	{"write synced", func(dir string) error {
		f, err := os.OpenFile(filepath.Join(dir, "b"), os.O_WRONLY|os.O_APPEND|os.O_SYNC, 0)
		if err == nil {
			_, err = f.WriteString("!")
			err = errors.Join(err, f.Close())
		}
		return err
	}, map[string]string{"d": "", "b": "heL!"}},
	{"remove", func(dir string) error { return os.RemoveAll(dir + "/d") }, map[string]string{"d": "", "b": "heL!"}},
	{"sync the removal", func(dir string) error { return sync(dir, ".") }, map[string]string{"b": "heL!"}},
}

func put(dir, name string, off int64, data string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(data), off)
	return errors.Join(err, f.Close())
}

func cut(dir, name string, size int64) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

func sync(dir, name string) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// record runs this test again, under strace; there do is called.
func record(t *testing.T, do func(dir string) error) (trace *disktrace.Trace, dir string, err error) {
	t.Helper()
	if dir := os.Getenv(dirEnv); dir != "" {
		if err := do(dir); err != nil {
			t.Error(err)
		}
		return nil, "", nil
	}
	testenv.Require(t, testenv.Strace)
	if dir, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	trace, err = disktrace.Record(t.Context(), dir, func(name string) bool { return name == "ignored" }, append(os.Environ(), dirEnv+"="+dir), os.Args[0], "-test.run=^"+t.Name()+"$")
	return trace, dir, err
}

func texts(s disktrace.State) map[string]string {
	all := map[string]string{}
	for path, data := range s {
		all[path] = string(data)
	}
	return all
}

func TestStory(t *testing.T) {
	trace, dir, err := record(t, func(dir string) error {
		for _, step := range story {
			if err := step.do(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // a call that fails changes nothing
				return err
			}
			os.Stdout.WriteString("did " + step.name + "\n")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if trace == nil {
		return
	}
	n := 0
	for _, said := range trace.Said {
		name, ok := strings.CutPrefix(strings.TrimSpace(said.Text), "did ")
		if !ok {
			continue
		}
		if n >= len(story) || story[n].name != name {
			t.Fatalf("step %d is %q", n, name)
		}
		if d := cmp.Diff(story[n].kept, texts(trace.PowerLoss(said.At))); d != "" {
			t.Errorf("after %q and a power loss (-want +got):\n%s", name, d)
		}
		n++
	}
	if n != len(story) {
		t.Errorf("%d steps", n)
	}
	trace.Unsync("a")
	if d := cmp.Diff(map[string]string{"b": ""}, texts(trace.PowerLoss(trace.Moments))); d != "" { // it was called a
		t.Errorf("with no sync of a file (-want +got):\n%s", d)
	}
	last, err := disktrace.Read(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(texts(last), texts(trace.Killed(trace.Moments))); d != "" {
		t.Errorf("at the end (-there +got):\n%s", d)
	}
}

// TestTorn: what was synced is there whole; of the rest, there are all sorts.
func TestTorn(t *testing.T) {
	const block = 4096
	trace, _, err := record(t, func(dir string) error {
		if err := errors.Join(put(dir, "a", 0, strings.Repeat("a", block)), sync(dir, "a")); err != nil { // a synced file has its name
			return err
		}
		return errors.Join(put(dir, "a", 0, strings.Repeat("b", block)), put(dir, "a", block, strings.Repeat("c", block)), put(dir, "new", 0, "n"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if trace == nil {
		return
	}
	kinds := map[string]bool{}
	for seed := range uint64(300) {
		s := trace.Torn(trace.Moments, rand.New(rand.NewPCG(seed, 0)))
		a := string(s["a"])
		if len(a) < block || len(strings.TrimLeft(a[:block], "b")) > 0 && strings.Trim(strings.TrimLeft(a[:block], "b"), "a") != "" {
			t.Fatalf("seed %d: %d bytes of a", seed, len(a))
		}
		b, c := strings.Count(a, "b"), strings.Count(a, "c")
		for name, n := range map[string]int{"b": b, "c": c} {
			switch {
			case n == 0:
				kinds["no "+name] = true
			case n == block:
				kinds["all "+name] = true
			case n%512 == 0:
				kinds["some "+name] = true
			default:
				t.Fatalf("seed %d: %d bytes %s", seed, n, name)
			}
		}
		if c > 0 && b == 0 {
			kinds["later without earlier"] = true
		}
		if data, ok := s["new"]; ok {
			kinds["new "+string(data)] = true
		} else {
			kinds["not new"] = true
		}
	}
	want := []string{"all b", "all c", "later without earlier", "new ", "new n", "no b", "no c", "not new", "some b", "some c"}
	if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWhatIsNotModelled: a call that the trace does not understand is no trace.
func TestWhatIsNotModelled(t *testing.T) {
	for name, do := range map[string]func(dir string) error{
		"map": func(dir string) error { return shared(dir, "mapped") },
		"link": func(dir string) error {
			return errors.Join(put(dir, "a", 0, "a"), os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
		},
		"symlink": func(dir string) error { return os.Symlink("a", filepath.Join(dir, "b")) },
		"fallocate": func(dir string) error {
			f, err := os.OpenFile(filepath.Join(dir, "a"), os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			return errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, 100), f.Close())
		},
		"ignored": func(dir string) error { return shared(dir, "ignored") },
	} {
		t.Run(name, func(t *testing.T) {
			trace, _, err := record(t, do)
			if os.Getenv(dirEnv) == "" && (err == nil) != (name == "ignored") {
				t.Errorf("%v, %v", trace, err)
			}
			if trace != nil && len(trace.PowerLoss(trace.Moments))+len(trace.Killed(trace.Moments)) > 0 {
				t.Errorf("an ignored file is there: %v", trace.Killed(trace.Moments))
			}
		})
	}
}

// shared writes to a file through memory.
func shared(dir, name string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(4096); err != nil {
		return err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	mem[0] = 'x'
	return unix.Munmap(mem)
}
