//go:build unix

package workspace

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckMount(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	in := func(elements ...string) string { return filepath.Join(append([]string{base}, elements...)...) }
	write(t, in("store", "data", "x.csv"), "x")
	write(t, in("store-evil", "x"), "x")
	write(t, in("secret", "key"), "x")
	must(t, os.Symlink(in("secret"), in("store", "out")))
	must(t, os.Symlink("../secret/key", in("store", "out-rel")))
	must(t, os.Symlink("data", in("store", "in")))
	must(t, os.Symlink(in("store"), in("way-to-store")))
	must(t, os.Symlink("loop", in("store", "loop")))
	makeFIFO(t, in("store", "fifo"))
	stores := []string{in("missing-store"), in("store")}
	t.Chdir(base) // where a relative store would count

	for _, test := range []struct {
		name     string
		src, dst string
		stores   []string
		want     string // resolved source
		rule     string // of the refusal
	}{
		{name: "a directory in a store", src: in("store", "data"), stores: stores, want: in("store", "data")},
		{name: "a file in a store", src: in("store", "data", "x.csv"), stores: stores, want: in("store", "data", "x.csv")},
		{name: "a store itself", src: in("store"), stores: stores, want: in("store")},
		{name: "a trailing slash", src: in("store", "data") + "/", stores: stores, want: in("store", "data")},
		{name: "a link that stays inside", src: in("store", "in"), stores: stores, want: in("store", "data")},
		{name: "a way through a link into the store", src: in("way-to-store", "data"), stores: stores, want: in("store", "data")},
		{name: "a store that is itself a link", src: in("store", "data"), stores: []string{in("way-to-store")}, want: in("store", "data")},
		{name: "a named target", src: in("store", "data"), dst: "/workspace/a/b", stores: stores, want: in("store", "data")},

		{name: "no store listed", src: in("store", "data"), rule: MountNoStore},
		{name: "outside the stores", src: in("secret"), stores: stores, rule: MountOutside},
		{name: "the parent of a store", src: base, stores: stores, rule: MountOutside},
		{name: "the file system root", src: "/", dst: "/workspace/r", stores: stores, rule: MountOutside},
		{name: "a sibling whose name begins like the store's", src: in("store-evil"), stores: stores, rule: MountOutside},
		{name: "a link that leads out", src: in("store", "out"), stores: stores, rule: MountOutside},
		{name: "below a link that leads out", src: in("store", "out", "key"), stores: stores, rule: MountOutside},
		{name: "a relative link that leads out", src: in("store", "out-rel"), stores: stores, rule: MountOutside},
		{name: "a relative store counts for nothing", src: in("store", "data"), stores: []string{"store"}, rule: MountOutside},
		{name: "parent in the source", src: in("store") + "/data/../../secret", stores: stores, rule: MountParent},
		{name: "harmless parent in the source", src: in("store") + "/data/../data", stores: stores, rule: MountParent},
		{name: "missing", src: in("store", "none"), stores: stores, rule: MountMissing},
		{name: "a link to itself", src: in("store", "loop"), stores: stores, rule: MountMissing},
		{name: "empty source", src: "", dst: "/workspace/x", stores: stores, rule: MountMissing},
		{name: "a fifo", src: in("store", "fifo"), stores: stores, rule: MountType},

		{name: "the workspace itself", src: in("store", "data"), dst: "/workspace", stores: stores, rule: MountTarget},
		{name: "above the workspace", src: in("store", "data"), dst: "/", stores: stores, rule: MountTarget},
		{name: "elsewhere", src: in("store", "data"), dst: "/etc", stores: stores, rule: MountTarget},
		{name: "a sibling of the workspace", src: in("store", "data"), dst: "/workspace-evil/x", stores: stores, rule: MountTarget},
		{name: "relative", src: in("store", "data"), dst: "workspace/x", stores: stores, rule: MountTarget},
		{name: "parent in the target", src: in("store", "data"), dst: "/workspace/a/../../etc", stores: stores, rule: MountParent},
		{name: "dot in the target", src: in("store", "data"), dst: "/workspace/./x", stores: stores, rule: MountTarget},
		{name: "double slash in the target", src: in("store", "data"), dst: "/workspace//x", stores: stores, rule: MountTarget},
		{name: "trailing slash in the target", src: in("store", "data"), dst: "/workspace/x/", stores: stores, rule: MountTarget},
		{name: "NUL in the target", src: in("store", "data"), dst: "/workspace/x\x00y", stores: stores, rule: MountTarget},
		{name: "a very long target", src: in("store", "data"), dst: "/workspace/" + strings.Repeat("x/", 3000) + "x", stores: stores, rule: MountTarget},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := CheckMount(test.src, cmp.Or(test.dst, "/workspace/x"), test.stores)
			if test.rule == "" {
				if err != nil || got != test.want {
					t.Errorf("got %q, %v; want %q", got, err, test.want)
				}
				return
			}
			var refusal *MountError
			if !errors.As(err, &refusal) || refusal.Rule != test.rule || got != "" {
				t.Errorf("got %q, %v; want a refusal by rule %s", got, err, test.rule)
			}
			if missing := errors.Is(err, fs.ErrNotExist); missing && test.rule != MountMissing {
				t.Errorf("%v counts as missing", err)
			}
		})
	}
}
