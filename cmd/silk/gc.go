package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/store"
)

func (a *app) gcCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "gc", Short: "Remove what crashed runs and earlier versions left, and images without a tag", Args: needArgs(0, 0, "no arguments"),
		Long: `Remove what crashed runs left on this host (control groups, directories) and complete their records, remove the sandbox
kernels of earlier versions of silk and images without a tag. Every run begins with the first part of it by itself;
complete records and tagged images are never touched, nor is anything of a run that lives.`,
		Example: "  silk gc --dry-run",
		RunE:    func(*cobra.Command, []string) error { return a.gc(dryRun) },
	}
	c.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only say what would be removed")
	return a.jsonFlag(c)
}

func (a *app) gc(dryRun bool) error {
	h, err := a.openHost()
	if err != nil {
		return err
	}
	defer h.close() // nothing was started
	swept := h.tools.Sweep != nil && !dryRun
	if swept {
		done := a.busy("looking for leftovers")
		err := h.tools.Sweep(a.ctx)
		done()
		if err != nil {
			return err
		}
	}
	if !dryRun {
		if err := h.completeRecords(); err != nil {
			return err
		}
	}
	var kernels []string
	if h.tools.Prune != nil {
		if kernels, err = h.tools.Prune(dryRun); err != nil {
			return err
		}
	}
	images, err := collectImages(h.stores, dryRun)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			Swept   bool     `json:"swept"`   // leftovers of crashed runs were looked for and removed
			Kernels []string `json:"kernels"` // sandbox kernels of earlier versions
			imageGCAnswer
		}{swept, append([]string{}, kernels...), images})
	}
	if swept {
		if err := a.print("what crashed runs left is removed"); err != nil {
			return err
		}
	}
	for _, k := range kernels {
		if err := a.print("sandbox kernel of an earlier version: %s", k); err != nil {
			return err
		}
	}
	return a.print("%s", images)
}

// completeRecords gives the runs an end whose silk died. The engine does that whenever it opens the state.
func (h *host) completeRecords() error {
	if _, err := os.Stat(filepath.Join(h.home, store.FileName)); errors.Is(err, fs.ErrNotExist) {
		return nil // nothing has been run yet
	}
	engine, err := h.engine()
	if err != nil {
		return err
	}
	return engine.Leave() // which waits for it
}
