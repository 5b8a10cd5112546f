package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/image/recipe"
)

func (a *app) imageCommand() *cobra.Command {
	return group("image", "Make, fetch and look after the root filesystems that programs run in",
		"  silk image build lab:python\n  silk image ls\n  silk image import app.tar my:app",
		a.imageBuildCommand(), a.imageLockCommand(), a.imagePullCommand(), a.imageImportCommand(), a.imageExportCommand(),
		a.imageListCommand(), a.imageShowCommand(), a.imageVerifyCommand(), a.imageRemoveCommand(), a.imageGCCommand())
}

// openImages opens the image stores without drivers. write makes the state directory.
func (a *app) openImages(write bool) (c config, home string, stores imageStores, err error) {
	if c, err = a.loadConfig(); err != nil {
		return c, "", nil, err
	}
	if home, err = a.home(c); err != nil {
		return c, "", nil, err
	}
	if write {
		if err = makeHome(home); err != nil {
			return c, home, nil, err
		}
	}
	stores, err = openStores(c, home)
	return c, home, stores, err
}

func isNotFound(err error) bool { return errors.Is(err, image.ErrNotFound) }

func isLab(ref string) bool {
	_, ok := recipe.ByName(ref)
	return ok
}

// imageAnswer is one image in JSON.
type imageAnswer struct {
	Digest    string   `json:"digest"`
	Tags      []string `json:"tags"`
	SizeBytes int64    `json:"size_bytes"`
	System    bool     `json:"system"` // in a store that is only read
}

func answerFor(img image.Image) imageAnswer {
	tags := img.Tags
	if tags == nil {
		tags = []string{}
	}
	return imageAnswer{Digest: img.Digest.String(), Tags: tags, SizeBytes: img.SizeBytes, System: img.System}
}

// printImage reports the one image that a verb made.
func (a *app) printImage(img image.Image, tag string) error {
	if a.json {
		answer := answerFor(img)
		if len(answer.Tags) == 0 && tag != "" {
			answer.Tags = []string{tag}
		}
		return a.printJSON(answer)
	}
	return a.print("%s  %s  %s", tag, img.Digest, sizeText(img.SizeBytes))
}

// list returns the images of all stores, each digest once.
func (s imageStores) list() ([]image.Image, error) {
	var all []image.Image
	for i, store := range s {
		images, err := store.List()
		if err != nil {
			return nil, err
		}
		for _, img := range images {
			img.System = img.System || i > 0
			if !slices.ContainsFunc(all, func(other image.Image) bool { return other.Digest == img.Digest }) {
				all = append(all, img)
			}
		}
	}
	return all, nil
}

func (a *app) imageListCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "ls", Short: "List the images", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk image ls --json",
		RunE: func(*cobra.Command, []string) error {
			_, _, stores, err := a.openImages(false)
			if err != nil {
				return err
			}
			images, err := stores.list()
			if err != nil {
				return err
			}
			answers := []imageAnswer{}
			rows := [][]string{{"TAG", "DIGEST", "SIZE", "STORE"}}
			for _, img := range images {
				answers = append(answers, answerFor(img))
				where := "own"
				if img.System {
					where = "system"
				}
				rows = append(rows, []string{or(strings.Join(img.Tags, ","), "-"), img.Digest.Short(), sizeText(img.SizeBytes), where})
			}
			if a.json {
				return a.printJSON(answers)
			}
			return a.table(rows)
		},
	}
	return a.jsonFlag(c)
}

func (a *app) imageShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "show IMAGE", Short: "Show what an image was made of", Args: needArgs(1, 1, "one image: a tag, a digest or the beginning of one"),
		Example: "  silk image show lab:python", ValidArgsFunction: a.completeImages,
		RunE: func(_ *cobra.Command, args []string) error {
			_, _, stores, err := a.openImages(false)
			if err != nil {
				return err
			}
			store, img, err := stores.resolve(args[0])
			if err != nil {
				return err
			}
			meta, err := store.Meta(img)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(meta)
			}
			rows := [][]string{
				{"digest", meta.Digest.String()}, {"size", sizeText(meta.SizeBytes)}, {"made", meta.Created.Local().Format("2006-01-02 15:04:05")},
				{"from", printable(meta.Source)}, {"packages", fmt.Sprint(len(meta.Packages))},
			}
			for _, p := range meta.Packages {
				rows = append(rows, []string{"", p.Name + " " + p.Version})
			}
			for _, d := range meta.Dropped {
				rows = append(rows, []string{"left out", printable(d)})
			}
			return a.table(rows)
		},
	}
	return a.jsonFlag(c)
}

func (a *app) imageVerifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "verify [IMAGE...]", Short: "Read images whole and check them against their digests",
		Long:    "Read images whole and check them against their digests; all of them if none is named. Exit status 1 if one is damaged.",
		Example: "  silk image verify\n  silk image verify lab:python", ValidArgsFunction: a.completeImages,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error { return a.imageVerify(args) },
	}
	return a.jsonFlag(c)
}

// verifyAnswer is the JSON of one checked image.
type verifyAnswer struct {
	Image string `json:"image"`
	Whole bool   `json:"whole"`
	Why   string `json:"why,omitempty"`
}

func (a *app) imageVerify(refs []string) error {
	_, _, stores, err := a.openImages(false)
	if err != nil {
		return err
	}
	if len(refs) == 0 {
		images, err := stores.list()
		if err != nil {
			return err
		}
		for _, img := range images {
			refs = append(refs, img.Digest.String())
		}
	}
	report, done := a.progress()
	defer done()
	answers := []verifyAnswer{}
	var damaged []string
	for _, ref := range refs {
		store, _, err := stores.resolve(ref)
		if err == nil {
			err = store.Verify(a.ctx, ref, report)
		}
		answer := verifyAnswer{Image: ref, Whole: err == nil}
		switch {
		case errors.Is(err, image.ErrCorrupt):
			answer.Why = err.Error()
			damaged = append(damaged, ref)
		case err != nil:
			return err
		}
		answers = append(answers, answer)
	}
	done()
	if a.json {
		if err := a.printJSON(answers); err != nil {
			return err
		}
	}
	for _, answer := range answers {
		if a.json {
			break
		}
		if err := a.print("%s: %s", answer.Image, or(answer.Why, "whole")); err != nil {
			return err
		}
	}
	if len(damaged) > 0 {
		return findingf("damaged: %s; remove with silk image rm and make it again", strings.Join(damaged, ", "))
	}
	return nil
}

func (a *app) imageRemoveCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "rm IMAGE...", Short: "Remove tags, or images by digest", Args: needArgs(1, 1000, "at least one image"),
		Example: "  silk image rm my:app", ValidArgsFunction: a.completeImages,
		RunE: func(_ *cobra.Command, args []string) error {
			_, _, stores, err := a.openImages(false)
			if err != nil {
				return err
			}
			for _, ref := range args {
				if _, _, err := stores.resolve(ref); err != nil {
					return err
				}
				if err := stores.own().Remove(ref); err != nil {
					return err
				}
			}
			if a.json {
				return a.printJSON(args)
			}
			return nil
		},
	}
	return a.jsonFlag(c)
}

func (a *app) imageGCCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "gc", Short: "Remove images without a tag, and what broken builds left", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk image gc --dry-run",
		RunE: func(*cobra.Command, []string) error {
			_, _, stores, err := a.openImages(false)
			if err != nil {
				return err
			}
			answer, err := collectImages(stores, dryRun)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(answer)
			}
			return a.print("%s", answer)
		},
	}
	c.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only say what would be removed")
	return a.jsonFlag(c)
}

// imageGCAnswer is the JSON of `silk image gc`.
type imageGCAnswer struct {
	DryRun     bool     `json:"dry_run"`
	Images     []string `json:"images"` // digests
	Leftovers  int      `json:"leftovers"`
	FreedBytes int64    `json:"freed_bytes"`
}

func (g imageGCAnswer) String() string {
	verb := "removed"
	if g.DryRun {
		verb = "would remove"
	}
	return fmt.Sprintf("%s %d images and %d leftovers, %s", verb, len(g.Images), g.Leftovers, sizeText(g.FreedBytes))
}

func collectImages(stores imageStores, dryRun bool) (imageGCAnswer, error) {
	result, err := stores.own().GC(dryRun)
	answer := imageGCAnswer{DryRun: dryRun, Images: []string{}, Leftovers: result.Leftovers, FreedBytes: result.Bytes}
	for _, img := range result.Images {
		answer.Images = append(answer.Images, img.Digest.String())
	}
	return answer, err
}

func (a *app) completeImages(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var tags []string
	if _, _, stores, err := a.openImages(false); err == nil {
		if images, err := stores.list(); err == nil {
			for _, img := range images {
				tags = append(tags, img.Tags...)
			}
		}
	}
	return tags, cobra.ShellCompDirectiveNoFileComp
}
