package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/image/recipe"
)

func (a *app) imageCommand() *cobra.Command {
	return group("image", "Make, fetch and look after the root filesystems that programs run in",
		"  silk image build lab:python\n  silk image ls\n  silk image import app.tar my:app",
		a.imageBuildCommand(), a.imagePullCommand(), a.imageImportCommand(), a.imageExportCommand(),
		a.imageListCommand(), a.imageShowCommand(), a.imageVerifyCommand(), a.imageRemoveCommand(), a.imageGCCommand())
}

// openImages opens the image store without drivers.
func (a *app) openImages() (*host, error) { return a.images(func(string) error { return nil }) }

// makeImages is openImages for verbs that write: it makes the state directory.
func (a *app) makeImages() (*host, error) { return a.images(makeHome) }

func (a *app) images(ready func(home string) error) (h *host, err error) {
	h = &host{}
	if h.config, err = a.loadConfig(); err != nil {
		return nil, err
	}
	if h.home, err = a.home(h.config); err != nil {
		return nil, err
	}
	if err := ready(h.home); err != nil {
		return nil, err
	}
	h.images, err = openImageStore(h.config, h.home)
	return h, err
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

// tags are what an image is called now: who made it knows only what it was called before.
func (s imageStore) tags(img image.Image) ([]string, error) {
	images, err := s.List()
	if err != nil {
		return nil, err
	}
	for _, other := range images {
		if other.Digest == img.Digest {
			return other.Tags, nil
		}
	}
	return img.Tags, nil
}

func (a *app) completeImages(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var tags []string
	if h, err := a.openImages(); err == nil {
		if images, err := h.images.List(); err == nil {
			for _, img := range images {
				tags = append(tags, img.Tags...)
			}
		}
	}
	return tags, cobra.ShellCompDirectiveNoFileComp
}
