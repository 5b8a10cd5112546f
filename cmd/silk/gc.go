package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/oci/rootfs"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/retention"
	"github.com/silk-sandbox/silk/run"
)

func (a *app) gcCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "gc", Short: "Remove what crashed runs and earlier versions left, and what is old", Args: needArgs(0, 0, "no arguments"),
		Long: `Remove what crashed runs, notes and selftests left on this host (control groups, files) and complete their records, remove the sandbox kernels
of earlier versions of silk and images without a tag. Every run begins with the first part of it by itself. Then what goes that the
owner's retention does not keep (retention: in the configuration): copies of artifacts after 30 days, and, if it says so, output, records
and images that nothing uses, and the oldest artifacts and output beyond a budget. Old audit events move into files, and files older than
audit: retention: go. Nothing is touched of a run that lives or waits, and nothing that a run under hold names (silk record hold).`,
		Example: "  silk gc --dry-run",
		RunE:    func(*cobra.Command, []string) error { return a.gc(dryRun) },
	}
	c.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only say what would be removed")
	return a.jsonFlag(c)
}

// gcAnswer is the JSON of `silk gc`. What it lists is removed or, in a dry run, would be.
type gcAnswer struct {
	Groups  []string `json:"groups"`  // control groups of crashed runs
	Runs    []string `json:"runs"`    // whose records had no end
	Files   []string `json:"files"`   // of crashed runs
	Kernels []string `json:"kernels"` // sandbox kernels of earlier versions

	Removals  []retention.Removal `json:"removals"`   // what retention does not keep, with the reasons
	LeftBytes int64               `json:"left_bytes"` // of what runs have left, after that
	HeldBytes int64               `json:"held_bytes"` // of that, what holds keep
	OverBytes int64               `json:"over_bytes"` // beyond the budget
	Busy      bool                `json:"busy"`       // another silk is removing what is old

	Audit audit.Rotated `json:"audit"` // what became of old audit events; in a dry run only what retention would remove
	moves bool          // whether, in a dry run, events would move into files
	kept  retention.Report
	imageGCAnswer
}

func (a *app) gc(dryRun bool) error {
	open := a.lookHost
	if !dryRun {
		open = func() (*host, error) { return a.openHost(false) }
	}
	h, err := open()
	if err != nil {
		return err
	}
	defer h.close() // nothing was started
	done := a.busy("looking for leftovers")
	defer done()
	var errs []error // none keeps the rest from being done
	keep := func(err error) { errs = append(errs, err) }
	answer := gcAnswer{Groups: []string{}}
	if h.tools.Sweep != nil {
		groups, err := h.tools.Leftovers()
		keep(err)
		answer.Groups = append(answer.Groups, groups...)
		if !dryRun {
			keep(h.tools.Sweep(a.ctx))
		}
	}
	outbox, err := h.outbox(nil)
	keep(err)
	var signer record.Signer
	if !dryRun {
		signer, err = a.signer(h)
		keep(err)
	}
	left, err := run.Recover(a.ctx, h.home, dryRun, h.salvage, outbox, signer)
	keep(err)
	answer.Runs, answer.Files = append([]string{}, left.Runs...), append([]string{}, left.Files...)
	for _, dir := range deadScratch() {
		if !dryRun {
			if err := os.RemoveAll(dir); err != nil {
				keep(err)
				continue
			}
		}
		answer.Files = append(answer.Files, dir)
	}
	containers, err := deadContainers(h.home, dryRun)
	keep(err)
	rootfsTags, err := rootfs.Cache{Images: h.images.Store, Dir: h.rootfsDir()}.Prune(dryRun)
	keep(err)
	answer.Files = append(append(answer.Files, containers...), rootfsTags...)
	answer.Audit = audit.Rotated{Segments: []string{}, Removed: []string{}}
	if dryRun {
		move, removed, err := h.previewAudit(a.ctx)
		keep(err)
		answer.Audit.Removed = append(answer.Audit.Removed, removed...)
		answer.moves = move
	} else {
		did, err := h.rotateAudit(a.ctx)
		keep(err)
		answer.Audit.Segments, answer.Audit.Removed = append(answer.Audit.Segments, did.Segments...), append(answer.Audit.Removed, did.Removed...)
	}
	answer.Kernels = []string{}
	if h.tools.Prune != nil {
		kernels, err := h.tools.Prune(dryRun)
		keep(err)
		answer.Kernels = append(answer.Kernels, kernels...)
	}
	keep(h.keep(a.ctx, func(k retention.Keeper) (err error) {
		answer.kept, err = k.Keep(a.ctx, dryRun)
		return err
	}))
	answer.Removals = append([]retention.Removal{}, answer.kept.Removals...)
	answer.LeftBytes, answer.HeldBytes, answer.OverBytes, answer.Busy = answer.kept.LeftBytes, answer.kept.HeldBytes, answer.kept.OverBytes, answer.kept.Busy
	answer.imageGCAnswer = imagesOf(answer.kept, dryRun)
	done()
	if a.json {
		keep(a.printJSON(answer))
		a.json = false // errors go to stderr: stdout has its one value
	} else {
		keep(a.printGC(answer))
	}
	return errors.Join(errs...)
}

func (a *app) printGC(answer gcAnswer) error {
	completed, removed := "completed the record of", "removed"
	if answer.DryRun {
		completed, removed = "would complete the record of", "would remove"
	}
	var lines []string
	for _, id := range answer.Runs {
		lines = append(lines, completed+" run "+id+", whose end was not recorded")
	}
	for _, file := range append(answer.Groups, answer.Files...) {
		lines = append(lines, removed+" "+printable(file))
	}
	for _, kernel := range answer.Kernels {
		lines = append(lines, removed+" "+printable(kernel)+", a sandbox kernel of an earlier version")
	}
	if answer.moves {
		lines = append(lines, "would move old audit events to files in "+audit.DirName)
	}
	for _, segment := range answer.Audit.Segments {
		lines = append(lines, "moved old audit events to "+audit.DirName+"/"+segment)
	}
	for _, segment := range answer.Audit.Removed {
		lines = append(lines, removed+" "+audit.DirName+"/"+segment+", which is older than retention keeps audit events")
	}
	lines = append(lines, retentionText(answer.kept, answer.DryRun)...)
	return a.print("%s", strings.Join(append(lines, answer.String()), "\n"))
}
