package recipe

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/image"
)

// Recipe says what goes into an image, before versions are chosen.
type Recipe struct {
	Name    string // tag in the image store, "lab:python"
	Summary string // one line for lists

	Packages []string // Debian packages that are wanted; what they depend on comes with them
	Omit     []string // packages that come as a dependency and that the image does without
	NPM      []NPM    // npm packages, unpacked where Node looks on Debian: /usr/share/nodejs
	Tests    string   // directory whose packages come without their own test suites; empty means none
	Files    []File   // small files of our own, written last
	Links    []Link   // likewise

	Kernel bool // what virtual machines boot, see image.KernelTag: the package's kernel and no root file system
}

// NPM names one npm package in one version. Its dependencies are not followed: a recipe lists each.
type NPM struct {
	Name    string
	Version string
	In      string // the package that has it for itself, in another version than the others; empty: it is for all
}

// File is a small file of our own in an image, mode 0644, owner root.
type File struct {
	Path string // relative to the root
	Data []byte
}

// base is in every lab image: a POSIX shell, what scripts expect, time zones, terminal types, and user names that
// resolve without /etc/passwd.
var base = []string{
	"base-files", "bash", "bsdextrautils", "coreutils", "dash", "diffutils", "findutils", "gawk", "grep", "gzip", "hostname", "libc-bin", "libnss-cache",
	"ncurses-base", "ncurses-bin", "sed", "tar", "tzdata", "util-linux", "xz-utils",
}

// unused comes as a dependency of base and serves only the installation of packages or logging in.
var unused = []string{"debconf", "libpam-modules", "libpam-modules-bin", "libpam-runtime"}

// noDisplay comes with matplotlib and is of no use: Tk and X11. ca-certificates: only its bundle is wanted, not the tool.
var noDisplay = []string{
	"blt", "dpkg", "libjs-jquery", "libjs-jquery-ui", "libtcl8.6", "libtk8.6", "libx11-6", "libx11-data", "libxext6", "libxft2", "libxrender1",
	"libxss1", "lsb-base", "openssl", "python3-pil.imagetk", "python3-tk", "python3.13-tk", "tk8.6-blt2.5", "unicode-data", "x11-common",
}

//go:embed files
var files embed.FS

// Recipes returns the lab images in the order in which they are built and listed, the smallest first, and the kernel.
func Recipes() []Recipe {
	return []Recipe{
		{
			Name:     "lab:text",
			Summary:  "POSIX shell and text tools",
			Packages: with(base, "bc", "jq", "ripgrep", "sqlite3"),
			Omit:     with(unused, "dpkg"),
		},
		{
			Name:    "lab:python",
			Summary: "Python 3 with numpy, pandas, scipy, sympy, matplotlib and pytest",
			Packages: with(base, "ca-certificates", "fonts-dejavu-core", "libopenblas0-pthread", "python3", "python3-matplotlib",
				"python3-numpy", "python3-pandas", "python3-pytest", "python3-scipy", "python3-sympy"),
			Omit:  with(unused, noDisplay...),
			Tests: "usr/lib/python3/dist-packages", // 160 MB
			Files: slices.Concat(figures(), showsInPython()),
		},
		{
			Name:     "lab:node",
			Summary:  "Node.js and TypeScript",
			Packages: with(base, "ca-certificates", "nodejs"),
			Omit:     with(unused, "dpkg", "openssl"),
			NPM:      []NPM{{Name: "amaro", Version: "1.2.1"}},
			Files:    slices.Concat(typescript(), showsInNode()),
		},
		{
			Name:    "lab:repo",
			Summary: "git, make, compilers, Python, Node.js with npm, and Go",
			Packages: with(base, "build-essential", "ca-certificates", "file", "git", "golang-go", "jq", "less", "nodejs", "patch",
				"procps", "python3", "python3-pytest", "ripgrep", "unzip", "zip"),
			Omit:  unused,
			NPM:   []NPM{{Name: "amaro", Version: "1.2.1"}, {Name: "npm", Version: "10.9.9"}}, // Debian's npm brings 300 packages
			Files: typescript(),
		},
		quantum(),
		evm(),
		{
			Name:     image.KernelTag,
			Summary:  "the kernel that virtual machines boot (--driver qemu)",
			Packages: []string{"linux-image-cloud-amd64"},
			Kernel:   true,
		},
	}
}

// ByName returns the recipe of that name. ok is false if there is none.
func ByName(name string) (r Recipe, ok bool) {
	for _, r := range Recipes() {
		if r.Name == name {
			return r, true
		}
	}
	return Recipe{}, false
}

func with(list []string, more ...string) []string {
	all := slices.Concat(list, more)
	slices.Sort(all)
	return slices.Compact(all)
}

// byName sorts npm packages as locks have them.
func byName(list []NPM) []NPM {
	slices.SortFunc(list, func(a, b NPM) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.In, b.In)) })
	return list
}

// typescript is the loader that lets Node run TypeScript: node --import /usr/lib/silk/typescript.mjs FILE.ts. Debian's
// Node is older than Node's own type stripping, and amaro's own loader needs that; amaro's library does not.
func typescript() []File {
	var list []File
	for _, name := range []string{"typescript.cjs", "typescript.mjs", "typescript-hooks.mjs"} {
		list = append(list, embedded("usr/lib/silk/"+name, name))
	}
	return list
}

// figures saves the figures that a Python program left open when it ends. The file takes the place of Debian's own,
// which comes first on the path and does nothing here.
func figures() []File {
	return []File{embedded("usr/lib/python3.13/sitecustomize.py", "sitecustomize.py")}
}

// showsInPython is the module with which Python programs show results: package display.
func showsInPython() []File {
	return []File{embedded("usr/lib/python3/dist-packages/silk.py", "silk.py")}
}

// showsInNode is the same for Node. It lies where both import and require look last, coming from /workspace.
func showsInNode() []File {
	return []File{
		embedded("node_modules/silk/index.cjs", "silk.cjs"), embedded("node_modules/silk/index.mjs", "silk.mjs"),
		embedded("node_modules/silk/package.json", "silk.json"),
	}
}

// embedded is one of files/ under its path in an image.
func embedded(path, name string) File {
	data, err := fs.ReadFile(files, "files/"+name)
	if err != nil {
		panic(fmt.Sprintf("embedded file: %v", err)) // it is part of the binary
	}
	return File{Path: path, Data: data}
}

// LockFile is the name of the lock of an image in locks/.
func LockFile(name string) string { return strings.ReplaceAll(name, ":", "-") + ".json" }
