package policy

import (
	"path"
	"slices"
	"strings"
)

// Bounds of what is laid over an image: files such as /etc/hosts.
const (
	maxOverlays     = 16
	maxOverlayBytes = 1 << 20
)

// overlays checks the files that are laid over the image. All are configuration of this one sandbox: nothing that a program
// executes comes in this way.
func (d *decision) overlays() {
	if n := len(d.req.Overlays); n > maxOverlays {
		d.fault("%d files are to be laid over the image; %d are taken at most", n, maxOverlays)
		return
	}
	seen := map[string]bool{}
	for _, o := range d.req.Overlays {
		switch {
		case path.Clean(o.Path) != o.Path || !strings.HasPrefix(o.Path, "/etc/") || strings.ContainsRune(o.Path, 0):
			d.fault("file %q cannot be laid over the image: its path is no plain one below /etc", o.Path)
		case seen[o.Path]:
			d.fault("two files are to be laid over %s", o.Path)
		case len(o.Bytes) > maxOverlayBytes:
			d.fault("file %s, which is to be laid over the image, has %d bytes, more than %d", o.Path, len(o.Bytes), maxOverlayBytes)
		}
		seen[o.Path] = true
	}
	d.plan.Overlays = slices.Clone(d.req.Overlays)
}

// maxHostname is HOST_NAME_MAX, sethostname(2).
const maxHostname = 64

// surroundings checks where the program starts, and what it is told the sandbox is called.
func (d *decision) surroundings() {
	if dir := d.plan.Dir; !path.IsAbs(dir) || path.Clean(dir) != dir || strings.ContainsRune(dir, 0) || len(dir) > maxLink {
		d.fault("working directory %.80q is not a plain absolute path", dir)
	}
	name := d.plan.Hostname
	if len(name) > maxHostname || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		d.fault("host name %.80q is not one of up to %d printable characters", name, maxHostname)
	}
}
