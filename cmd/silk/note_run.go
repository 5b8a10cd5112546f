//go:build server || !linux || !amd64

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/silk-sandbox/silk/note"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/run"
)

// noteAnswer is the end of one block in the JSON of `silk note run`.
type noteAnswer struct {
	Note   string `json:"note"`
	Line   int    `json:"line"` // of the fence when it was run, from 1
	Block  int    `json:"block"`
	Beside string `json:"beside,omitempty"` // where the result is if the block was not there any more
	run.Outcome
}

// noteRunner runs blocks of one note, one after the other, and writes each result as it comes.
type noteRunner struct {
	*app
	file        noteFile
	flags       *noteFlags
	attachments string
	engine      noteEngine
	may         func(note.Block) string // why a block may not be run though it is runnable; nil: every one may
	quiet       bool

	first, now *note.Note // as it was found; as it is, of a dry run as it would be
	answers    []noteAnswer
	status     int // of the first block that did not end well
}

func (a *app) noteRun(f *noteFlags, name string) (err error) {
	file, err := openNote(name)
	if err != nil {
		return err
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	r := &noteRunner{app: a, file: file, flags: f, quiet: a.json}
	if r.attachments, err = file.attachments(f.attachments, c.notes.attachments); err != nil {
		return err
	}
	if r.now, err = file.read(); err != nil {
		return err
	}
	if !f.dryRun {
		if err := file.writable(); err != nil {
			return err
		}
	}
	r.first = r.now
	list, err := f.chosen(r.now, name)
	if err == nil {
		err = runnableBlocks(r.now, list, name)
	}
	if err != nil {
		return err
	}
	if r.engine, err = a.noteEngine(f.dryRun, true); err != nil {
		return err
	}
	err = errors.Join(r.all(list), r.engine.close())
	if f.dryRun && err == nil {
		_, err = a.out.Write(diff.Diff(name, r.first.Text(), name+" (with results)", r.now.Text()))
	}
	if a.json && !f.dryRun {
		err = errors.Join(err, a.printJSON(r.answers))
	}
	if err != nil {
		return err
	}
	if r.status != 0 {
		return &endError{r.status}
	}
	return nil
}

// all runs blocks, given by their indexes in the note as it is now.
func (r *noteRunner) all(list []int) error {
	r.answers = []noteAnswer{}
	start := r.now
	type mark struct {
		index, line int
		hash        string
	}
	marks := make([]mark, len(list))
	for i, index := range list {
		marks[i] = mark{index, start.Blocks[index].Line, start.Blocks[index].CodeHash}
	}
	for _, m := range marks {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		before := r.now
		if err := r.refresh(); err != nil {
			return err
		}
		// Results that were written since do not change the order of blocks: only if others have changed the note a block is looked for.
		i := m.index
		if i >= len(r.now.Blocks) || r.now.Blocks[i].CodeHash != m.hash || len(r.now.Blocks) != len(start.Blocks) {
			line := m.line
			if m.index < len(before.Blocks) {
				line = before.Blocks[m.index].Line
			}
			var err error
			if i, err = note.Locate(before, r.now, line, m.hash); err != nil {
				r.errorf("%s: block %d is not there any more, and was not run", r.file.shown, m.index+1)
				r.status = or0(r.status, run.Outcome{Kind: run.Error}.ExitStatus())
				continue
			}
		}
		// The note may have been changed around the block, which is still the same.
		if why := r.refusal(r.now.Blocks[i]); why != "" {
			r.errorf("%s:%d: not run: %s", r.file.shown, r.now.Blocks[i].Line+1, why)
			r.status = or0(r.status, run.Outcome{Kind: run.Denied}.ExitStatus())
			continue
		}
		if err := r.one(i); err != nil {
			return err
		}
	}
	return nil
}

// refusal is why a block is not run.
func (r *noteRunner) refusal(b note.Block) string {
	switch {
	case r.now.Fault != "":
		return r.now.Fault
	case !b.Runnable:
		return b.Reason
	case r.may != nil:
		return r.may(b)
	}
	return ""
}

// refresh reads the note again.
func (r *noteRunner) refresh() (err error) {
	if !r.flags.dryRun {
		r.now, err = r.file.read()
	}
	return err
}

// one runs a block of the note as it is now, and writes the result into the note as it is then.
func (r *noteRunner) one(i int) (err error) {
	before := r.now
	b := before.Blocks[i]
	end, err := r.engine.run(r.ctx, &b, run.Note{Path: r.file.inVault(), Block: "line " + strconv.Itoa(b.Line+1)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end.close()) }()
	answer := noteAnswer{Note: r.file.shown, Line: b.Line + 1, Block: i + 1, Outcome: end.outcome}
	if r.flags.dryRun { // the note on the disk has no results of this run above
		answer.Line = r.first.Blocks[i].Line + 1
	}
	answer.Beside, err = r.put(before, b, end)
	if err != nil {
		return err
	}
	r.answers = append(r.answers, answer)
	r.status = or0(r.status, end.outcome.ExitStatus())
	if !r.quiet {
		r.say(answer)
	}
	return nil
}

// putAttempts is how often a result is put into a note that is changed all the time.
const putAttempts = 10

// put puts the result of block b of before into the note as it is now, or into a note beside it.
func (r *noteRunner) put(before *note.Note, b note.Block, end *noteEnd) (beside string, err error) {
	result := end.result(r.flags.stable)
	id := end.outcome.Run
	if r.flags.stable {
		id = stableID(before, b)
	}
	result.Images = r.images(id, end)
	if end.outcome.Kind != run.OK {
		if result.Handoffs, err = end.handoffs(r.file.vault); err != nil {
			return "", err
		}
	}
	why := ""
	was, err := r.place(before, b, result)
	switch {
	case err == nil:
		return "", r.drop(was)
	case errors.Is(err, note.ErrNotFound):
		why = "the block was changed or removed while it ran"
	case errors.Is(err, errNoteChanged):
		why = "it is changed all the time"
	case errors.Is(err, errNoteHeld):
		why = errNoteHeld.Error()
	default:
		return "", err
	}
	if beside, err = r.file.beside(end.outcome.Run, note.Aside(b, result)); err == nil {
		r.errorf("%s: %s; the note is as it was, and the result is in %s", r.file.shown, why, beside)
	}
	return beside, err
}

// place puts a result under block b of before in the note as it is now, and returns the pictures of the result that was there.
func (r *noteRunner) place(before *note.Note, b note.Block, result *note.Result) (was []string, err error) {
	if r.flags.dryRun {
		i, err := note.Locate(before, r.now, b.Line, b.CodeHash)
		if err == nil {
			r.now = note.Parse(r.now.Put(i, result))
		}
		return nil, err
	}
	err = r.file.alone(r.ctx, func() error {
		var err error
		for range putAttempts {
			if r.now, err = r.file.read(); err != nil {
				return err
			}
			i, missing := note.Locate(before, r.now, b.Line, b.CodeHash)
			if missing != nil {
				return missing
			}
			text := r.now.Put(i, result)
			if err = r.file.write(r.now.Text(), text); err == nil {
				if old := r.now.Blocks[i].Result; old != nil {
					was = old.Images
				}
				r.now = note.Parse(text)
				return nil
			}
			if !errors.Is(err, errNoteChanged) {
				return err
			}
		}
		return err
	})
	return was, err
}

// stableID names a block in paths of pictures that must not change: by its code, and by its number among its copies.
func stableID(n *note.Note, b note.Block) string {
	copies := 0
	for _, other := range n.Blocks {
		if other.CodeHash == b.CodeHash && other.Line <= b.Line {
			copies++
		}
	}
	id := b.CodeHash[:16]
	if copies > 1 {
		id += "-" + strconv.Itoa(copies)
	}
	return id
}

// images puts the pictures of a run into the vault. One that cannot be written is said to be missing: the result matters more.
func (r *noteRunner) images(id string, end *noteEnd) []note.Image {
	list := note.Images(r.attachments, id, end.pictures())
	if r.flags.dryRun || len(list) == 0 {
		return list
	}
	held, unknown := r.heldArtifacts()
	return slices.DeleteFunc(list, func(img note.Image) bool {
		data, err := end.artifact(img.Artifact)
		if err == nil {
			err = unknown
		}
		if err == nil {
			err = r.file.putImage(img.Path, data, held)
		}
		if err != nil {
			r.errorf("%s: the result is without the picture %q of run %s: %v", r.file.shown, img.Artifact, end.outcome.Run, err)
			r.status = or0(r.status, run.Outcome{Kind: run.Error}.ExitStatus())
		}
		return err != nil
	})
}

// drop removes pictures of a result that is gone.
func (r *noteRunner) drop(images []string) error {
	if len(images) == 0 {
		return nil
	}
	held, err := r.heldArtifacts()
	if err != nil {
		return err
	}
	return r.file.dropImages(images, held)
}

// say tells people how a block has ended.
func (r *noteRunner) say(a noteAnswer) {
	line := fmt.Sprintf("%s:%d: %s", r.file.shown, a.Line, a.Kind)
	if a.Kind == run.Failed && a.ExitCode != nil {
		line += ", exit " + strconv.Itoa(*a.ExitCode)
	}
	if a.Message != "" && a.Kind != run.OK {
		line += ": " + oneLine(a.Message)
	}
	r.errorf("%s (%d ms, run %s)", line, a.WallMs, a.Run)
	if network := egressNote(a.Outcome, policy.Plan{}); network != "" {
		r.errorf("%s:%d: %s", r.file.shown, a.Line, network)
	}
}

func or0(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}
