//go:build server || !linux || !amd64

package main

import (
	"fmt"
	"strconv"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/silk-sandbox/silk/note"
	"github.com/silk-sandbox/silk/retention"
)

// noteRow is one block in the JSON of `silk note ls`.
type noteRow struct {
	Note     string `json:"note"`
	Block    int    `json:"block"` // from 1
	Line     int    `json:"line"`  // from 1
	Language string `json:"language"`
	Profile  string `json:"profile"`
	Runnable bool   `json:"runnable"`
	Reason   string `json:"reason,omitempty"`
	CodeHash string `json:"code_hash"`
	Approved bool   `json:"approved"` // silk note watch may run it
	Auto     bool   `json:"auto"`     // it says {silk auto}
	Run      string `json:"run,omitempty"`
	Result   bool   `json:"result"`
}

func (a *app) noteList(name string) error {
	files, err := notesIn(name)
	if err != nil {
		return err
	}
	approved, err := a.approvedBlocks()
	if err != nil {
		return err
	}
	rows := []noteRow{}
	for _, f := range files {
		n, err := f.read()
		if err != nil {
			return err
		}
		for i, b := range n.Blocks {
			row := noteRow{
				Note: f.shown, Block: i + 1, Line: b.Line + 1, Language: b.Language, Profile: b.Profile, Runnable: b.Runnable, Reason: b.Reason,
				CodeHash: b.CodeHash, Approved: approved.has(b.CodeHash), Auto: b.Auto, Result: b.Result != nil,
			}
			if b.Result != nil {
				row.Run = b.Result.Run
			}
			rows = append(rows, row)
		}
	}
	if a.json {
		return a.printJSON(rows)
	}
	table := [][]string{{"NOTE", "BLOCK", "LINE", "LANGUAGE", "PROFILE", "RESULT", "WATCH", ""}}
	for _, r := range rows {
		result, watch := "-", "-"
		switch {
		case r.Run != "":
			result = r.Run
		case r.Result:
			result = "yes"
		}
		switch {
		case r.Approved:
			watch = "approved"
		case r.Auto:
			watch = "auto"
		}
		table = append(table, []string{oneLine(r.Note), strconv.Itoa(r.Block), strconv.Itoa(r.Line), or(oneLine(r.Language), "-"), or(oneLine(r.Profile), "-"), result, watch, oneLine(r.Reason)})
	}
	return a.table(table)
}

func (a *app) noteClean(f *noteFlags, name string) error {
	files, err := notesIn(name)
	if err != nil {
		return err
	}
	if len(files) != 1 && !f.all {
		return usagef("%s has %d notes; name one, or clean them all with --all", name, len(files))
	}
	cleaned := 0
	for _, file := range files {
		n, err := a.cleanNote(f, file)
		if err != nil {
			return fmt.Errorf("%s: %w", file.shown, err)
		}
		cleaned += n
	}
	if !f.dryRun {
		a.errorf("%s removed", countText(cleaned, "result"))
	}
	return nil
}

// cleanNote removes results from one note and returns how many.
func (a *app) cleanNote(f *noteFlags, file noteFile) (removed int, err error) {
	if f.dryRun {
		n, now, _, removed, err := withoutResults(f, file)
		if err == nil {
			_, err = a.out.Write(diff.Diff(file.shown, n.Text(), file.shown+" (without results)", now))
		}
		return removed, err
	}
	var images []string
	err = file.alone(a.ctx, func() (err error) {
		var n *note.Note
		var now []byte
		if n, now, images, removed, err = withoutResults(f, file); err != nil {
			return err
		}
		return file.write(n.Text(), now)
	})
	if err != nil {
		return 0, err
	}
	if len(images) == 0 {
		return removed, nil
	}
	held, err := a.heldArtifacts()
	if err != nil {
		return removed, err
	}
	return removed, file.dropImages(images, held)
}

// heldArtifacts are the hashes of artifacts of runs under hold: the pictures in vaults are the only copies of some.
func (a *app) heldArtifacts() (held map[string]bool, err error) {
	h, err := a.openImages()
	if err != nil {
		return nil, err
	}
	err = h.keep(a.ctx, func(k retention.Keeper) (err error) {
		if k.DB != nil {
			held, err = retention.Named(a.ctx, k.DB)
		}
		return err
	})
	return held, err
}

// withoutResults is a note as it is, and as it is without the results of the blocks that are meant, with their pictures and number.
func withoutResults(f *noteFlags, file noteFile) (n *note.Note, now []byte, images []string, removed int, err error) {
	if n, err = file.read(); err != nil {
		return nil, nil, nil, 0, err
	}
	list := make([]int, len(n.Blocks))
	for i := range list {
		list[i] = i
	}
	if !f.all {
		if list, err = f.chosen(n, file.shown); err != nil {
			return nil, nil, nil, 0, err
		}
	}
	for _, i := range list {
		if place := n.Blocks[i].Result; place != nil {
			images = append(images, place.Images...)
			removed++
		}
	}
	return n, n.Clear(list...), images, removed, nil
}
