package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/image"
)

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
	h, err := a.openImages()
	if err != nil {
		return err
	}
	if len(refs) == 0 {
		images, err := h.images.List()
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
		_, err := h.images.Resolve(ref)
		if err == nil {
			err = h.images.Verify(a.ctx, ref, report)
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
	} else if len(refs) == 0 {
		return a.print("%s", noImages)
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
