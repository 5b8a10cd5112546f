package recipe

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
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
			return &image.RefusedError{Entry: h.Name, Reason: "is not a regular file"}
		}
		if !fs.ValidPath(name) {
			return &image.RefusedError{Entry: h.Name, Reason: "leads out of the package"}
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

// packageName reads "name" of the package.json in an npm tarball.
func packageName(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", err
	}
	defer z.Close()
	var name string
	err = eachEntry(z, func(h *tar.Header, r io.Reader) error {
		if parts := strings.Split(h.Name, "/"); name != "" || len(parts) != 2 || parts[1] != "package.json" {
			return nil
		}
		name, err = jsonName(io.LimitReader(r, maxManifestBytes))
		return err
	})
	if err == nil && !npmName(name) {
		err = fmt.Errorf("package.json names it %q, which is no package name", name)
	}
	return name, err
}

func jsonName(r io.Reader) (string, error) {
	var manifest struct {
		Name string `json:"name"`
	}
	if err := json.NewDecoder(r).Decode(&manifest); err != nil {
		return "", fmt.Errorf("package.json: %w", err)
	}
	return manifest.Name, nil
}
