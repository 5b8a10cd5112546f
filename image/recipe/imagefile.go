package recipe

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/silk-sandbox/silk/internal/strictyaml"
)

// ImageFileSchema names the format of an image file.
const ImageFileSchema = "silk.imagefile/v1"

// ImageFile describes an image that a user wants: a lab image and what is added to it.
//
//	schema: silk.imagefile/v1
//	name: my-image              # tag in the image store
//	from: lab:python
//	packages: [graphviz]        # Debian packages, resolved by apt; the lock is kept beside the file
//	wheels: [./dist/x-1.0-py3-none-any.whl]
//	npm: [./x-1.0.0.tgz]
//	files:
//	  - {src: ./model.bin, dst: /opt/model.bin, mode: "0644"}
//	links:
//	  - {path: /usr/bin/editor, target: nano}
//
// Sources are relative to the file, and nothing outside its directory is read.
type ImageFile struct {
	Name     string
	From     string   // a lab image
	Packages []string // Debian package names
	Wheels   []string // local files
	NPM      []string // local files
	Files    []CopiedFile
	Links    []Link
}

// CopiedFile is a file, or a directory with all that is in it, to be copied into an image.
type CopiedFile struct {
	Src  string
	Dst  string      // absolute
	Mode fs.FileMode // permissions; 0 means 0755 for what is executable, else 0644
}

// Link is a symbolic link in an image.
type Link struct {
	Path   string // absolute
	Target string
}

// mounted are places that every sandbox mounts over: what an image has there cannot be seen.
var mounted = []string{"/dev", "/proc", "/sys", "/tmp", "/workspace"}

// ParseImageFile reads an image file strictly; name is for messages. All faults are reported at once, with their lines.
func ParseImageFile(name string, data []byte) (ImageFile, error) {
	d, root := strictyaml.Open(name, data)
	var f ImageFile
	schema := ""
	d.Fields(root, "an image file", map[string]func(strictyaml.Node){
		"schema": func(n strictyaml.Node) {
			if schema = d.Text(n, "schema"); schema != ImageFileSchema {
				d.Fail(n, "schema is %q, want %q", schema, ImageFileSchema)
			}
		},
		"name": func(n strictyaml.Node) {
			f.Name = d.Text(n, "name")
			if _, lab := ByName(f.Name); lab || !tagName(f.Name) {
				d.Fail(n, "name %q must be letters, digits, dots, dashes and at most one colon, and not that of a lab image", f.Name)
			}
		},
		"from": func(n strictyaml.Node) {
			f.From = d.Text(n, "from")
			if _, ok := ByName(f.From); !ok {
				d.Fail(n, "from %q is not a lab image", f.From)
			}
		},
		"packages": func(n strictyaml.Node) {
			f.Packages = d.Texts(n, "packages")
			for _, p := range f.Packages {
				if !word(p) || strings.HasSuffix(p, "-") || strings.HasSuffix(p, "+") && !strings.HasSuffix(p, "++") {
					d.Fail(n, "%q is not a Debian package name", p) // apt reads a final - or + as an instruction
				}
			}
		},
		"wheels": func(n strictyaml.Node) { f.Wheels = sources(d, n, "wheels", ".whl") },
		"npm":    func(n strictyaml.Node) { f.NPM = sources(d, n, "npm", ".tgz") },
		"files": func(n strictyaml.Node) {
			d.Items(n, "files", func(n strictyaml.Node) { f.Files = append(f.Files, copiedFile(d, n)) })
		},
		"links": func(n strictyaml.Node) {
			d.Items(n, "links", func(n strictyaml.Node) {
				var l Link
				d.Fields(n, "a link", map[string]func(strictyaml.Node){
					"path":   func(n strictyaml.Node) { l.Path = destination(d, n, "path") },
					"target": func(n strictyaml.Node) { l.Target = d.Text(n, "target") },
				})
				if l.Path == "" || l.Target == "" {
					d.Fail(n, "a link needs path and target")
				}
				f.Links = append(f.Links, l)
			})
		},
	})
	for key, value := range map[string]string{"schema": schema, "name": f.Name, "from": f.From} {
		if value == "" {
			d.Fail(root, "%s is missing", key)
		}
	}
	return f, d.Err()
}

func copiedFile(d *strictyaml.Decoder, n strictyaml.Node) CopiedFile {
	var c CopiedFile
	d.Fields(n, "a file", map[string]func(strictyaml.Node){
		"src": func(n strictyaml.Node) { c.Src = local(d, n, d.Text(n, "src")) },
		"dst": func(n strictyaml.Node) { c.Dst = destination(d, n, "dst") },
		"mode": func(n strictyaml.Node) {
			text := d.Text(n, "mode")
			mode, err := strconv.ParseUint(text, 8, 32)
			if err != nil || mode == 0 || mode > 0o777 {
				d.Fail(n, "mode %q must be octal permissions such as \"0644\"", text)
			}
			c.Mode = fs.FileMode(mode)
		},
	})
	if c.Src == "" || c.Dst == "" {
		d.Fail(n, "a file needs src and dst")
	}
	return c
}

func sources(d *strictyaml.Decoder, n strictyaml.Node, what, extension string) []string {
	names := d.Texts(n, what)
	for i, name := range names {
		if filepath.Ext(name) != extension {
			d.Fail(n, "%q in %s is not a %s file", name, what, extension)
		}
		names[i] = local(d, n, name)
	}
	return names
}

// local is a path below the image file's directory, cleaned.
func local(d *strictyaml.Decoder, n strictyaml.Node, name string) string {
	if !filepath.IsLocal(name) {
		d.Fail(n, "%q must be a path inside the directory of the image file", name)
	}
	return filepath.Clean(name)
}

// destination is a path in the image where something can be, and be seen.
func destination(d *strictyaml.Decoder, n strictyaml.Node, what string) string {
	name := d.Text(n, what)
	switch below := strings.TrimPrefix(name, "/"); {
	case !path.IsAbs(name) || path.Clean(name) != name || name == "/":
		d.Fail(n, "%s %q must be an absolute path without . and ..", what, name)
	case slices.Contains(forbidden, below):
		d.Fail(n, "%s %q is never part of an image", what, name)
	case slices.ContainsFunc(mounted, func(m string) bool { return name == m || strings.HasPrefix(name, m+"/") }):
		d.Fail(n, "%s %q would be hidden: every sandbox mounts over it", what, name)
	}
	return name
}

// tagName reports whether name can be a tag: "word" or "word:word".
func tagName(name string) bool {
	first, second, colon := strings.Cut(name, ":")
	return word(first) && (!colon || word(second))
}
