package policy

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/profile"
)

// maxText is the longest argument or environment entry that Linux passes to a program: MAX_ARG_STRLEN, 32 pages, minus
// the NUL (include/uapi/linux/binfmts.h).
const maxText = 32*4096 - 1

// maxTexts bounds all arguments and environment entries together, well under the 6 MiB that execve(2) takes at most.
const maxTexts = 2 << 20

// names checks what is put into the workspace: every name local, none taken twice, none where silk keeps its own.
func (d *decision) names() {
	taken := map[string]string{}
	claim := func(name, what string) {
		if other, ok := taken[name]; ok {
			d.fault("%s and %s would both be /workspace/%s", other, what, name)
			return
		}
		taken[name] = what
	}
	if c := d.req.Code; c != nil {
		switch {
		case !localName(c.Name):
			d.fault("code name %q does not lie inside /workspace", c.Name)
		case path.Clean(c.Name) != c.Name || c.Name == ".":
			d.fault("code name %q is not a plain path", c.Name)
		case longElement(c.Name):
			d.fault("code name %.40q... has an element of more than %d bytes", c.Name, maxElement)
		case reserved(c.Name):
			d.fault("code name %q lies in .silk, which silk needs", c.Name)
		case c.Bytes == nil && d.req.Dir == "" && d.req.Kept == nil:
			d.fault("code %q has no bytes and no directory that it lies in", c.Name)
		default:
			claim(c.Name, "the code")
		}
		code := *c
		d.plan.Code = &code
	}
	d.uploads(claim)
	if d.req.Dir != "" && !filepath.IsAbs(d.req.Dir) {
		d.fault("directory %q is not an absolute path", d.req.Dir)
	}
	if d.req.Client == ClientRuntime && d.req.Dir != "" && !d.inStore(d.req.Dir) {
		d.deny(RuleMount, "add its directory to grants: stores: in the configuration", "directory %q lies in no store that the owner listed", d.req.Dir)
	}
	for _, f := range d.req.Files {
		if !filepath.IsAbs(f) || strings.ContainsRune(f, 0) {
			d.fault("file %q is not an absolute path", f)
			continue
		}
		base := filepath.Base(f)
		if reserved(base) || base == string(filepath.Separator) {
			d.fault("file %q cannot be called that in /workspace", f)
			continue
		}
		claim(base, "file "+f)
	}
}

// maxLink is what Linux takes as the target of a link: PATH_MAX without the NUL, symlink(2).
const maxLink = 4095

// uploads checks the names of files that were sent along.
func (d *decision) uploads(claim func(name, what string)) {
	if n := len(d.req.Uploads); n > maxUploads {
		d.fault("%d files are sent along; %d are taken at most", n, maxUploads)
		return
	}
	names := map[string]bool{}
	if d.req.Code != nil {
		names[d.req.Code.Name] = true
	}
	for _, u := range d.req.Uploads {
		switch {
		case !localName(u.Name) || path.Clean(u.Name) != u.Name || u.Name == ".":
			d.fault("file name %q is not a plain path inside /workspace", u.Name)
		case longElement(u.Name):
			d.fault("file name %.40q... has an element of more than %d bytes", u.Name, maxElement)
		case reserved(u.Name):
			d.fault("file name %q lies in .silk, which silk needs", u.Name)
		case u.Mode > 0o777:
			d.fault("file %s has permissions beyond 0777", u.Name)
		case u.Dir && u.Link != "", (u.Dir || u.Link != "") && len(u.Bytes) > 0, len(u.Link) > maxLink, strings.ContainsRune(u.Link, 0):
			d.fault("file %s is not one of a file, a directory, and a link to a path of up to %d bytes", u.Name, maxLink)
		default:
			claim(u.Name, "file "+u.Name)
			names[u.Name] = !u.Dir
		}
	}
	for _, u := range d.req.Uploads {
		for dir := path.Dir(u.Name); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if names[dir] {
				d.fault("file %s cannot be below the file %s", u.Name, dir)
				break
			}
		}
	}
	d.plan.Uploads = slices.Clone(d.req.Uploads)
}

// mounts checks that each target lies below /workspace and each source inside a store of the owner. The sources are
// compared as text here; the engine compares what they resolve to once more.
func (d *decision) mounts() {
	seen := map[string]bool{}
	for _, m := range d.req.Mounts {
		if !filepath.IsAbs(m.Source) || strings.ContainsRune(m.Source, 0) {
			d.fault("mount source %q is not an absolute path", m.Source)
			continue
		}
		if filepath.Clean(m.Source) != m.Source {
			d.deny(RuleMount, "write the path without . and ..", "mount source %q is not a plain path", m.Source)
			continue
		}
		if m.Target == "" {
			m.Target = path.Join(Workspace, filepath.Base(m.Source))
		}
		name, below := strings.CutPrefix(m.Target, Workspace+"/")
		if !below || path.Clean(m.Target) != m.Target || !localName(name) || reserved(name) {
			d.deny(RuleMount, "choose a target below /workspace", "mount target %q does not lie below /workspace", m.Target)
			continue
		}
		if seen[m.Target] {
			d.fault("two mounts have the target %s", m.Target)
			continue
		}
		seen[m.Target] = true
		if !d.inStore(m.Source) {
			d.deny(RuleMount, "add its directory to grants: stores: in the configuration", "mount source %q lies in no store that the owner listed", m.Source)
			continue
		}
		d.plan.Mounts = append(d.plan.Mounts, m)
		d.plan.Grants = append(d.plan.Grants, fmt.Sprintf("mount %s on %s (config)", m.Source, m.Target))
	}
}

// hidden refuses mounts that would cover the code or a file.
func (d *decision) hidden() {
	names := make([]string, 0, 1+len(d.req.Files))
	if d.req.Code != nil {
		names = append(names, d.req.Code.Name)
	}
	for _, f := range d.req.Files {
		names = append(names, filepath.Base(f))
	}
	for _, u := range d.req.Uploads {
		names = append(names, u.Name)
	}
	for _, m := range d.plan.Mounts {
		for _, name := range names {
			if full := path.Join(Workspace, name); full == m.Target || strings.HasPrefix(full, m.Target+"/") {
				d.fault("the mount on %s would hide %s", m.Target, full)
			}
		}
	}
}

func (d *decision) inStore(path string) bool {
	return slices.ContainsFunc(d.owner.Stores, func(store string) bool { return within(store, path) })
}

// within says whether p is dir or lies below it. Both are clean absolute paths; a store that is not matches nothing.
func within(dir, p string) bool {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return false
	}
	rel, err := filepath.Rel(dir, p)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

func localName(name string) bool {
	return filepath.IsLocal(name) && !strings.ContainsRune(name, 0)
}

// maxElement is the longest element of a path, in bytes: NAME_MAX, limits.h(0p).
const maxElement = 255

func longElement(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(element string) bool { return len(element) > maxElement })
}

func reserved(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return first == ".silk"
}

// parseEnv splits KEY=VALUE.
func parseEnv(entry string) (key, value string, err error) {
	key, value, ok := strings.Cut(entry, "=")
	if !ok {
		return "", "", fmt.Errorf("environment %q is not KEY=VALUE", entry)
	}
	// The value may be a secret: it stands in no message.
	switch {
	case !profile.IsEnvName(key):
		return "", "", fmt.Errorf("environment name %q is not letters, digits and _", key)
	case strings.ContainsRune(value, 0):
		return "", "", fmt.Errorf("environment variable %s holds a NUL byte", key)
	case len(entry) > maxText:
		return "", "", fmt.Errorf("environment variable %s is longer than %d bytes", key, maxText)
	}
	return key, value, nil
}
