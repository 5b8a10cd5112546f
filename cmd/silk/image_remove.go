package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) imageRemoveCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "rm IMAGE...", Short: "Remove tags, or images by digest", Args: needArgs(1, 1000, "at least one image"),
		Example: "  silk image rm my:app", ValidArgsFunction: a.completeImages,
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := a.openImages()
			if err != nil {
				return err
			}
			for _, ref := range args {
				if _, err := h.images.Resolve(ref); err != nil {
					return err
				}
				if err := h.images.Remove(ref); err != nil {
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
			h, err := a.openImages()
			if err != nil {
				return err
			}
			answer, err := collectImages(h.images, dryRun)
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
	images, leftovers := "images", "leftovers"
	if len(g.Images) == 1 {
		images = "image"
	}
	if g.Leftovers == 1 {
		leftovers = "leftover"
	}
	return fmt.Sprintf("in the image store: %s %d %s and %d %s, %s", verb, len(g.Images), images, g.Leftovers, leftovers, sizeText(g.FreedBytes))
}

func collectImages(images imageStore, dryRun bool) (imageGCAnswer, error) {
	result, err := images.GC(dryRun)
	answer := imageGCAnswer{DryRun: dryRun, Images: []string{}, Leftovers: result.Leftovers, FreedBytes: result.Bytes}
	for _, img := range result.Images {
		answer.Images = append(answer.Images, img.Digest.String())
	}
	return answer, err
}
