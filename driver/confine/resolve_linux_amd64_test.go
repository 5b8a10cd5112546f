package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestResolve(t *testing.T) {
	r, err := OpenRoot("/proc/self/root")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(dir+"/sub/deep", 0o755))
	must(os.WriteFile(dir+"/file", nil, 0o600))
	must(os.Symlink("/etc/passwd", dir+"/absolute"))
	must(os.Symlink("../file", dir+"/sub/relative"))
	must(os.Symlink("sub", dir+"/directory"))
	must(os.Symlink("/proc/self/root/etc", dir+"/magic"))
	must(os.Symlink("loop", dir+"/loop"))
	must(os.Symlink("nowhere/at/all", dir+"/dangling"))
	pipe, w, err := os.Pipe()
	must(err)
	defer pipe.Close()
	defer w.Close()
	self := os.Getpid()
	c := Caller{Thread: self, Self: self, Number: self}
	own := fmt.Sprintf("/proc/%d", self)
	for _, test := range []struct {
		name, at, path string
		nofollow       bool
		want           Object
	}{
		{name: "plain", path: dir + "/file", want: Object{Path: dir + "/file"}},
		{name: "a directory", path: dir + "/sub", want: Object{Path: dir + "/sub", Directory: true}},
		{name: "slashes and dots", path: "/" + dir + "//./sub/./", want: Object{Path: dir + "/sub", Directory: true}},
		{name: "relative", at: dir, path: "sub/deep", want: Object{Path: dir + "/sub/deep", Directory: true}},
		{name: "back and forth", at: dir + "/sub", path: "../file", want: Object{Path: dir + "/file"}},
		{name: "above the root", path: "/../../etc/passwd", want: Object{Path: "/etc/passwd"}},
		{name: "an absolute link", path: dir + "/absolute", want: Object{Path: "/etc/passwd"}},
		{name: "the link itself", path: dir + "/absolute", nofollow: true, want: Object{Path: dir + "/absolute", Link: true}},
		{name: "a relative link", path: dir + "/directory/relative", want: Object{Path: dir + "/file"}},
		{name: "back over a link is where it leads to", path: dir + "/directory/deep/../../file", want: Object{Path: dir + "/file"}},
		{name: "through a link of /proc", path: dir + "/magic/passwd", want: Object{Path: "/etc/passwd"}},
		{name: "the own environment", path: "/proc/self/environ", want: Object{Path: own + "/environ"}},
		{name: "a thread's root", path: "/proc/thread-self/root/etc/shadow", want: Object{Path: "/etc/shadow"}},
		{name: "the working directory, by /proc", path: "/proc/self/cwd/judge.go", want: Object{Path: mustWd(t) + "/judge.go"}},
		{name: "a pipe", path: fmt.Sprintf("/proc/self/fd/%d", pipe.Fd()), want: Object{Anonymous: true}},
		{name: "nothing", path: dir + "/none/../none/x", want: Object{Path: dir + "/none/x", Absent: true}},
		{name: "a link to nothing", path: dir + "/dangling", want: Object{Path: dir + "/nowhere/at/all", Absent: true}},
		{name: "below a file", path: "/etc/passwd/x", want: Object{Path: "/etc/passwd/x", Absent: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := r.resolve(c, test.at, test.path, !test.nofollow)
			if err != nil {
				t.Fatal(err)
			}
			// Whether what follows /etc is there is the host's affair.
			got.Directory = got.Directory && test.want.Directory
			got.Absent = got.Absent && strings.Contains(test.want.Path, dir)
			if test.want.Absent && !strings.Contains(test.want.Path, dir) {
				test.want.Absent = false
			}
			if got != test.want {
				t.Errorf("resolve(%q, %q) = %+v, want %+v", test.at, test.path, got, test.want)
			}
		})
	}
	if _, err := r.resolve(c, "", dir+"/loop", true); !errors.Is(err, errLoop) {
		t.Errorf("a loop: %v", err)
	}
}

func mustWd(t *testing.T) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return wd
}

func TestCaller(t *testing.T) {
	c, err := callerOf(unix.Gettid())
	if err != nil {
		t.Fatal(err)
	}
	if c.Self == 0 || c.Number == 0 {
		t.Errorf("callerOf() = %+v", c)
	}
	if _, err := callerOf(1<<22 + 1); !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a process that does not exist: %v", err)
	}
	wd, err := c.directory(unix.AT_FDCWD)
	if err != nil || wd != mustWd(t) {
		t.Errorf("directory() = %q, %v", wd, err)
	}
}
