package recipe

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/image"
)

// left are trees of Debian packages that no program in a sandbox reads: manuals, translations, and what the package
// manager and the init system use. Licences (usr/share/doc/*/copyright, usr/share/common-licenses) stay.
var left = []string{
	"etc/apt", "etc/cron.daily", "etc/dpkg", "etc/init.d", "etc/logrotate.d", "etc/pam.conf", "etc/pam.d", "etc/rc?.d",
	"etc/security", "etc/systemd", "etc/update-motd.d", "usr/lib/systemd", "usr/lib/udev", "usr/share/bash-completion",
	"usr/share/bug", "usr/share/doc-base", "usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/man",
	"usr/share/menu", "usr/share/metainfo", "var/cache", "var/lib/dpkg", "var/lib/systemd", "var/log",
}

// omitted reports whether the entry at name (relative to the root) stays out of an image.
func omitted(name string, h *tar.Header, tests string) bool {
	parts := strings.Split(name, "/")
	if len(parts) >= 4 && path.Join(parts[:3]...) == "usr/share/doc" {
		licence := len(parts) == 5 && parts[4] == "copyright"
		return !licence && !(len(parts) == 4 && h.Typeflag == tar.TypeSymlink)
	}
	for i := range parts {
		if matches(left, path.Join(parts[:i+1]...)) {
			return true
		}
	}
	return tests != "" && strings.HasPrefix(name, tests+"/") && slices.Contains(parts[:len(parts)-1], "tests") && testOnly(parts[len(parts)-1], h)
}

// testOnly reports whether a file in a directory "tests" is a test or its data. Other modules there are imported by
// code that is no test: numpy.testing needs numpy._core.tests._natype.
func testOnly(base string, h *tar.Header) bool {
	return h.Typeflag == tar.TypeDir || path.Ext(base) != ".py" || strings.HasPrefix(base, "test_")
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// unpack puts the packages into t: base-files first, because it makes the links of the merged /usr, then by name.
// report is told how many bytes of package files are done.
func unpack(ctx context.Context, t *image.Tree, packages []Package, cache string, tests string, report func(bytes int64)) error {
	packages = slices.Clone(packages)
	slices.SortFunc(packages, func(a, b Package) int {
		if first, second := a.Name == "base-files", b.Name == "base-files"; first != second {
			if first {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	ctx, cancel := context.WithCancel(ctx)
	streams := decompressed(ctx, packages, cache)
	defer func() {
		cancel()
		for s := range streams { // the goroutines end before the files' directory may go
			_ = s.Close()
		}
	}()
	for _, p := range packages {
		s, ok := <-streams
		if !ok {
			return context.Cause(ctx)
		}
		err := eachEntry(s, func(h *tar.Header, r io.Reader) error { return addDebEntry(t, h, r, tests) })
		if err = errors.Join(err, s.Close()); err != nil {
			return fmt.Errorf("unpack package %s %s: %w", p.Name, p.Version, err)
		}
		report(p.Size)
	}
	return nil
}

// addDebEntry adds one entry of a package's file system.
func addDebEntry(t *image.Tree, h *tar.Header, r io.Reader, tests string) error {
	name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
	if name == "" || omitted(name, h, tests) {
		return nil
	}
	mode := h.FileInfo().Mode()
	switch h.Typeflag {
	case tar.TypeDir:
		return t.AddDir(name, mode)
	case tar.TypeReg:
		return t.AddFile(name, mode, h.ModTime, r)
	case tar.TypeSymlink:
		return t.AddSymlink(name, h.Linkname)
	case tar.TypeLink:
		return t.AddHardlink(name, strings.TrimPrefix(h.Linkname, "./"))
	default:
		return &image.RefusedError{Entry: h.Name, Err: errors.New("is neither a file, a directory nor a link")}
	}
}

// stream is the file system of one package, decompressed by a goroutine of its own ahead of its reader.
type stream struct {
	*io.PipeReader
	done chan struct{}
}

// Close ends the goroutine and waits for it.
func (s stream) Close() error {
	err := s.PipeReader.Close()
	<-s.done
	return err
}

// decompressed yields a stream for each package, in order, one ahead of the reader. It ends early if ctx is done.
func decompressed(ctx context.Context, packages []Package, cache string) <-chan stream {
	streams := make(chan stream, 1)
	go func() {
		defer close(streams)
		for _, p := range packages {
			r, w := io.Pipe()
			s := stream{r, make(chan struct{})}
			go func() {
				defer close(s.done)
				buffered := bufio.NewWriterSize(w, 1<<20)
				err := readDeb(p.item(cache, "").path, func(data io.Reader) error {
					_, err := io.Copy(buffered, data)
					return err
				})
				w.CloseWithError(errors.Join(err, buffered.Flush()))
			}()
			select {
			case streams <- s:
			case <-ctx.Done():
				_ = s.Close()
				return
			}
		}
	}()
	return streams
}
