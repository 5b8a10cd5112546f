package recipe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/silk-sandbox/silk/image"
)

// Repairs is the revision of the rules in this file and of what unpack leaves out. A lock names it, so that lock and
// digest belong together; raise it with any change that alters images, and refresh the locks.
const Repairs = 2

// An alternative is a link that a maintainer script would have made with update-alternatives(1): to the first choice
// that is installed, unless a package brings the name itself.
type alternative struct {
	link    string
	choices []string // relative to the link's directory
}

// alternatives of the packages in lab images, from the postinst scripts of Debian 13, plus the names that people type
// and Debian does not install (python, pytest).
var alternatives = []alternative{
	{"usr/bin/awk", []string{"gawk", "mawk", "original-awk"}},
	{"usr/bin/c++", []string{"g++", "clang++"}},
	{"usr/bin/c89", []string{"c89-gcc"}},
	{"usr/bin/c99", []string{"c99-gcc"}},
	{"usr/bin/cc", []string{"gcc", "clang"}},
	{"usr/bin/js", []string{"node"}},
	{"usr/bin/lzcat", []string{"xzcat"}},
	{"usr/bin/lzma", []string{"xz"}},
	{"usr/bin/nawk", []string{"gawk", "mawk"}},
	{"usr/bin/pager", []string{"less", "more"}},
	{"usr/bin/pytest", []string{"pytest-3"}},
	{"usr/bin/python", []string{"python3"}},
	{"usr/bin/rename", []string{"file-rename", "rename.ul"}},
	{"usr/bin/unlzma", []string{"unxz"}},
	{"usr/bin/w", []string{"w.procps"}},
	{"usr/bin/which", []string{"which.debianutils"}},
	{"usr/lib/x86_64-linux-gnu/libblas.so.3", []string{"openblas-pthread/libblas.so.3", "blas/libblas.so.3"}},
	{"usr/lib/x86_64-linux-gnu/liblapack.so.3", []string{"openblas-pthread/liblapack.so.3", "lapack/liblapack.so.3"}},
	{"usr/lib/x86_64-linux-gnu/libopenblas.so.0", []string{"openblas-pthread/libopenblas.so.0"}},
	{"usr/sbin/rmt", []string{"rmt-tar"}},
}

// etc are the configuration files that maintainer scripts or an administrator would have written. User and group names
// come from libnss-cache, which reads files of its own (libnss-extrausers would do it too, but not for ids below 500):
// nothing ever opens /etc/passwd, so an open of it is deliberate.
var etc = []File{
	{"etc/gitconfig", []byte("[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n")},
	{"etc/group.cache", []byte("root:x:0:\nsilk:x:1000:\nnogroup:x:65534:\n")},
	{"etc/hostname", []byte("silk\n")},
	{"etc/hosts", []byte("127.0.0.1\tlocalhost silk\n::1\tlocalhost ip6-localhost\n")},
	{"etc/nsswitch.conf", []byte("passwd: cache\ngroup: cache\nshadow: cache\ngshadow:\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n")},
	{"etc/passwd.cache", []byte("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nsilk:x:1000:1000:silk:/workspace:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")},
	{"etc/resolv.conf", []byte("nameserver 127.0.0.1\n")},
}

// forbidden never are in an image: opening one is a violation, and none of them would be of use. The directories are empty
// but for a shell's settings, and would end the run of whoever walks through all that there is.
var forbidden = []string{
	"etc/passwd", "etc/passwd-", "etc/shadow", "etc/shadow-", "etc/group", "etc/group-", "etc/gshadow", "etc/gshadow-",
	"etc/sudoers", "etc/sudoers.d", "root", "boot",
}

// repair does what maintainer scripts would have done, as far as programs rely on it.
func repair(t *image.Tree) error {
	for _, name := range forbidden {
		if err := t.RemoveAll(name); err != nil {
			return err
		}
	}
	for _, a := range alternatives {
		if err := a.apply(t); err != nil {
			return err
		}
	}
	for _, f := range etc {
		if err := f.add(t); err != nil {
			return err
		}
	}
	if _, ok := t.Stat("usr/share/zoneinfo/Etc/UTC"); ok {
		if err := t.AddSymlink("etc/localtime", "/usr/share/zoneinfo/Etc/UTC"); err != nil {
			return err
		}
	}
	if err := certificates(t); err != nil {
		return err
	}
	return image.EnsureMountpoints(t)
}

func (a alternative) apply(t *image.Tree) error {
	if _, ok := t.Lookup(a.link); ok {
		return nil
	}
	for _, choice := range a.choices {
		if _, ok := t.Stat(path.Join(path.Dir(a.link), choice)); ok {
			return t.AddSymlink(a.link, choice)
		}
	}
	return nil
}

func (f File) add(t *image.Tree) error {
	return t.AddFile(f.Path, 0o644, t.Epoch(), bytes.NewReader(f.Data))
}

// certificates makes the bundle of certificate authorities, as update-ca-certificates(8) does, and the names under
// which OpenSSL, Python and Go look for it.
func certificates(t *image.Tree) error {
	const source, bundle = "/usr/share/ca-certificates/mozilla/", "etc/ssl/certs/ca-certificates.crt"
	var all []io.Reader
	for e := range t.All() { // sorted
		if !strings.HasPrefix(e.Path, source) || path.Ext(e.Path) != ".crt" {
			continue
		}
		r, err := t.Open(e.Path)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil
	}
	if err := t.AddFile(bundle, 0o644, t.Epoch(), io.MultiReader(all...)); err != nil {
		return fmt.Errorf("make certificate bundle: %w", err)
	}
	var errs []error
	for link, target := range map[string]string{"usr/lib/ssl/cert.pem": "/" + bundle, "usr/lib/ssl/certs": "/etc/ssl/certs"} {
		if _, ok := t.Lookup(link); !ok {
			errs = append(errs, t.AddSymlink(link, target))
		}
	}
	return errors.Join(errs...)
}
