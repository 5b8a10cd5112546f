package workspace

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"path"
	"strings"
)

// displayed says whether a name lies in the directory of results, and is not hidden there.
func (c *collector) displayed(elements []string, name string) bool {
	return c.cfg.Display != nil && path.Dir(name) == c.cfg.DisplayDir && len(elements) > 0 && !strings.HasPrefix(elements[len(elements)-1], ".")
}

// addDisplay handles a file that is to be a result. It is read into memory, within its bound, and looked at before it is kept.
func (c *collector) addDisplay(h *tar.Header, typ Type, elements []string, name string, content io.Reader) error {
	_, omitted := h.PAXRecords[RecordOmitted]
	switch {
	case c.listed[name]:
		return errors.New("the name appears twice")
	case typ != TypeFile, omitted, isSparse(h), h.Size > min(c.cfg.DisplayBytes, c.cfg.FileBytes), c.displays >= c.cfg.Displays:
		c.got.Hidden++
		return discard(content)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	mime, err := c.cfg.Display(name, data)
	if err != nil {
		c.got.Hidden++
		return nil
	}
	c.displays++
	return c.addFile(Artifact{Type: TypeFile, Size: h.Size, Mode: h.FileInfo().Mode().Perm(), Display: mime}, name, elements, bytes.NewReader(data))
}
