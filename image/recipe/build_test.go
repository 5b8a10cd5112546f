package recipe

import (
	"archive/tar"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// publishBase puts a small Debian into a: a merged /usr, a shell, an awk, and things that are to be left out.
func publishBase(t *testing.T, a *archive) []Package {
	t.Helper()
	deb := func(entries ...entry) []byte { return debOf(".gz", gzipped(t, tarOf(t, entries...))) }
	return []Package{
		a.publish("zz-lib", "2", deb(
			entry{name: "./lib/x86_64-linux-gnu/libz.so", data: "z"}, // through the link of base-files
			entry{name: "./usr/share/doc/zz-lib", kind: '2', link: "base-files"})),
		a.publish("base-files", "1:13", deb(
			entry{name: "./", kind: '5', mode: 0o755},
			entry{name: "./bin", kind: '2', link: "usr/bin"},
			entry{name: "./lib", kind: '2', link: "usr/lib"},
			entry{name: "./usr/bin/", kind: '5', mode: 0o755},
			entry{name: "./etc/passwd", data: "root"},
			entry{name: "./usr/share/doc/base-files/copyright", data: "free"},
			entry{name: "./usr/share/doc/base-files/changelog.gz", data: "long"},
			entry{name: "./usr/share/man/man1/x.1.gz", data: "long"})),
		a.publish("gawk", "5", deb(
			entry{name: "./bin/gawk", data: "gawk", mode: 0o4755},
			entry{name: "./usr/bin/gawk-5", kind: '1', link: "./bin/gawk"},
			entry{name: "./usr/share/ca-certificates/mozilla/b.crt", data: "B\n"},
			entry{name: "./usr/share/ca-certificates/mozilla/a.crt", data: "A\n"})),
	}
}

func TestBuild(t *testing.T) {
	a := newArchive(t)
	lock := testLock(publishBase(t, a)...)
	r := Recipe{Name: "lab:small", Packages: []string{"gawk"}, Files: []File{{"usr/lib/silk/x", []byte("ours")}}, Links: []Link{{"/node_modules", "/usr/share/nodejs"}}}
	tgz := gzipped(t, tarOf(t, entry{name: "package/package.json", data: `{"name":"@s/n","bin":{"s-n":"./dist/cli.js"}}`}, entry{name: "package/dist/cli.js", data: "js"}))
	older := gzipped(t, tarOf(t, entry{name: "package/old.js", data: "old"}))
	lock.NPM = []Tarball{a.publishNPM("@b/dep", "1.0.0", older), a.publishNPM("@s/n", "1.0.0", tgz)}
	lock.NPM[0].In = "@s/n"
	config := testConfig(t, a)
	var told int64
	config.Progress = func(done, total int64, what string) {
		if what == "downloading packages" {
			told = done
			if done > total {
				t.Errorf("%d of %d bytes", done, total)
			}
		}
	}

	img, err := Build(t.Context(), r, lock, config)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, p := range lock.Packages {
		size += p.Size
	}
	if told != size {
		t.Errorf("progress ended at %d of %d bytes", told, size)
	}

	tree := load(t, config.Store, img)
	for name, want := range map[string]string{
		"/usr/bin/gawk":                          "file 755 gawk",
		"/usr/bin/gawk-5":                        "file 755 gawk",
		"/usr/bin/awk":                           "link gawk",
		"/usr/bin/nawk":                          "link gawk",
		"/bin":                                   "link usr/bin",
		"/usr/lib/x86_64-linux-gnu/libz.so":      "file 644 z",
		"/usr/share/doc/base-files/copyright":    "file 644 free",
		"/usr/share/doc/zz-lib":                  "link base-files",
		"/usr/share/doc/base-files/changelog.gz": "absent",
		"/usr/share/man":                         "absent",
		"/etc/passwd":                            "absent",
		"/etc/group":                             "absent",
		"/etc/ssl/certs/ca-certificates.crt":     "file 644 A\nB\n",
		"/usr/lib/ssl/cert.pem":                  "link /etc/ssl/certs/ca-certificates.crt",
		"/etc/resolv.conf":                       "file 644 nameserver 127.0.0.1\n",
		"/usr/lib/silk/x":                        "file 644 ours",
		"/usr/share/nodejs/@s/n/dist/cli.js":     "file 755 js",
		"/usr/share/nodejs/@s/n/node_modules/@b/dep/old.js": "file 644 old",
		"/usr/share/nodejs/@b/dep":                          "absent",
		"/node_modules":                                     "link /usr/share/nodejs",
		"/workspace":                                        "dir",
		"/dev/shm":                                          "dir",
		"/etc/localtime":                                    "absent", // no zoneinfo here
		"/usr/lib/x86_64-linux-gnu/libblas.so.3":            "absent",
		"/etc/group.cache":                                  "file 644 root:x:0:\nsilk:x:1000:\nnogroup:x:65534:\n",
		"/usr/share/ca-certificates/mozilla/a.crt":          "file 644 A\n",
	} {
		if got := describe(t, tree, name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}

	data, err := lock.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(t, tree, "/"+lockInImage); got != "file 644 "+string(data) {
		t.Errorf("the lock in the image is %q", got)
	}
	meta, err := config.Store.Meta(img)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"base-files 1:13", "gawk 5", "npm:@b/dep 1.0.0", "npm:@s/n 1.0.0", "zz-lib 2"}
	var got []string
	for _, p := range meta.Packages {
		got = append(got, p.Name+" "+p.Version)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packages in the description:\n%s", diff)
	}
	if found, err := config.Store.Resolve("lab:small"); err != nil || found.Digest != img.Digest {
		t.Errorf("tag = %v, %v", found.Digest, err)
	}
}

func TestBuildTwiceGivesTheSameDigest(t *testing.T) {
	var digests []image.Digest
	for range 4 {
		a := newArchive(t) // another mirror, another cache
		lock := testLock(publishBase(t, a)...)
		rand.Shuffle(len(lock.Packages), func(i, j int) { lock.Packages[i], lock.Packages[j] = lock.Packages[j], lock.Packages[i] })
		img, err := Build(t.Context(), Recipe{Name: "lab:small"}, lock, testConfig(t, a))
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, img.Digest)
	}
	for _, d := range digests[1:] {
		if d != digests[0] {
			t.Errorf("digests differ: %v", digests)
		}
	}
}

func TestBuildOffline(t *testing.T) {
	a := newArchive(t)
	lock := testLock(publishBase(t, a)...)
	config := testConfig(t, a)
	first, err := Build(t.Context(), Recipe{Name: "lab:small"}, lock, config)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	config.Mirror = "" // and nothing in apt's configuration
	second, err := Build(t.Context(), Recipe{Name: "lab:small"}, lock, config)
	if err != nil {
		t.Fatal(err)
	}
	if first.Digest != second.Digest {
		t.Error("the digest changed")
	}
}

func TestBuildErrors(t *testing.T) {
	tests := []struct {
		name   string
		change func(a *archive, lock *Lock, config *Config)
		want   string
	}{
		{"no mirror", func(_ *archive, _ *Lock, c *Config) { c.Mirror = "" }, "--mirror"},
		{"no registry", func(_ *archive, _ *Lock, c *Config) { c.NPMRegistry = "" }, "--npm-registry"},
		{"a version that left, frozen", func(a *archive, l *Lock, c *Config) {
			delete(a.files, "/"+l.Packages[2].Path)
			c.Frozen = true
		}, "package gawk 5 has left the archive (404 Not Found); --frozen"},
		{"an npm version that left", func(a *archive, l *Lock, _ *Config) { delete(a.files, tarballURL("", l.NPM[0])) }, "npm package n 1.0.0 has left"},
		{"a package that is not the locked one", func(a *archive, l *Lock, _ *Config) {
			data := a.files["/"+l.Packages[0].Path]
			a.files["/"+l.Packages[0].Path] = append([]byte("X"), data[1:]...)
		}, "package zz-lib 2: received"},
		{"a lock that leads out of the archive", func(_ *archive, l *Lock, _ *Config) { l.Packages[0].Path = "pool/../x" }, "not a pool path"},
		{"a device node", func(a *archive, l *Lock, _ *Config) {
			l.Packages[0] = a.publish("zz-lib", "3", debOf("", tarOf(t, entry{name: "./dev/mem", kind: tar.TypeBlock})))
		}, `entry "./dev/mem" refused`},
		{"a name that leads out", func(a *archive, l *Lock, _ *Config) {
			l.Packages[0] = a.publish("zz-lib", "3", debOf("", tarOf(t, entry{name: "./../../etc/x"})))
		}, "unpack package zz-lib 3"},
		{"an npm name that leads out", func(a *archive, l *Lock, _ *Config) {
			l.NPM[0] = a.publishNPM("n", "1.0.0", gzipped(t, tarOf(t, entry{name: "package/../../x"})))
		}, "leads out of the package"},
		{"an npm command that is elsewhere", func(a *archive, l *Lock, _ *Config) {
			l.NPM[0] = a.publishNPM("n", "1.0.0", gzipped(t, tarOf(t, entry{name: "package/package.json", data: `{"name":"n","bin":"../x"}`})))
		}, "is not a file of the package"},
		{"an npm command whose name leads out", func(a *archive, l *Lock, _ *Config) {
			l.NPM[0] = a.publishNPM("n", "1.0.0", gzipped(t, tarOf(t, entry{name: "package/x"}, entry{name: "package/package.json", data: `{"name":"n","bin":{"../sh":"x"}}`})))
		}, `command "../sh" is not`},
		{"an npm link", func(a *archive, l *Lock, _ *Config) {
			l.NPM[0] = a.publishNPM("n", "1.0.0", gzipped(t, tarOf(t, entry{name: "package/x", kind: '2', link: "/etc"})))
		}, "is not a regular file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newArchive(t)
			lock := testLock(publishBase(t, a)...)
			lock.NPM = []Tarball{a.publishNPM("n", "1.0.0", gzipped(t, tarOf(t, entry{name: "package/x", data: "x"})))}
			config := testConfig(t, a)
			t.Setenv("PATH", t.TempDir()) // no npm, no apt
			tt.change(a, &lock, &config)
			_, err := Build(t.Context(), Recipe{Name: "lab:small", Packages: []string{"gawk"}}, lock, config)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q in it", err, tt.want)
			}
			if _, err := config.Store.Resolve("lab:small"); !errors.Is(err, image.ErrNotFound) {
				t.Errorf("the store has something: %v", err)
			}
			left, err := filepath.Glob(filepath.Join(config.SpoolDir, ".silk-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestBuildCancelled(t *testing.T) {
	a := newArchive(t)
	lock := testLock(publishBase(t, a)...)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	a.intrude = func(http.ResponseWriter, *http.Request, []byte) bool {
		cancel(why)
		return false
	}
	if _, err := Build(ctx, Recipe{Name: "lab:small"}, lock, testConfig(t, a)); !errors.Is(err, why) {
		t.Errorf("error = %v, want the cause", err)
	}
}

// TestBuildResolvesAgain has apt itself answer, from an archive on loopback whose package has been replaced.
func TestBuildResolvesAgain(t *testing.T) {
	testenv.Require(t, testenv.Apt)
	a := newArchive(t)
	packages := publishBase(t, a)
	lock := testLock(packages...)
	delete(a.files, "/"+packages[2].Path)
	newer := a.publish("gawk", "6", debOf(".gz", gzipped(t, tarOf(t, entry{name: "./usr/bin/gawk", data: "six"}))))
	current := []Package{packages[0], packages[1], newer}
	a.index(map[string]string{"gawk": "base-files, zz-lib"}, current...)
	config := testConfig(t, a)
	config.Mirror = ""
	put(t, filepath.Join(config.AptDir, "sources.list"), "deb [trusted=yes] "+a.URL+" trixie main\n")
	var notices []string
	config.Notice = func(s string) { notices = append(notices, s) }
	r := Recipe{Name: "lab:small", Packages: []string{"gawk"}}

	for _, how := range []string{"from the archive", "from the cache alone"} {
		img, err := Build(t.Context(), r, lock, config)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if got := describe(t, load(t, config.Store, img), "/usr/bin/gawk"); got != "file 644 six" {
			t.Errorf("%s: gawk is %q", how, got)
		}
		kept := describe(t, load(t, config.Store, img), "/"+lockInImage)
		again, err := ParseLock([]byte(strings.TrimPrefix(kept, "file 644 ")))
		if err != nil {
			t.Fatal(err)
		}
		want := testLock(packages[1], newer, packages[0])
		want.Image, want.Requested, want.NPM = "lab:small", r.Packages, []Tarball{}
		if diff := cmp.Diff(want, again); diff != "" {
			t.Errorf("%s: the lock in the image:\n%s", how, diff)
		}
		if len(notices) != 1 || !strings.Contains(notices[0], "instead of gawk 5") {
			t.Errorf("%s: notices = %q, want one about gawk", how, notices)
		}
		notices = nil
		a.Close()
	}
	config.Frozen = true
	if _, err := Build(t.Context(), r, lock, config); err == nil {
		t.Error("a frozen build took the newer lock from the cache")
	}
}

// load opens an image of the store.
func load(t *testing.T, store *image.Store, img image.Image) *image.Tree {
	t.Helper()
	tree, err := store.Tree(t.Context(), img, image.TreeConfig{SpoolDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

// describe says in words what is at name.
func describe(t *testing.T, tree *image.Tree, name string) string {
	t.Helper()
	e, ok := tree.Lookup(name)
	switch {
	case !ok:
		return "absent"
	case e.Mode.IsDir():
		return "dir"
	case e.Mode&fs.ModeSymlink != 0:
		return "link " + e.Target
	}
	return "file " + perm(e.Mode) + " " + read(t, tree, name)
}
