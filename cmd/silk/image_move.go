package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/image/registry"
)

func (a *app) imageImportCommand() *cobra.Command {
	var kind string
	var dropSetuid, dropSpecial bool
	c := &cobra.Command{
		Use: "import PATH TAG", Short: "Import an OCI layout, a docker archive, a tar of a root filesystem or a directory",
		Long: `Import an OCI layout, a docker archive (docker save), a tar of a root filesystem or a directory as an image. What it is
is found out unless --kind says it. Names that lead out, device nodes and setuid files are refused, with the entry named.`,
		Example: "  docker save my/app | gzip > app.tar.gz && silk image import app.tar.gz my:app\n  silk image import ./rootfs my:rootfs --kind dir",
		Args:    needArgs(2, 2, "a path and a tag"),
		RunE: func(_ *cobra.Command, args []string) error {
			path, _, err := locate(args[0])
			if err != nil {
				return err
			}
			h, err := a.makeImages()
			if err != nil {
				return err
			}
			report, done := a.progress()
			defer done()
			tree, meta, err := image.Import(a.ctx, path, image.ImportConfig{Kind: image.Kind(kind), DropSetuid: dropSetuid, DropSpecial: dropSpecial, Progress: report})
			if err != nil {
				return err
			}
			return a.keepTree(h, tree, meta, args[1], done)
		},
	}
	c.Flags().StringVar(&kind, "kind", "", "what PATH is: oci, docker-archive, tar or dir (default: found out)")
	c.Flags().BoolVar(&dropSetuid, "drop-setuid", false, "import setuid files as ordinary ones instead of refusing them")
	c.Flags().BoolVar(&dropSpecial, "drop-special", false, "leave device nodes, fifos and sockets out instead of refusing them")
	return a.jsonFlag(c)
}

func (a *app) imagePullCommand() *cobra.Command {
	var dropSpecial bool
	c := &cobra.Command{
		Use: "pull NAME@sha256:DIGEST TAG", Short: "Fetch an image, pinned by its digest, from an OCI registry",
		Example: "  silk image pull registry.example.org/app@sha256:0123... my:app",
		Args:    needArgs(2, 2, "a reference with a digest and a tag"),
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := a.makeImages()
			if err != nil {
				return err
			}
			report, done := a.progress()
			defer done()
			tree, meta, err := registry.Pull(a.ctx, args[0], registry.Config{DropSpecial: dropSpecial, Progress: report})
			if err != nil {
				return err
			}
			return a.keepTree(h, tree, meta, args[1], done)
		},
	}
	c.Flags().BoolVar(&dropSpecial, "drop-special", false, "leave device nodes, fifos and sockets out instead of refusing them")
	return a.jsonFlag(c)
}

// keepTree stores a tree under a tag, closes it, and reports the image. What no sandbox may open does not even get into
// the image.
func (a *app) keepTree(h *host, tree *image.Tree, meta image.Meta, tag string, done func()) error {
	removed, err := tree.Without(rules.Forbidden())
	for _, name := range removed {
		meta.Dropped = append(meta.Dropped, "forbidden "+name)
	}
	var img image.Image
	if err == nil {
		meta.Trees = tree.Trees()
		img, err = h.images.Put(a.ctx, tree.WriteEROFS, meta, tag)
	}
	if err = errors.Join(err, tree.Close()); err != nil {
		return err
	}
	done()
	for _, dropped := range meta.Dropped {
		a.errorf("left out: %s", printable(dropped))
	}
	return a.printImage(img, tag)
}

func (a *app) imageExportCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "export IMAGE DIR|FILE.tar|-", Short: "Write an image as an OCI layout, into a directory or a tar archive", Args: needArgs(2, 2, "an image and a place"),
		Long: `Write an image as an OCI layout: into a new directory, or, if the place ends in .tar or is - for stdout, as a tar archive,
which docker load, podman load and skopeo read too.`,
		Example: "  silk image export lab:python python.tar\n  silk image export lab:text - | docker load\n  silk image export lab:text text-layout", ValidArgsFunction: a.completeImages,
		RunE: func(_ *cobra.Command, args []string) error { return a.imageExport(args[0], args[1]) },
	}
	return a.jsonFlag(c)
}

func (a *app) imageExport(ref, place string) error {
	if place == "-" && (a.json || isTerminal(a.out)) {
		return usagef("stdout is a terminal, or was promised to JSON; name a directory or FILE.tar")
	}
	switch ext := filepath.Ext(place); ext {
	case ".gz", ".tgz", ".xz", ".zst", ".zip":
		return usagef("no image is written as %s; name FILE.tar, or - and a program that compresses", ext)
	}
	h, err := a.openImages()
	if err != nil {
		return err
	}
	img, err := h.images.Resolve(ref)
	if err != nil {
		return err
	}
	report, done := a.progress()
	defer done()
	archive := func(w io.Writer) error { return h.images.Export(a.ctx, ref, w, report) }
	switch {
	case place == "-":
		return archive(a.out)
	case strings.HasSuffix(place, ".tar"):
		err = writeWhole(place, archive)
	default:
		err = h.images.ExportLayout(a.ctx, ref, filepath.Clean(place), report)
	}
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s is there already; name a new directory, or FILE.tar", place)
	}
	if err != nil {
		return err
	}
	done()
	if a.json {
		return a.printJSON(answerFor(img))
	}
	return nil
}

// writeWhole makes a file that appears under its name when write has written all of it.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
