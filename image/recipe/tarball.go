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
	"path"
	"strings"

	"github.com/silk-sandbox/silk/image"
)

// nodeModules is where Debian's Node finds packages that are not the program's own.
const nodeModules = "usr/share/nodejs/"

// unpackNPM puts an npm tarball into t. Everything in one lies below a single directory, normally "package".
func unpackNPM(t *image.Tree, dir, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return addNPM(t, dir, f)
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
	err = eachEntry(z, func(h *tar.Header, r io.Reader) error {
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
	if err != nil {
		return err
	}
	return addCommands(t, dir)
}

// addCommands makes the links to a package's commands, as npm does: "bin" in package.json is a path or paths by name.
func addCommands(t *image.Tree, dir string) error {
	if _, ok := t.Lookup(dir + "/package.json"); !ok {
		return nil
	}
	r, err := t.Open(dir + "/package.json")
	if err != nil {
		return err
	}
	var manifest struct {
		Name string
		Bin  json.RawMessage
	}
	if err := json.NewDecoder(io.LimitReader(r, maxManifestBytes)).Decode(&manifest); err != nil {
		return fmt.Errorf("package.json: %w", err)
	}
	var single string
	commands := map[string]string{}
	if json.Unmarshal(manifest.Bin, &single) == nil {
		commands[path.Base(manifest.Name)] = single
	} else if len(manifest.Bin) > 0 {
		if err := json.Unmarshal(manifest.Bin, &commands); err != nil {
			return fmt.Errorf("package.json: bin: %w", err)
		}
	}
	for name, file := range commands {
		file = strings.TrimPrefix(file, "./")
		target, ok := t.Lookup(dir + "/" + file)
		if !word(name) || !fs.ValidPath(file) || !ok || !target.Mode.IsRegular() {
			return fmt.Errorf("package.json: command %q is not a file of the package", name)
		}
		if err := errors.Join(t.Chmod(target.Path, 0o755), t.AddSymlink(path.Join(localBin, name), target.Path)); err != nil {
			return err
		}
	}
	return nil
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
		n = NPM{Name: manifest.Name, Version: manifest.Version}
		return err
	})
	if err == nil && !npmName(n.Name) {
		err = fmt.Errorf("package.json names it %q, which is no package name", n.Name)
	}
	return n, err
}
