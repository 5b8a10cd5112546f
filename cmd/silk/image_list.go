package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) imageListCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "ls", Short: "List the images", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk image ls --json",
		RunE: func(*cobra.Command, []string) error {
			h, err := a.openImages()
			if err != nil {
				return err
			}
			images, err := h.images.List()
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
			if len(images) == 0 {
				return a.print("%s", noImages)
			}
			return a.table(rows)
		},
	}
	return a.jsonFlag(c)
}

// noImages is what people read where images would be listed.
const noImages = "no images yet; make one with: silk image build lab:text"

func (a *app) imageShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "show IMAGE", Short: "Show what an image was made of", Args: needArgs(1, 1, "one image: a tag, a digest or the beginning of one"),
		Example: "  silk image show lab:python", ValidArgsFunction: a.completeImages,
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := a.openImages()
			if err != nil {
				return err
			}
			img, err := h.images.Resolve(args[0])
			if err != nil {
				return err
			}
			meta, err := h.images.Meta(img)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(meta)
			}
			rows := [][]string{
				{"digest", meta.Digest.String()},
				{"size", sizeText(meta.SizeBytes)},
				{"made", meta.Created.Local().Format("2006-01-02 15:04:05")},
				{"from", printable(meta.Source)},
				{"packages", fmt.Sprint(len(meta.Packages))},
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
