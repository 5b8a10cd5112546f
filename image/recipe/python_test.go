package recipe

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// pyc is a compiled file as Python 3.13 writes it, with the flags given.
func pyc(flags byte) string { return "\xf3\r\r\n" + string(flags) + "\x00\x00\x00" + "12345678code" }

func publishPython(t *testing.T, a *archive) []Package {
	t.Helper()
	return []Package{a.publish("python3", "3", debOf("", tarOf(t,
		entry{name: "./usr/bin/python3.13", data: "elf", mode: 0o755},
		entry{name: "./usr/bin/python3", kind: '2', link: "python3.13"},
		entry{name: "./usr/lib/python3.13/os.py", data: "pass"},
		entry{name: "./usr/lib/python3.13/link.py", kind: '2', link: "os.py"},
		entry{name: "./usr/lib/python3/dist-packages/numpy/tests/__init__.py"},
		entry{name: "./usr/lib/python3/dist-packages/numpy/tests/_helper.py", data: "pass"},
		entry{name: "./usr/lib/python3/dist-packages/numpy/tests/test_a.py", data: "pass"},
		entry{name: "./usr/lib/python3/dist-packages/numpy/tests/data/x.npz", data: "pass"},
		entry{name: "./usr/lib/python3/dist-packages/numpy/testing/test_x.py", data: "pass"},
	)))}
}

func TestPythonFiles(t *testing.T) {
	a := newArchive(t)
	config := testConfig(t, a)
	config.Compile = func(_ context.Context, root *os.File, job CompileJob, read func(io.Reader) error) error {
		head := make([]byte, 2048)
		if _, err := root.ReadAt(head, 0); err != nil || !bytes.Contains(head, []byte{0xe2, 0xe1, 0xf5, 0xe0}) { // EROFS magic
			t.Errorf("root is no EROFS file: %v", err)
		}
		if !slices.Contains(job.Args, "/usr/lib/python3.13") || !slices.Contains(job.Args, "/usr/lib/python3") || !slices.Contains(job.Env, "PYTHONHASHSEED=0") {
			t.Errorf("job = %q %q", job.Args, job.Env)
		}
		return read(bytes.NewReader(tarOf(t,
			entry{name: "./pyc/", kind: '5'},
			entry{name: "./pyc/usr/lib/python3.13/os.cpython-313.pyc", data: pyc(1)},
			entry{name: "./pyc/usr/lib/python3.13/link.cpython-313.pyc", data: pyc(1)},
			entry{name: "./matplotlib/fontlist-v390.json", data: "{}"},
			entry{name: "./matplotlib/fontlist-v390.json.matplotlib-lock"},
			entry{name: "./matplotlib/other", data: "x"},
		)))
	}
	img, err := Build(t.Context(), Recipe{Name: "lab:py", Tests: "usr/lib/python3/dist-packages"}, testLock(publishPython(t, a)...), config)
	if err != nil {
		t.Fatal(err)
	}
	tree := load(t, config.Store, img)
	for name, want := range map[string]string{
		"/usr/lib/python3.13/__pycache__/os.cpython-313.pyc":     "file 644 " + pyc(1),
		"/usr/lib/python3.13/__pycache__/link.cpython-313.pyc":   "file 644 " + pyc(1),
		"/usr/share/silk/matplotlib/fontlist-v390.json":          "file 644 {}",
		"/usr/share/silk/matplotlib/other":                       "absent",
		"/usr/bin/python":                                        "link python3",
		"/usr/lib/python3/dist-packages/numpy/tests/__init__.py": "file 644 ",
		"/usr/lib/python3/dist-packages/numpy/tests/_helper.py":  "file 644 pass",
		"/usr/lib/python3/dist-packages/numpy/tests/test_a.py":   "absent",
		"/usr/lib/python3/dist-packages/numpy/tests/data":        "absent",
		"/usr/lib/python3/dist-packages/numpy/testing/test_x.py": "file 644 pass",
	} {
		if got := describe(t, tree, name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestPythonFilesRefuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		entries []entry
		want    string
	}{
		{"nothing", nil, "compiled nothing"},
		{"a file without a source", []entry{{name: "pyc/usr/lib/python3.13/evil.cpython-313.pyc", data: pyc(1)}}, "has no source"},
		{"a file whose source is checked", []entry{{name: "pyc/usr/lib/python3.13/os.cpython-313.pyc", data: pyc(3)}}, "unchecked hash"},
		{"a file that depends on times", []entry{{name: "pyc/usr/lib/python3.13/os.cpython-313.pyc", data: pyc(0)}}, "unchecked hash"},
		{"a name that leads out", []entry{{name: "pyc/usr/lib/../../etc/os.cpython-313.pyc", data: pyc(1)}}, "no compiled Python file"},
		{"another kind of file", []entry{{name: "pyc/usr/bin/python3.13", data: "x"}}, "no compiled Python file"},
		{"a link", []entry{{name: "pyc/usr/lib/python3.13/os.cpython-313.pyc", kind: '2', link: "/etc/shadow"}}, "no compiled Python file"},
		{"fonts that are no JSON", []entry{{name: "matplotlib/fontlist-v390.json", data: "{"}}, "not JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newArchive(t)
			config := testConfig(t, a)
			config.Compile = compiling(t, tt.entries...)
			_, err := Build(t.Context(), Recipe{Name: "lab:py"}, testLock(publishPython(t, a)...), config)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q in it", err, tt.want)
			}
		})
	}
}
