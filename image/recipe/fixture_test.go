package recipe

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/silk-sandbox/silk/image"
)

// entry is one entry of a test archive.
type entry struct {
	name string
	kind byte // tar type; 0 is a regular file
	data string
	mode int64
	link string
}

// tarOf makes a tar archive.
func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: e.mode, Linkname: e.link, Size: int64(len(e.data)), ModTime: time.Unix(1700000000, 0)}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func zstded(t *testing.T, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

// debOf makes a Debian package whose data member has the extension and content given.
func debOf(extension string, data []byte) []byte {
	var buf bytes.Buffer
	buf.WriteString("!<arch>\n")
	member := func(name string, data []byte) {
		fmt.Fprintf(&buf, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, 0, 0, 0, 0o100644, len(data))
		buf.Write(data)
		if len(data)%2 == 1 {
			buf.WriteByte('\n')
		}
	}
	member("debian-binary", []byte("2.0\n"))
	member("control.tar.gz", []byte("control is never read"))
	member("data.tar"+extension, data)
	return buf.Bytes()
}

// archive is a Debian mirror and npm registry on loopback that can misbehave.
type archive struct {
	*httptest.Server
	mu       sync.Mutex
	files    map[string][]byte
	requests []string                                                                 // "path range"
	intrude  func(w http.ResponseWriter, r *http.Request, data []byte) (handled bool) // called before an answer
}

func newArchive(t *testing.T) *archive {
	a := &archive{files: map[string][]byte{"/dists/trixie/InRelease": []byte("Origin: Debian\nSuite: stable\n")}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.requests = append(a.requests, r.URL.Path+" "+r.Header.Get("Range"))
		data, ok := a.files[r.URL.Path]
		if a.intrude != nil && a.intrude(w, r, data) {
			return
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, path.Base(r.URL.Path), time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(a.Close)
	return a
}

// count returns how many requests for path came.
func (a *archive) count(match func(request string) bool) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, r := range a.requests {
		if match(r) {
			n++
		}
	}
	return n
}

// publish puts a package into the archive and returns its line in a lock.
func (a *archive) publish(name, version string, deb []byte) Package {
	file := name + "_" + version[strings.Index(version, ":")+1:] + "_amd64.deb" // without the epoch, as in Debian
	p := Package{Name: name, Version: version, Path: "pool/main/" + name[:1] + "/" + name + "/" + file, SHA256: hexSHA256(deb), Size: int64(len(deb))}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files["/"+p.Path] = deb
	return p
}

// publishNPM puts a tarball into the registry.
func (a *archive) publishNPM(name, version string, tgz []byte) Tarball {
	sum := sha512.Sum512(tgz)
	t := Tarball{Name: name, Version: version, Integrity: "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files[tarballURL("", t)] = tgz
	a.files["/"+name+"/"+version] = fmt.Appendf(nil, `{"name":%q,"dist":{"integrity":%q}}`, name, t.Integrity)
	return t
}

func hexSHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// testConfig is a configuration that touches nothing of the host.
func testConfig(t *testing.T, a *archive) Config {
	t.Helper()
	dir := t.TempDir()
	store, err := image.Open(image.Config{Home: filepath.Join(dir, "images")})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Store: store, Cache: filepath.Join(dir, "cache"), AptDir: filepath.Join(dir, "no-apt"), SpoolDir: dir}
	if a != nil {
		c.Mirror, c.NPMRegistry = a.URL, a.URL
	}
	return c
}

func testLock(packages ...Package) Lock {
	return Lock{Schema: LockSchema, Image: "test", Suite: suite, Arch: arch, Repairs: Repairs, Packages: packages}
}

// index writes the files that apt reads, for packages with their dependencies.
func (a *archive) index(depends map[string]string, packages ...Package) {
	var list bytes.Buffer
	for _, p := range packages {
		fmt.Fprintf(&list, "Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: x\nDescription: x\nFilename: %s\nSize: %d\nSHA256: %s\n", p.Name, p.Version, p.Path, p.Size, p.SHA256)
		if d := depends[p.Name]; d != "" {
			fmt.Fprintf(&list, "Depends: %s\n", d)
		}
		list.WriteByte('\n')
	}
	release := fmt.Appendf(nil, "Origin: Debian\nSuite: stable\nCodename: trixie\nArchitectures: amd64\nComponents: main\nDate: Sat, 01 Nov 2025 00:00:00 UTC\nSHA256:\n %s %d main/binary-amd64/Packages\n",
		hexSHA256(list.Bytes()), list.Len())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files["/dists/trixie/main/binary-amd64/Packages"] = list.Bytes()
	a.files["/dists/trixie/InRelease"] = release // unsigned: apt is told to trust this archive
	a.files["/dists/trixie/Release"] = release
}

func perm(mode fs.FileMode) string { return strconv.FormatUint(uint64(mode.Perm()), 8) }

func read(t *testing.T, tree *image.Tree, name string) string {
	t.Helper()
	r, err := tree.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
