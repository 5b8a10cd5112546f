package firecracker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/driver/firecracker/guestbin"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// boot is what a machine boots. Both files can be read by everybody, for a VMM is nobody in particular.
type boot struct{ kernel, initial *os.File }

func (b boot) close() error { return errors.Join(b.kernel.Close(), b.initial.Close()) }

// prepared opens what machines boot. It is made once for a kernel and an agent, and lies in a directory that has both their digests for a name.
func (d *Driver) prepared(ctx context.Context) (b boot, err error) {
	img, agent, err := d.parts()
	if err != nil {
		return b, err
	}
	content, err := os.ReadFile(agent)
	if err != nil {
		return b, fmt.Errorf("read the agent of virtual machines: %w", err)
	}
	sum := sha256.Sum256(content)
	dir := filepath.Join(d.config.Home, "microvm", "boot-"+img.Digest.Short()+"-"+hex.EncodeToString(sum[:6]))
	if b, err = openBoot(dir); !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if err := d.makeBoot(ctx, dir, img, content); err != nil {
		return b, fmt.Errorf("prepare what virtual machines boot: %w", err)
	}
	return openBoot(dir)
}

// parts finds the kernel and the agent.
func (d *Driver) parts() (img image.Image, agent string, err error) {
	if d.config.Images == nil {
		return img, "", fmt.Errorf("%w: there is no image store", ErrUnusable)
	}
	if img, err = d.config.Images.Resolve(d.config.Kernel); errors.Is(err, fs.ErrNotExist) {
		how := "silk image build " + image.KernelTag
		if d.config.Kernel != image.KernelTag {
			how = "silk image build --vmlinux FILE " + d.config.Kernel + ", or leave SILK_KERNEL out, and Debian's is booted"
		}
		return img, "", fmt.Errorf("%w: there is no kernel for them yet, the image %s; make it with: %s", ErrUnusable, d.config.Kernel, how)
	}
	if err != nil {
		return img, "", err
	}
	if agent, err = guestbin.Agent.Locate(d.config.Agent, d.config.Home); err != nil {
		return img, "", fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return img, agent, nil
}

// openBoot opens what is there. The initial file system is written last.
func openBoot(dir string) (b boot, err error) {
	if b.initial, err = os.Open(filepath.Join(dir, "initial")); err != nil {
		return b, err
	}
	if b.kernel, err = os.Open(filepath.Join(dir, "vmlinux")); err != nil {
		return b, errors.Join(err, b.initial.Close())
	}
	return b, nil
}

func (d *Driver) makeBoot(ctx context.Context, dir string, img image.Image, agent []byte) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tree, err := d.config.Images.Tree(ctx, img, image.TreeConfig{SpoolDir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	kernel, err := contentOf(tree, image.KernelFile)
	if err != nil {
		return err
	}
	entries := []entry{
		{name: "dev/console", mode: modeChar | 0o600, major: 5, minor: 1}, // Documentation/admin-guide/devices.txt
		{name: "init", mode: modeFile | 0o500, content: agent},
	}
	var modules []string
	for e := range tree.All() {
		if name := strings.TrimPrefix(e.Path, "/"); path.Dir(name) == image.KernelModules && e.Mode.IsRegular() {
			modules = append(modules, name)
		}
	}
	slices.Sort(modules)
	for _, name := range modules {
		content, err := contentOf(tree, name)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: "modules/" + path.Base(name), mode: modeFile | 0o400, content: content})
	}
	if err := atomicfile.Write(filepath.Join(dir, "vmlinux"), kernel, 0o444); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, "initial"), initialFS(entries), 0o444)
}

func contentOf(tree *image.Tree, name string) ([]byte, error) {
	r, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
