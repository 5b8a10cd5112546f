package recipe

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/silk-sandbox/silk/image"
)

// nodeModules is where Debian's Node finds packages that are not the program's own.
const nodeModules = "usr/share/nodejs/"

// unpackNPM puts an npm tarball into t. Everything in one lies below a single directory, normally "package".
func unpackNPM(t *image.Tree, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return addNPM(t, nodeModules+name, f)
}

func addNPM(t *image.Tree, dir string, r io.Reader) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	defer z.Close()
	if err := t.RemoveAll(dir); err != nil {
		return err
	}
	return eachEntry(z, func(h *tar.Header, r io.Reader) error {
		_, name, ok := strings.Cut(strings.TrimSuffix(h.Name, "/"), "/")
		if !ok || h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader {
			return nil
		}
		if h.Typeflag != tar.TypeReg {
			return &image.RefusedError{Entry: h.Name, Err: errors.New("is not a regular file")}
		}
		if !fs.ValidPath(name) {
			return &image.RefusedError{Entry: h.Name, Err: errors.New("leads out of the package")}
		}
		return t.AddFile(dir+"/"+name, plainMode(h.FileInfo().Mode()), t.Epoch(), r)
	})
}

// plainMode is the mode that git would keep: executable or not.
func plainMode(mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// npmIdentity reads name and version in the package.json of an npm tarball.
func npmIdentity(r io.Reader) (NPM, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return NPM{}, err
	}
	defer z.Close()
	var n NPM
	err = eachEntry(z, func(h *tar.Header, r io.Reader) error {
		if parts := strings.Split(h.Name, "/"); len(parts) != 2 || parts[1] != "package.json" {
			return nil
		}
		var manifest struct{ Name, Version string }
		err := json.NewDecoder(io.LimitReader(r, maxManifestBytes)).Decode(&manifest)
		n = NPM{manifest.Name, manifest.Version}
		return err
	})
	if err == nil && !npmName(n.Name) {
		err = fmt.Errorf("package.json names it %q, which is no package name", n.Name)
	}
	return n, err
}
