package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/retention"
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
				if err := held(h.images.Remove(ref)); err != nil {
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

// held says how what is held can be let go.
func held(err error) error {
	var h *image.HeldError
	if errors.As(err, &h) {
		return fmt.Errorf("%w: silk record release %s lets it go", err, strings.Join(h.Names, " and "))
	}
	return err
}

func (a *app) imageGCCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "gc", Short: "Remove images that nothing keeps, and what broken builds left", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk image gc --dry-run",
		RunE: func(*cobra.Command, []string) error {
			h, err := a.openImages()
			if err != nil {
				return err
			}
			var report retention.Report
			err = h.keep(a.ctx, func(k retention.Keeper) (err error) {
				report, err = k.KeepImages(a.ctx, dryRun)
				return err
			})
			if err != nil {
				return err
			}
			answer := imagesOf(report, dryRun)
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

// imagesOf is what of a report is about images.
func imagesOf(r retention.Report, dryRun bool) imageGCAnswer {
	answer := imageGCAnswer{DryRun: dryRun, Images: []string{}, Leftovers: r.Leftovers, FreedBytes: r.Bytes}
	for _, gone := range r.Removals {
		if gone.Kind == retention.Image {
			answer.Images = append(answer.Images, gone.ID)
		} else {
			answer.FreedBytes -= gone.Bytes
		}
	}
	return answer
}
