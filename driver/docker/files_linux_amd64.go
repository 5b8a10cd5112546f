package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/image"
)

// engines lay files of their own, with names and addresses of this host's network, over these. The image's are put in their place.
var engines = []string{"/etc/hosts", "/etc/resolv.conf"}

// maxSupplied bounds a file of the image that lies over itself, or that something is added to.
const maxSupplied = 16 << 20

// filesOf are the files that lie over those of the image: the run's, and the image's own where an engine's would be.
func filesOf(spec driver.Spec) (list []driver.File, err error) {
	own := func(name string) ([]byte, error) { return image.ReadFile(spec.Image, name, maxSupplied) }
	for _, f := range spec.Files {
		if f.After {
			before, err := own(f.Path)
			if errors.Is(err, fs.ErrNotExist) {
				continue // nobody in this image would read it
			}
			if err != nil {
				return nil, fmt.Errorf("add to a file of the image: %w", err)
			}
			f.Content = slices.Concat(before, f.Content)
		}
		list = append(list, f)
	}
	for _, name := range engines {
		if slices.ContainsFunc(list, func(f driver.File) bool { return f.Path == name }) {
			continue
		}
		content, err := own(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		list = append(list, driver.File{Path: name, Content: content})
	}
	return list, nil
}
