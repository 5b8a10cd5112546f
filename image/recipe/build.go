package recipe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/image"
)

// lockInImage is where an image keeps the lock that it was made from, so that it can always be made again.
const lockInImage = "usr/share/silk/lock.json"

// extras adds what an image file has besides packages: local files, which no lock lists.
type extras func(t *image.Tree) ([]image.Package, error)

// Build makes the image that lock describes, puts it into config.Store and tags it with the recipe's name. Equal lock,
// recipe and Compile give an equal digest, wherever and from whatever mirror. An interrupted build goes on where
// its downloads ended; on error the store is as before.
//
// If the archive does not have a locked version any more, the recipe is resolved again with apt, config.Notice is told,
// and the image has the new lock in /usr/share/silk/lock.json; with config.Frozen it is an error instead.
func Build(ctx context.Context, r Recipe, lock Lock, config Config) (image.Image, error) {
	return build(ctx, r, lock, config, nil)
}

func build(ctx context.Context, r Recipe, lock Lock, config Config, more extras) (image.Image, error) {
	config = config.withDefaults()
	if config.Cache == "" || config.Store == nil {
		return image.Image{}, errors.New("neither cache nor store is configured")
	}
	if err := lock.validate(); err != nil {
		return image.Image{}, fmt.Errorf("lock: %w", err)
	}
	if err := os.MkdirAll(config.Cache, 0o755); err != nil {
		return image.Image{}, fmt.Errorf("make package cache: %w", err)
	}
	lock, err := download(ctx, r, lock, config)
	if err != nil {
		return image.Image{}, err
	}
	return assemble(ctx, r, lock, config, more)
}

// download brings everything in lock into the cache, and returns the lock that was followed in the end.
func download(ctx context.Context, r Recipe, lock Lock, config Config) (Lock, error) {
	archive, err := archiveClient(config)
	if err != nil {
		return Lock{}, err
	}
	m := &mirror{config: config, client: archive, suite: lock.Suite}
	lacking, err := uncached(lock, config)
	if err != nil {
		return Lock{}, err
	}
	if len(lacking) > 0 && !config.Frozen {
		newer, ok, err := replacement(config.Cache, r, lock)
		if err != nil {
			return Lock{}, err
		}
		if ok {
			config.Notice(replaced(r, lock, newer))
			lock = newer
			if lacking, err = uncached(lock, config); err != nil {
				return Lock{}, err
			}
		}
	}
	gone, err := downloadPackages(ctx, lacking, config, m)
	if err != nil {
		return Lock{}, err
	}
	if len(gone) > 0 {
		newer, err := replace(ctx, r, lock, gone, config, m)
		if err != nil {
			return Lock{}, err
		}
		config.Notice(replaced(r, lock, newer))
		if lacking, err = uncached(newer, config); err != nil {
			return Lock{}, err
		}
		if gone, err = downloadPackages(ctx, lacking, config, m); err == nil && len(gone) > 0 {
			err = fmt.Errorf("%w, though apt has just named it", gone[0])
		}
		if err = errors.Join(err, remember(config.Cache, lock, newer)); err != nil {
			return Lock{}, err
		}
		lock = newer
	}
	return lock, downloadTarballs(ctx, lock, config)
}

// uncached lists the packages that the cache does not have.
func uncached(lock Lock, config Config) ([]Package, error) {
	var lacking []Package
	for _, p := range lock.Packages {
		have, err := p.item(config.Cache, "").cached()
		if err != nil {
			return nil, err
		}
		if !have {
			lacking = append(lacking, p)
		}
	}
	return lacking, nil
}

func downloadPackages(ctx context.Context, lacking []Package, config Config, m *mirror) ([]*goneError, error) {
	if len(lacking) == 0 {
		return nil, nil
	}
	from, err := m.source(ctx)
	if err != nil {
		return nil, err
	}
	var items []item
	var total int64
	for _, p := range lacking {
		items = append(items, p.item(config.Cache, from.uri))
		total += p.Size
	}
	return newFetcher(m.client, counter(config.Progress, total, "downloading packages")).all(ctx, items)
}

// replace resolves r again because the archive has not got some of lock's packages any more.
func replace(ctx context.Context, r Recipe, lock Lock, gone []*goneError, config Config, m *mirror) (Lock, error) {
	if config.Frozen {
		return Lock{}, fmt.Errorf("%w; --frozen forbids to take a newer one", gone[0])
	}
	if len(r.Packages) == 0 {
		return Lock{}, gone[0]
	}
	newer, err := refresh(ctx, r, config, m)
	if err != nil {
		return Lock{}, fmt.Errorf("%w, and no newer one was found: %w", gone[0], err)
	}
	return newer, nil
}

// replaced says what it means that newer takes the place of lock.
func replaced(r Recipe, lock, newer Lock) string {
	var changed []string
	for _, p := range lock.Packages {
		if !slices.Contains(newer.Packages, p) {
			changed = append(changed, p.Name+" "+p.Version)
		}
	}
	some := strings.Join(changed[:min(3, len(changed))], ", ")
	return fmt.Sprintf("%s: the archive has no longer all locked versions, so %d packages are taken in their current one (instead of %s ...), and the digest is not that of the lock", r.Name, len(changed), some)
}

func downloadTarballs(ctx context.Context, lock Lock, config Config) error {
	var lacking []Tarball
	for _, t := range lock.NPM {
		have, err := t.item(config.Cache, "").cached()
		if err != nil {
			return err
		}
		if !have {
			lacking = append(lacking, t)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	base, err := registry(ctx, config)
	if err != nil {
		return err
	}
	var items []item
	for _, t := range lacking {
		items = append(items, t.item(config.Cache, base))
	}
	gone, err := newFetcher(client(config.Proxy), counter(config.Progress, -1, "downloading npm packages")).all(ctx, items)
	if err == nil && len(gone) > 0 {
		err = gone[0]
	}
	return err
}

// assemble makes the image from the cache.
func assemble(ctx context.Context, r Recipe, lock Lock, config Config, more extras) (image.Image, error) {
	t, err := image.NewTree(image.TreeConfig{SpoolDir: config.SpoolDir})
	if err != nil {
		return image.Image{}, err
	}
	defer t.Close()
	local, err := fill(ctx, t, r, lock, config, more)
	if err != nil {
		return image.Image{}, err
	}
	config.Progress(0, -1, "writing the image")
	meta := image.Meta{
		Source:       "build " + r.Name,
		Licences:     "/usr/share/doc/*/copyright and /usr/share/common-licenses in the image",
		Env:          map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"},
		Interpreters: found(t),
		Packages:     local,
		Trees:        t.Trees(),
	}
	for _, p := range lock.Packages {
		meta.Packages = append(meta.Packages, image.Package{Name: p.Name, Version: p.Version, Arch: lock.Arch, SHA256: p.SHA256})
	}
	for _, n := range lock.NPM {
		meta.Packages = append(meta.Packages, image.Package{Name: "npm:" + n.Name, Version: n.Version})
	}
	slices.SortFunc(meta.Packages, func(a, b image.Package) int { return strings.Compare(a.Name, b.Name) })
	return config.Store.Put(ctx, t.WriteEROFS, meta, r.Name)
}

// fill puts everything into t, and returns what came from local files.
func fill(ctx context.Context, t *image.Tree, r Recipe, lock Lock, config Config, more extras) (local []image.Package, err error) {
	if r.Kernel {
		return nil, fillKernel(ctx, t, lock, config)
	}
	var total int64
	for _, p := range lock.Packages {
		total += p.Size
	}
	if err := unpack(ctx, t, lock.Packages, config.Cache, r.Tests, counter(config.Progress, total, "unpacking packages")); err != nil {
		return nil, err
	}
	npm := slices.Clone(lock.NPM)
	slices.SortStableFunc(npm, func(a, b Tarball) int { return strings.Compare(a.In, b.In) }) // a package before what lies in it
	for _, n := range npm {
		if err := unpackNPM(t, n.dir(), n.item(config.Cache, "").path); err != nil {
			return nil, fmt.Errorf("unpack npm package %s %s: %w", n.Name, n.Version, err)
		}
	}
	if err := repair(t); err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	data, err := lock.Marshal()
	if err != nil {
		return nil, err
	}
	for _, f := range append(slices.Clone(r.Files), File{lockInImage, data}) {
		if err := f.add(t); err != nil {
			return nil, err
		}
	}
	for _, l := range r.Links {
		if err := t.AddSymlink(l.Path, l.Target); err != nil {
			return nil, err
		}
	}
	if more != nil {
		if local, err = more(t); err != nil {
			return nil, err
		}
	}
	return local, compile(ctx, t, config)
}

// interpreters are the commands that a description of an image names, if it has them.
var interpreters = []string{"awk", "bash", "cc", "gcc", "git", "go", "jq", "make", "node", "perl", "python3", "sh", "sqlite3"}

// found returns which interpreters t has, by name.
func found(t *image.Tree) map[string]string {
	have := map[string]string{}
	for _, name := range interpreters {
		if e, ok := t.Stat("usr/bin/" + name); ok && e.Mode.IsRegular() {
			have[name] = "/usr/bin/" + name
		}
	}
	return have
}
