package recipe

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"sync"
)

// npmTool is the recipe of which the lock of Debian's npm package is a part; no image is made of it.
var npmTool = Recipe{Name: "npm", Packages: []string{"npm"}}

// npmDefinitions is where Debian's npm keeps the defaults of its configuration.
const npmDefinitions = "usr/share/nodejs/npm/lib/utils/config/definitions.js"

// npmRegistryDefault finds the default of the key "registry" there.
var npmRegistryDefault = sync.OnceValue(func() *regexp.Regexp { // not in each start of silk
	return regexp.MustCompile(`define\('registry', \{\s*default: '(https?://[^']+)'`)
})

// RefreshNPM resolves the lock of Debian's npm package, see npmDefault.
func RefreshNPM(ctx context.Context, config Config) (Lock, error) {
	lock, err := Refresh(ctx, npmTool, config)
	if err != nil {
		return Lock{}, err
	}
	for _, p := range lock.Packages {
		if p.Name == npmTool.Name {
			lock.Packages = []Package{p} // not what it depends on: it is read, never run
			return lock, nil
		}
	}
	return Lock{}, errors.New("resolve npm: apt did not name the package itself")
}

// npmDefault is the registry that npm uses when nobody has configured one. A host without npm has nobody to ask, so it
// is read out of Debian's package of npm (0.7 MB, locked, cached): the address itself is written down nowhere here.
func npmDefault(ctx context.Context, config Config) (string, error) {
	lock, err := Committed(npmTool.Name)
	if err != nil {
		return "", err
	}
	config.Frozen = true // a newer one would be resolved with all that it depends on
	if _, err := download(ctx, npmTool, lock, config); err != nil {
		return "", fmt.Errorf("read npm's default registry from Debian's npm package: %w", err)
	}
	text, err := fileInDeb(lock.Packages[0].item(config.Cache, "").path, npmDefinitions)
	if err != nil {
		return "", fmt.Errorf("read npm's default registry from Debian's npm package: %w", err)
	}
	found := npmRegistryDefault().FindSubmatch(text)
	if found == nil {
		return "", errors.New("the npm package of Debian names no default registry where it used to")
	}
	return string(found[1]), nil
}

// maxDebFileBytes bounds what fileInDeb reads: npm's definitions have 60 kB.
const maxDebFileBytes = 4 << 20

// fileInDeb returns the content of one regular file of a Debian package.
func fileInDeb(deb, name string) ([]byte, error) {
	var text []byte
	err := readDeb(deb, func(data io.Reader) error {
		return eachEntry(data, func(h *tar.Header, r io.Reader) (err error) {
			if path.Clean(h.Name) == name && h.Typeflag == tar.TypeReg {
				text, err = io.ReadAll(io.LimitReader(r, maxDebFileBytes))
			}
			return err
		})
	})
	if err == nil && text == nil {
		err = fmt.Errorf("no file %s in the package", name)
	}
	return text, err
}
