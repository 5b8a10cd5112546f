package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

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
			_, _, stores, err := a.openImages(true)
			if err != nil {
				return err
			}
			report, done := a.progress()
			defer done()
			tree, meta, err := image.Import(a.ctx, path, image.ImportConfig{Kind: image.Kind(kind), DropSetuid: dropSetuid, DropSpecial: dropSpecial, Progress: report})
			if err != nil {
				return err
			}
			return a.keepTree(stores, tree, meta, args[1], done)
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
			_, _, stores, err := a.openImages(true)
			if err != nil {
				return err
			}
			report, done := a.progress()
			defer done()
			tree, meta, err := registry.Pull(a.ctx, args[0], registry.Config{DropSpecial: dropSpecial, Progress: report})
			if err != nil {
				return err
			}
			return a.keepTree(stores, tree, meta, args[1], done)
		},
	}
	c.Flags().BoolVar(&dropSpecial, "drop-special", false, "leave device nodes, fifos and sockets out instead of refusing them")
	return a.jsonFlag(c)
}

// keepTree stores a tree under a tag, closes it, and reports the image.
func (a *app) keepTree(stores imageStores, tree *image.Tree, meta image.Meta, tag string, done func()) error {
	img, err := stores.own().Put(a.ctx, tree.WriteEROFS, meta, tag)
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
	var output string
	c := &cobra.Command{
		Use: "export IMAGE", Short: "Write an image as an OCI layout in a tar archive", Args: needArgs(1, 1, "one image"),
		Example: "  silk image export lab:python -o python.tar\n  silk image export lab:text -o - | docker load", ValidArgsFunction: a.completeImages,
		RunE: func(_ *cobra.Command, args []string) error { return a.imageExport(args[0], output) },
	}
	c.Flags().StringVarP(&output, "output", "o", "", "`FILE` to write, - for stdout")
	return a.jsonFlag(c)
}

func (a *app) imageExport(ref, output string) error {
	if output == "" || output == "-" && (a.json || isTerminal(a.out)) {
		return usagef("name the file to write with -o FILE; - is stdout, if that is not a terminal and no JSON is asked for")
	}
	_, _, stores, err := a.openImages(false)
	if err != nil {
		return err
	}
	store, img, err := stores.resolve(ref)
	if err != nil {
		return err
	}
	report, done := a.progress()
	defer done()
	if output == "-" {
		return store.Export(a.ctx, ref, a.out, report)
	}
	err = writeWhole(output, func(w io.Writer) error { return store.Export(a.ctx, ref, w, report) })
	if err != nil {
		return fmt.Errorf("export %s: %w", ref, err)
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

func writeWholeText(path, text string) error {
	return writeWhole(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}
