package recipe

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/silk-sandbox/silk/image"
)

// Where the job puts what it makes, below /workspace.
const (
	pycPrefix  = "pyc"        // pyc/usr/lib/python3/x.cpython-313.pyc for /usr/lib/python3/x.py
	fontPrefix = "matplotlib" // matplotlib's list of fonts, if it is installed
)

// fontsInImage is where sitecustomize.py looks for matplotlib's list of fonts.
const fontsInImage = "usr/share/silk/matplotlib/"

// pythonScript compiles the directories in argv. A file with a syntax error (templates, test data) is passed over.
// One worker, a fixed hash seed and unchecked hashes make it give the same bytes each time; unchecked, because the
// image's modification times are not those of the packages.
const pythonScript = `import compileall, os, py_compile, sys
sys.pycache_prefix = "/workspace/` + pycPrefix + `"
for d in sys.argv[1:]:
    compileall.compile_dir(d, quiet=2, workers=1, maxlevels=99, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
sys.dont_write_bytecode = True
sys.path.append("/usr/lib/python3/dist-packages")
os.environ["MPLCONFIGDIR"] = "/workspace/` + fontPrefix + `"
try:
    import matplotlib
except ImportError:
    pass
else:
    from matplotlib import font_manager as fonts
    for known in fonts.fontManager.ttflist, fonts.fontManager.afmlist: # directories list their files in any order
        known.sort(key=lambda f: (f.fname, f.style, str(f.weight)))
    fonts.json_dump(fonts.fontManager, os.path.join(matplotlib.get_cachedir(), f"fontlist-v{fonts.FontManager.__version__}.json"))
`

// pythonFiles makes a .pyc file of every Python file in t; ok is false if there is no Python in it.
func pythonFiles(t *image.Tree) (c compilation, ok bool) {
	if _, ok := t.Stat("usr/bin/python3"); !ok {
		return compilation{}, false
	}
	var dirs []string
	var sources int64
	for e := range t.All() {
		if e.Mode.IsDir() && (path.Dir(e.Path) == "/usr/lib" || path.Dir(e.Path) == "/usr/local/lib") && strings.HasPrefix(path.Base(e.Path), "python3") {
			dirs = append(dirs, e.Path)
		}
		if e.Mode.IsRegular() && path.Ext(e.Path) == ".py" {
			sources += e.Size
		}
	}
	job := CompileJob{
		Args:           append([]string{"/usr/bin/python3", "-S", "-c", pythonScript}, dirs...),
		Env:            []string{"PATH=/usr/bin:/bin", "HOME=/workspace", "LANG=C.UTF-8", "PYTHONHASHSEED=0", "PYTHONUTF8=1", "SOURCE_DATE_EPOCH=0"},
		WorkspaceBytes: 4*sources + 64<<20, // compiled files are about as large as their sources
		MemoryBytes:    1 << 30,
	}
	return compilation{"Python files", job, addCompiled}, true
}

// Bounds of one file that the job made: the largest compiled file in Debian main is below 4 MiB.
const (
	maxPycBytes  = 64 << 20
	maxFontBytes = 1 << 20
)

// addCompiled adds what the job made to t, from a tar stream of its workspace: each compiled file beside its source, and
// the list of fonts.
func addCompiled(t *image.Tree, workspace io.Reader) error {
	added := 0
	err := eachEntry(workspace, func(h *tar.Header, r io.Reader) error {
		if h.Typeflag == tar.TypeDir {
			return nil
		}
		name := strings.TrimPrefix(h.Name, "./")
		if pyc, ok := strings.CutPrefix(name, pycPrefix+"/"); ok {
			added++
			return addPyc(t, pyc, h, r)
		}
		if list, ok := strings.CutPrefix(name, fontPrefix+"/fontlist-"); ok {
			return addFontList(t, "fontlist-"+list, h, r)
		}
		return nil
	})
	if err == nil && added == 0 {
		err = errors.New("python3 compiled nothing")
	}
	return err
}

func addPyc(t *image.Tree, name string, h *tar.Header, r io.Reader) error {
	dir, base := path.Split(name)
	module, rest, _ := strings.Cut(base, ".cpython-")
	if h.Typeflag != tar.TypeReg || !fs.ValidPath(name) || !strings.HasSuffix(rest, ".pyc") || h.Size > maxPycBytes {
		return &image.RefusedError{Entry: h.Name, Err: errors.New("is no compiled Python file")}
	}
	if source, ok := t.Stat(dir + module + ".py"); !ok || !source.Mode.IsRegular() { // Stat: Debian has sources that are links
		return &image.RefusedError{Entry: h.Name, Err: errors.New("has no source in the image")}
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	// PEP 552: magic, then flags: bit 0 hash-based, bit 1 check the source.
	if len(data) < 16 || binary.LittleEndian.Uint32(data[4:]) != 1 {
		return &image.RefusedError{Entry: h.Name, Err: errors.New("is not compiled with an unchecked hash")}
	}
	return t.AddFile(dir+"__pycache__/"+base, 0o644, t.Epoch(), bytes.NewReader(data))
}

func addFontList(t *image.Tree, name string, h *tar.Header, r io.Reader) error {
	if h.Typeflag != tar.TypeReg || strings.Contains(name, "/") || path.Ext(name) != ".json" || h.Size > maxFontBytes {
		return nil // a lock file, for example
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if !json.Valid(data) {
		return &image.RefusedError{Entry: h.Name, Err: errors.New("is not JSON")}
	}
	return t.AddFile(fontsInImage+name, 0o644, t.Epoch(), bytes.NewReader(data))
}
