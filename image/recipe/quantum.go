package recipe

import "slices"

// quantum is circuits: OpenQASM and Q# by files and fences (quantum.mjs), QuTiP for Python, and two libraries for JavaScript.
func quantum() Recipe {
	return Recipe{
		Name:    "lab:quantum",
		Summary: "OpenQASM 2 and 3, Q#, QuTiP, and circuits in JavaScript",
		Packages: with(base, "ca-certificates", "fonts-dejavu-core", "libopenblas0-pthread", "nodejs", "python3", "python3-matplotlib",
			"python3-numpy", "python3-qutip", "python3-scipy"),
		Omit:  with(with(unused, noDisplay...), compilers...),
		Tests: "usr/lib/python3/dist-packages",
		NPM: byName([]NPM{
			{Name: "qsharp-lang", Version: "1.32.5-dev"},
			{Name: "jsqubits", Version: "2.1.2"},
			{Name: "quantum-circuit", Version: "0.9.250"},
			{Name: "antlr4", Version: "4.7.2"}, // and what mathjs needs:
			{Name: "mathjs", Version: "6.6.5"},
			{Name: "complex.js", Version: "2.4.3"},
			{Name: "decimal.js", Version: "10.6.0"},
			{Name: "escape-latex", Version: "1.2.0"},
			{Name: "fraction.js", Version: "4.3.7"},
			{Name: "javascript-natural-sort", Version: "0.7.1"},
			{Name: "seed-random", Version: "2.2.0"},
			{Name: "tiny-emitter", Version: "2.1.0"},
			{Name: "typed-function", Version: "1.1.1"},
		}),
		Files: slices.Concat(figures(), []File{
			embedded("usr/lib/python3/dist-packages/silk_quantum.py", "quantum/silk_quantum.py"),
			embedded("usr/lib/silk/quantum.mjs", "quantum/quantum.mjs"),
			embedded("usr/lib/silk/quantum-text.mjs", "quantum/quantum-text.mjs"),
			embedded("usr/share/nodejs/silk-quantum/index.js", "quantum/silk-quantum/index.js"),
			embedded("usr/share/nodejs/silk-quantum/package.json", "quantum/silk-quantum/package.json"),
		}),
		Links: []Link{importable},
	}
}

// importable makes import find packages, which looks for node_modules from the file's directory upwards and, other than
// Debian's require, nowhere else.
var importable = Link{"/node_modules", "/usr/share/nodejs"}

// compilers come with QuTiP, which would translate formulas given as text with them; without Cython it does not.
var compilers = []string{
	"binutils", "binutils-common", "binutils-x86-64-linux-gnu", "cpp", "cpp-14", "cpp-14-x86-64-linux-gnu",
	"cpp-x86-64-linux-gnu", "g++", "g++-14", "g++-14-x86-64-linux-gnu", "g++-x86-64-linux-gnu", "gcc", "gcc-14",
	"gcc-14-x86-64-linux-gnu", "gcc-x86-64-linux-gnu", "libasan8", "libatomic1", "libbinutils", "libc-dev-bin", "libc6-dev",
	"libcc1-0", "libcrypt-dev", "libctf-nobfd0", "libctf0", "libexpat1-dev", "libgcc-14-dev", "libgprofng0", "libhwasan0",
	"libisl23", "libitm1", "libjansson4", "libjs-sphinxdoc", "libjs-underscore", "liblsan0", "libmpc3", "libpython3-dev",
	"libpython3.13", "libpython3.13-dev", "libsframe1", "libstdc++-14-dev", "libtsan2", "libubsan1", "linux-libc-dev",
	"python3-dev", "python3.13-dev", "rpcsvc-proto", "zlib1g-dev",
}
