package main

import (
	"time"

	"github.com/spf13/cobra"
)

// noteFlags say which blocks of which notes are meant, and what is done.
type noteFlags struct {
	block, line int  // from 1; 0: not given
	all         bool // every block
	dryRun      bool
	stable      bool
	revoke      bool
	attachments string // folder for pictures; "": as the configuration or the vault says
	every       time.Duration
}

func (a *app) noteCommand() *cobra.Command {
	return group("note", "Run the blocks of code in notes, and keep their results there", `  silk note ls ~/vault
  silk note run ~/vault/Tour.md --block 1
  silk note run ~/vault/Tour.md --all --dry-run
  silk note clean ~/vault/Tour.md --all`,
		a.noteRunCommand(), a.noteListCommand(), a.noteCleanCommand(), a.noteApproveCommand(), a.noteWatchCommand())
}

func (f *noteFlags) choose(c *cobra.Command) {
	c.Flags().SortFlags = false
	c.Flags().IntVar(&f.block, "block", 0, "the block with this `NUMBER`, as silk note ls shows it")
	c.Flags().IntVar(&f.line, "line", 0, "the block at this `LINE`, from 1")
	c.Flags().BoolVar(&f.all, "all", false, "every block that can be run")
}

func (a *app) noteRunCommand() *cobra.Command {
	var f noteFlags
	c := &cobra.Command{
		Use:   "run NOTE.md",
		Short: "Run blocks of a note and put the results under them",
		Long: `Run blocks of code of a Markdown note, each in a sandbox of its own, and put the results under them, in place of earlier ones.

A block is a fence whose first word names a language. Attributes in braces, and a map "silk" in the front matter, say more:

    ` + "```" + `python {silk timeout=5s net=deny}

They ask as an API client does: what goes beyond the profile needs an approval, and is denied here.

Everything in the note but the results stays as it is, byte for byte. If the block was changed or removed while it ran, the note is
left alone and the result is put into a note beside it. Pictures among the artifacts go into the vault's folder for attachments.

With --server the blocks run on a server, as with silk run. Without --block, --line or --all the note must have one runnable
block. The exit status is that of the first block that did not end well.`,
		Example: `  silk note run Tour.md --block 2
  silk note run Tour.md --all --dry-run`,
		Args: needArgs(1, 1, "one note"),
		RunE: func(_ *cobra.Command, args []string) error { return a.noteRun(&f, args[0]) },
	}
	f.choose(c)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "run, but show how the note would change in place of changing it; nothing is handed on")
	c.Flags().BoolVar(&f.stable, "stable", false, "leave out times and ids of runs, so that the same result is the same text")
	c.Flags().StringVar(&f.attachments, "attachments", "", "`FOLDER` of the vault for pictures (default: configuration, the vault's own setting, attachments)")
	return a.jsonFlag(c)
}

func (a *app) noteListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "ls NOTE.md|VAULT",
		Short:   "List the blocks of code in notes, and why some cannot be run",
		Example: "  silk note ls ~/vault\n  silk note ls Tour.md --json",
		Args:    needArgs(1, 1, "one note or folder"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.noteList(args[0]) },
	}
	return a.jsonFlag(c)
}

func (a *app) noteCleanCommand() *cobra.Command {
	var f noteFlags
	c := &cobra.Command{
		Use:   "clean NOTE.md|VAULT",
		Short: "Remove results from notes, and the pictures that they show",
		Long: `Remove the results of runs from a note, or with --all from every note of a vault, and the pictures that they show. What is left is
what was there before, byte for byte.`,
		Example: "  silk note clean Tour.md --all --dry-run\n  silk note clean ~/vault --all",
		Args:    needArgs(1, 1, "one note or folder"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.noteClean(&f, args[0]) },
	}
	f.choose(c)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "show how the notes would change, and change nothing")
	return c
}

func (a *app) noteApproveCommand() *cobra.Command {
	var f noteFlags
	c := &cobra.Command{
		Use:   "approve NOTE.md",
		Short: "Let silk note watch run blocks of a note, as they are now",
		Long: `Let silk note watch run blocks of a note by itself: code with these very attributes, wherever it stands. After any change to it the
block is another one. --revoke takes that back.`,
		Example: "  silk note approve Tour.md --block 2\n  silk note approve Tour.md --all --revoke",
		Args:    needArgs(1, 1, "one note"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.noteApprove(&f, args[0]) },
	}
	f.choose(c)
	c.Flags().BoolVar(&f.revoke, "revoke", false, "do not let it run them any more")
	return c
}

func (a *app) noteWatchCommand() *cobra.Command {
	var f noteFlags
	c := &cobra.Command{
		Use:   "watch VAULT",
		Short: "Run approved blocks of a vault when they are new or changed",
		Long: `Watch the notes of a vault until Ctrl-C. A block is run when it has no result, or appears in a note, and then only if it is approved
with silk note approve, or says {silk auto} in a vault that the configuration names (notes: auto: [DIR]). All others are listed and never run.`,
		Example: "  silk note watch ~/vault",
		Args:    needArgs(1, 1, "one folder"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.noteWatch(&f, args[0]) },
	}
	c.Flags().DurationVar(&f.every, "every", time.Second, "look for changes this `OFTEN`")
	c.Flags().BoolVar(&f.stable, "stable", false, "leave out times and ids of runs")
	c.Flags().StringVar(&f.attachments, "attachments", "", "`FOLDER` of the vault for pictures")
	return c
}
