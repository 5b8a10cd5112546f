package recipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// BuildFile makes the image that the image file at name describes, and tags it with the file's own name.
//
// If the file asks for Debian packages, they are resolved together with those of the lab image, and the lock is kept
// beside the file as NAME.lock: commit it, and the next build takes exactly the same versions. config.Frozen demands
// that it exists and fits.
func BuildFile(ctx context.Context, name string, config Config) (image.Image, error) {
	config = config.withDefaults()
	dir, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return image.Image{}, fmt.Errorf("open image file: %w", err)
	}
	defer dir.Close()
	data, err := readSmall(dir, filepath.Base(name))
	if err != nil {
		return image.Image{}, fmt.Errorf("read image file: %w", err)
	}
	f, err := ParseImageFile(name, data)
	if err != nil {
		return image.Image{}, err
	}
	if err := f.present(dir); err != nil {
		return image.Image{}, err
	}
	r, lock, err := f.resolved(ctx, name+".lock", config)
	if err != nil {
		return image.Image{}, err
	}
	return build(ctx, r, lock, config, func(t *image.Tree) ([]image.Package, error) { return f.add(t, dir) })
}

// present reports the local sources that are not there: before anything is resolved or downloaded, which takes minutes.
func (f ImageFile) present(dir *os.Root) error {
	names := slices.Concat(f.Wheels, f.NPM)
	for _, c := range f.Files {
		names = append(names, c.Src)
	}
	var errs []error
	for _, name := range names {
		_, err := dir.Stat(name)
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err // its operation has a name of the Go library's own
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("local source %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// recipe is the lab image's with the file's additions.
func (f ImageFile) recipe() Recipe {
	r, _ := ByName(f.From) // it parsed
	r.Name = f.Name
	r.Packages = with(r.Packages, f.Packages...)
	r.Omit = slices.DeleteFunc(slices.Clone(r.Omit), func(p string) bool { return slices.Contains(f.Packages, p) })
	return r
}

// resolved returns the recipe and a lock for it: the lab image's own if no packages are added, the one kept at keep,
// else a new one, which it keeps.
func (f ImageFile) resolved(ctx context.Context, keep string, config Config) (Recipe, Lock, error) {
	r := f.recipe()
	if len(f.Packages) == 0 {
		lock, err := Committed(f.From)
		lock.Image = f.Name
		return r, lock, err
	}
	data, err := os.ReadFile(keep)
	switch {
	case err == nil:
		lock, err := ParseLock(data)
		if err != nil {
			return Recipe{}, Lock{}, fmt.Errorf("%s: %w", keep, err)
		}
		if lock.fits(r) {
			return r, lock, nil
		}
		if config.Frozen {
			return Recipe{}, Lock{}, fmt.Errorf("%s was made for other packages than the image file names, and --frozen forbids to make a new one", keep)
		}
		config.Notice(fmt.Sprintf("%s was made for other packages than the image file and %s name now: all are resolved anew, in their current versions", keep, f.From))
	case !missing(err):
		return Recipe{}, Lock{}, fmt.Errorf("read the lock of an image file: %w", err)
	case config.Frozen:
		return Recipe{}, Lock{}, fmt.Errorf("%s does not exist, and --frozen forbids to make it", keep)
	}
	lock, err := Refresh(ctx, r, config)
	if err != nil {
		return Recipe{}, Lock{}, err
	}
	if data, err = lock.Marshal(); err != nil {
		return Recipe{}, Lock{}, err
	}
	if err := atomicfile.Write(keep, data, 0o644); err != nil {
		config.Notice(fmt.Sprintf("the lock could not be kept beside the image file (%v); it is in the image as /%s", err, lockInImage))
	}
	return r, lock, nil
}

// fits reports whether l was made for the packages of r.
func (l Lock) fits(r Recipe) bool {
	npm := func(a Tarball, b NPM) bool { return a.Name == b.Name && a.Version == b.Version && a.In == b.In }
	return slices.Equal(l.Requested, r.Packages) && slices.EqualFunc(l.NPM, r.NPM, npm) &&
		!slices.ContainsFunc(l.Packages, func(p Package) bool { return slices.Contains(r.Omit, p.Name) })
}

// add puts the file's local additions into t, reading only below dir.
func (f ImageFile) add(t *image.Tree, dir *os.Root) ([]image.Package, error) {
	var added []image.Package
	for _, name := range f.Wheels {
		p, err := addLocal(dir, name, func(file *os.File, size int64) (image.Package, error) {
			return addWheel(t, filepath.Base(name), file, size)
		})
		if err != nil {
			return nil, fmt.Errorf("wheel %s: %w", name, err)
		}
		added = append(added, p)
	}
	for _, name := range f.NPM {
		p, err := addLocal(dir, name, func(file *os.File, size int64) (image.Package, error) {
			p, err := npmIdentity(file)
			if err != nil {
				return image.Package{}, err
			}
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				return image.Package{}, err
			}
			return image.Package{Name: "npm:" + p.Name, Version: p.Version}, addNPM(t, nodeModules+p.Name, file)
		})
		if err != nil {
			return nil, fmt.Errorf("npm package %s: %w", name, err)
		}
		added = append(added, p)
	}
	for _, c := range f.Files {
		if err := c.add(t, dir); err != nil {
			return nil, fmt.Errorf("file %s: %w", c.Src, err)
		}
	}
	for _, l := range f.Links {
		if err := t.AddSymlink(l.Path, l.Target); err != nil {
			return nil, err
		}
	}
	return added, nil
}

func addLocal(dir *os.Root, name string, add func(file *os.File, size int64) (image.Package, error)) (image.Package, error) {
	file, info, err := openRegular(dir, name)
	if err != nil {
		return image.Package{}, err
	}
	defer file.Close()
	return add(file, info.Size())
}

// openRegular opens a regular file; a fifo or device would block or have no end.
func openRegular(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := dir.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("is not a regular file")
	}
	file, err := dir.Open(name)
	return file, info, err
}

// maxImageFileBytes bounds an image file; it is written by hand.
const maxImageFileBytes = 1 << 20

func readSmall(dir *os.Root, name string) ([]byte, error) {
	file, info, err := openRegular(dir, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.Size() > maxImageFileBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxImageFileBytes)
	}
	return io.ReadAll(io.LimitReader(file, maxImageFileBytes))
}

// add copies a file or a directory. Links in a directory are copied as links: they are resolved inside the image. A link
// that is the source itself is followed, inside dir.
func (c CopiedFile) add(t *image.Tree, dir *os.Root) error {
	return fs.WalkDir(dir.FS(), filepath.ToSlash(c.Src), func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(c.Src, filepath.FromSlash(name))
		if err != nil {
			return err
		}
		dst := path.Join(c.Dst, filepath.ToSlash(rest))
		switch e.Type() {
		case fs.ModeDir:
			return t.AddDir(dst, 0o755)
		case fs.ModeSymlink:
			target, err := dir.Readlink(filepath.FromSlash(name))
			if err != nil {
				return err
			}
			return t.AddSymlink(dst, target)
		case 0:
			return c.addOne(t, dir, filepath.FromSlash(name), dst)
		default:
			return fmt.Errorf("%s is neither a file, a directory nor a link", name)
		}
	})
}

func (c CopiedFile) addOne(t *image.Tree, dir *os.Root, name, dst string) error {
	file, info, err := openRegular(dir, name)
	if err != nil {
		return err
	}
	defer file.Close()
	mode := c.Mode
	if mode == 0 {
		mode = plainMode(info.Mode())
	}
	return t.AddFile(dst, mode, t.Epoch(), file)
}
