package recipe

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/image"
)

func TestParseImageFile(t *testing.T) {
	got, err := ParseImageFile("x.yaml", []byte(`schema: silk.imagefile/v1
name: team:tools
from: lab:python
packages: [graphviz, g++]
wheels: [./dist/x-1.0-py3-none-any.whl]
npm: [x.tgz]
files:
  - {src: ./model.bin, dst: /opt/model.bin, mode: "0600"}
  - {src: ., dst: /opt/all}
links:
  - {path: /usr/bin/editor, target: nano}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := ImageFile{
		Name: "team:tools", From: "lab:python", Packages: []string{"graphviz", "g++"},
		Wheels: []string{"dist/x-1.0-py3-none-any.whl"}, NPM: []string{"x.tgz"},
		Files: []CopiedFile{{"model.bin", "/opt/model.bin", 0o600}, {".", "/opt/all", 0}},
		Links: []Link{{"/usr/bin/editor", "nano"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseImageFileRefuses(t *testing.T) {
	const good = "schema: silk.imagefile/v1\nname: x\nfrom: lab:text\n"
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "schema is missing"},
		{"another schema", strings.Replace(good, "v1", "v2", 1), "x.yaml:1: schema is"},
		{"no name", strings.Replace(good, "name: x\n", "", 1), "name is missing"},
		{"the name of a lab image", strings.Replace(good, "name: x", "name: lab:text", 1), "x.yaml:2: name"},
		{"a name that is a path", strings.Replace(good, "name: x", "name: ../x", 1), "x.yaml:2: name"},
		{"from something else", strings.Replace(good, "lab:text", "debian", 1), "not a lab image"},
		{"a misspelt key", good + "package: [x]\n", `did you mean "packages"`},
		{"an option for a package", good + "packages: [-o]\n", "not a Debian package name"},
		{"a package to be removed", good + "packages: [bash-]\n", "not a Debian package name"},
		{"a wheel outside", good + "wheels: [../x.whl]\n", "x.yaml:4:"},
		{"an absolute wheel", good + "wheels: [/x.whl]\n", "inside the directory"},
		{"a wheel that is none", good + "wheels: [x.zip]\n", "not a .whl file"},
		{"a file over passwd", good + "files:\n - {src: x, dst: /etc/passwd}\n", "never part of an image"},
		{"a file that nobody sees", good + "files:\n - {src: x, dst: /workspace/x}\n", "would be hidden"},
		{"a relative destination", good + "files:\n - {src: x, dst: x}\n", "absolute path"},
		{"a destination with dots", good + "files:\n - {src: x, dst: /opt/../etc/passwd}\n", "absolute path"},
		{"a setuid file", good + "files:\n - {src: x, dst: /x, mode: \"4755\"}\n", "octal permissions"},
		{"half a file", good + "files:\n - {src: x}\n", "needs src and dst"},
		{"half a link", good + "links:\n - {path: /x}\n", "needs path and target"},
		{"a list that is none", good + "files: {src: x}\n", "must be a list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ParseImageFile("x.yaml", []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q in it", err, tt.want)
			}
		})
	}
}

func FuzzParseImageFile(f *testing.F) {
	f.Add("schema: silk.imagefile/v1\nname: x\nfrom: lab:text\nfiles:\n - {src: x, dst: /x, mode: \"0644\"}\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParseImageFile("x", []byte(text))
		if err != nil {
			return
		}
		for _, c := range file.Files {
			if !filepath.IsLocal(c.Src) || !filepath.IsAbs(c.Dst) {
				t.Errorf("accepted %+v", c)
			}
		}
	})
}

// wheelOf makes a wheel whose RECORD is right, after change has had its way with the files.
func wheelOf(t *testing.T, files map[string]string, change func(files map[string]string)) []byte {
	t.Helper()
	var record strings.Builder
	for name, data := range files {
		sum := sha256.Sum256([]byte(data))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
	}
	record.WriteString("x-1.0.dist-info/RECORD,,\n")
	files["x-1.0.dist-info/RECORD"] = record.String()
	if change != nil {
		change(files)
	}
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for name, data := range files {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		if strings.HasSuffix(name, ".link") {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func wheelFiles() map[string]string {
	return map[string]string{
		"x/__init__.py":                    "def main(): pass",
		"x-1.0.dist-info/METADATA":         "Name: x",
		"x-1.0.dist-info/entry_points.txt": "[console_scripts]\nrun-x = x:main\n[other]\ny = z\n",
		"x-1.0.data/scripts/hello":         "#!python\nprint(1)\n",
		"x-1.0.data/data/share/x/y":        "data",
	}
}

func pythonTree(t *testing.T) *image.Tree {
	t.Helper()
	tree, err := image.NewTree(image.TreeConfig{SpoolDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := tree.AddFile("usr/bin/python3.13", 0o755, tree.Epoch(), strings.NewReader("elf")); err != nil {
		t.Fatal(err)
	}
	if err := tree.AddSymlink("usr/bin/python3", "python3.13"); err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestAddWheel(t *testing.T) {
	tree := pythonTree(t)
	data := wheelOf(t, wheelFiles(), nil)
	p, err := addWheel(tree, "x-1.0-py2.py3-none-any.whl", bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "wheel:x" || p.Version != "1.0" {
		t.Errorf("package = %+v", p)
	}
	const site = "/usr/local/lib/python3.13/dist-packages/"
	for name, want := range map[string]string{
		site + "x/__init__.py":            "file 644 def main(): pass",
		site + "x-1.0.dist-info/METADATA": "file 644 Name: x",
		"/usr/local/bin/hello":            "file 755 #!/usr/bin/python3\nprint(1)\n",
		"/usr/local/share/x/y":            "file 644 data",
		"/usr/local/bin/run-x":            "file 755 #!/usr/bin/python3\nimport sys\nfrom x import main\nsys.exit(main())\n",
		"/usr/local/bin/y":                "absent",
	} {
		if got := describe(t, tree, name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestAddWheelRefuses(t *testing.T) {
	const anywhere = "x-1.0-py3-none-any.whl"
	for _, tt := range []struct {
		name, file string
		change     func(files map[string]string)
		want       string
	}{
		{"another platform", "x-1.0-cp313-cp313-win_amd64.whl", nil, "for platform win_amd64"},
		{"another C library", "x-1.0-cp313-cp313-musllinux_1_2_x86_64.whl", nil, "for platform"},
		{"another Python", "x-1.0-cp312-cp312-manylinux_2_17_x86_64.whl", nil, "for ABI cp312"},
		{"a newer stable ABI", "x-1.0-cp314-abi3-manylinux_2_17_x86_64.whl", nil, "for Python cp314"},
		{"Python 2", "x-1.0-py2-none-any.whl", nil, "for Python py2"},
		{"no wheel name", "x.whl", nil, "not that of a wheel"},
		{"a changed file", anywhere, func(f map[string]string) { f["x/__init__.py"] = "evil" }, "not what RECORD says"},
		{"a file more", anywhere, func(f map[string]string) { f["x/evil.py"] = "evil" }, "not in RECORD"},
		{"a file less", anywhere, func(f map[string]string) { delete(f, "x/__init__.py") }, "which is not in the wheel"},
		{"no RECORD", anywhere, func(f map[string]string) { delete(f, "x-1.0.dist-info/RECORD") }, "no RECORD"},
		{"a weak hash", anywhere, func(f map[string]string) { f["x-1.0.dist-info/RECORD"] = "x/__init__.py,md5=abc,1\n" }, "no sha256"},
		{"a link", anywhere, func(f map[string]string) { f["x/a.link"] = "/etc/shadow" }, "inside the wheel"},
		{"a name that leads out", anywhere, func(f map[string]string) { f["../evil.py"] = "evil" }, "inside the wheel"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := wheelOf(t, wheelFiles(), tt.change)
			_, err := addWheel(pythonTree(t), tt.file, bytes.NewReader(data), int64(len(data)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q in it", err, tt.want)
			}
		})
	}
	for _, name := range []string{"x-1.0-cp313-cp313-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "x-1.0-cp38-abi3-linux_x86_64.whl", "x-1.0-1-py3-none-any.whl"} {
		if _, err := checkWheelName(name, 13); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzWheel(f *testing.F) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	if out, err := w.Create("x-1.0.dist-info/RECORD"); err != nil {
		f.Fatal(err)
	} else if _, err := out.Write([]byte("x,sha256=abc,1\n")); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		info, record, err := readRecord(archive)
		if err != nil {
			return
		}
		for name := range record {
			if !fs.ValidPath(name) {
				continue // refused
			}
			w := wheel{site: "usr/local/lib/python3.13/dist-packages", info: info}
			if dst := w.destination(name); !strings.HasPrefix(dst, "usr/local/") {
				t.Errorf("%q goes to %q", name, dst)
			}
		}
	})
}

// TestImageFileAdds builds on packages from the test archive instead of a lab image's.
func TestImageFileAdds(t *testing.T) {
	a := newArchive(t)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "x-1.0-py3-none-any.whl"), string(wheelOf(t, wheelFiles(), nil)))
	put(t, filepath.Join(dir, "n.tgz"), string(gzipped(t, tarOf(t, entry{name: "package/package.json", data: `{"name":"@s/n","version":"2.0.0"}`}, entry{name: "package/x.js", data: "js"}))))
	put(t, filepath.Join(dir, "tree/deep/script"), "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(dir, "tree/deep/script"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/shadow", filepath.Join(dir, "tree/link")); err != nil {
		t.Fatal(err)
	}
	f := ImageFile{
		Name: "mine", From: "lab:python", Wheels: []string{"x-1.0-py3-none-any.whl"}, NPM: []string{"n.tgz"},
		Files: []CopiedFile{{"tree", "/opt/tree", 0}, {"n.tgz", "/opt/n", 0o600}}, Links: []Link{{"/usr/bin/editor", "nano"}},
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	config := testConfig(t, a)
	img, err := build(t.Context(), Recipe{Name: "mine"}, testLock(publishPython(t, a)...), config, func(tree *image.Tree) ([]image.Package, error) { return f.add(tree, root) })
	if err != nil {
		t.Fatal(err)
	}
	tree := load(t, config.Store, img)
	for name, want := range map[string]string{
		"/usr/local/bin/hello":            "file 755 #!/usr/bin/python3\nprint(1)\n",
		"/usr/share/nodejs/@s/n/x.js":     "file 644 js",
		"/opt/tree/deep/script":           "file 755 #!/bin/sh\n",
		"/opt/tree/link":                  "link /etc/shadow", // inside the image, where there is none
		"/usr/bin/editor":                 "link nano",
		"/etc/shadow":                     "absent",
		"/usr/local/lib/python3.13/x.pth": "absent",
	} {
		if got := describe(t, tree, name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	meta, err := config.Store.Meta(img)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range meta.Packages {
		got = append(got, p.Name+" "+p.Version)
	}
	if diff := cmp.Diff([]string{"npm:@s/n 2.0.0", "python3 3", "wheel:x 1.0"}, got); diff != "" {
		t.Error(diff)
	}
	f.Files = []CopiedFile{{"tree/link", "/opt/stolen", 0}}
	f.Wheels, f.NPM = nil, nil
	if _, err := f.add(pythonTree(t), root); err == nil || !strings.Contains(err.Error(), "tree/link") {
		t.Errorf("error = %v, want a refusal to follow a link out of the directory", err)
	}
	f.Files, f.Wheels = nil, []string{"tree"}
	if _, err := f.add(pythonTree(t), root); err == nil || !strings.Contains(err.Error(), "wheel tree: is not a regular file") {
		t.Errorf("error = %v, want a refusal to read a directory", err)
	}
}

func TestImageFileLock(t *testing.T) {
	a := newArchive(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "x.yaml")
	put(t, name, "schema: silk.imagefile/v1\nname: mine\nfrom: lab:text\npackages: [extra]\n")
	config := testConfig(t, a)
	config.Frozen = true
	if _, err := BuildFile(t.Context(), name, config); err == nil || !strings.Contains(err.Error(), "x.yaml.lock does not exist") {
		t.Errorf("error = %v, want one about the lock", err)
	}
	f, err := ParseImageFile(name, []byte("schema: silk.imagefile/v1\nname: mine\nfrom: lab:text\npackages: [extra, dpkg]\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := f.recipe()
	lab, _ := ByName("lab:text")
	if len(r.Packages) != len(lab.Packages)+2 || len(r.Omit) != len(lab.Omit)-1 {
		t.Errorf("recipe = %+v, want two packages more and dpkg not omitted", r)
	}
	lock := testLock(publishBase(t, a)...)
	lock.Requested = r.Packages
	if !lock.fits(r) {
		t.Error("a lock for the recipe does not fit")
	}
	if lock.Requested = lab.Packages; lock.fits(r) {
		t.Error("a lock for fewer packages fits")
	}
	data, err := lock.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	put(t, name+".lock", string(data))
	if _, err := BuildFile(t.Context(), name, config); err == nil || !strings.Contains(err.Error(), "was made for other packages") {
		t.Errorf("error = %v, want one about a lock that does not fit", err)
	}
	var notices []string
	config.Frozen, config.Notice = false, func(s string) { notices = append(notices, s) }
	if _, err := BuildFile(t.Context(), name, config); err == nil || len(notices) != 1 || !strings.Contains(notices[0], "are resolved anew") {
		t.Errorf("notices %q and error %v; want to be told, and no apt", notices, err)
	}
}

func TestImageFileMissesSources(t *testing.T) {
	a := newArchive(t)
	name := filepath.Join(t.TempDir(), "x.yaml")
	put(t, name, "schema: silk.imagefile/v1\nname: mine\nfrom: lab:text\nwheels: [w.whl]\nnpm: [n.tgz]\nfiles:\n - {src: f, dst: /f}\n")
	_, err := BuildFile(t.Context(), name, testConfig(t, a))
	for _, missing := range []string{"w.whl", "n.tgz", " f:"} {
		if err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("error = %v, want %q in it", err, missing)
		}
	}
	if n := a.count(func(string) bool { return true }); n > 0 {
		t.Errorf("the archive was asked for %d files before that", n)
	}
}
