//go:build server || !linux || !amd64

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/silk-sandbox/silk/note"
)

// noteWatcher runs blocks of a vault as they appear.
type noteWatcher struct {
	*app
	flags  *noteFlags
	dir    string
	config notesConfig
	engine noteEngine
	auto   bool // {silk auto} means something here

	seen map[string]noteSeen
	done map[string]map[string]bool // by note: the hashes of its blocks that were run, or had a result
	told map[string]bool            // blocks that were listed, by note and hash; what is wrong with notes
}

// noteSeen is what a note's file was like when it was looked at.
type noteSeen struct {
	size    int64
	changed time.Time
	settled bool // it was read in this state
}

func (a *app) noteWatch(f *noteFlags, name string) (err error) {
	dir, info, err := locate(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return usagef("%s is no folder; silk note run runs the blocks of one note", name)
	}
	if f.every < 10*time.Millisecond {
		return usagef("--every %s is too often", f.every)
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	w := &noteWatcher{app: a, flags: f, dir: name, config: c.notes, seen: map[string]noteSeen{}, done: map[string]map[string]bool{}, told: map[string]bool{}}
	w.auto = c.notes.isAuto(dir)
	if w.engine, err = a.noteEngine(false, false); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.engine.close()) }()
	a.errorf("watching %s", name)
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		if err := w.look(); err != nil && a.ctx.Err() == nil {
			return err
		}
		select {
		case <-a.ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// isAuto says whether a folder is a vault in which {silk auto} means something.
func (c notesConfig) isAuto(dir string) bool {
	return slices.ContainsFunc(c.auto, func(vault string) bool { return sameDir(vault, dir) })
}

// sameDir says whether two paths lead to the same directory, which is there.
func sameDir(a, b string) bool {
	a, errA := filepath.EvalSymlinks(a)
	b, errB := filepath.EvalSymlinks(b)
	return errA == nil && errB == nil && a == b
}

// look goes through the vault once. A note is read when it has not changed between two looks, so that nobody is typing in it.
func (w *noteWatcher) look() error {
	files, err := notesIn(w.dir)
	if err != nil {
		return err
	}
	here := map[string]bool{}
	for _, f := range files {
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		here[f.path] = true
		info, err := os.Stat(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			w.complain(f, fmt.Errorf("look at note: %w", err))
			continue
		}
		was := w.seen[f.path]
		now := noteSeen{size: info.Size(), changed: info.ModTime()}
		if was.size != now.size || !was.changed.Equal(now.changed) {
			w.seen[f.path] = now
			continue
		}
		if was.settled {
			continue
		}
		now.settled = true
		w.seen[f.path] = now
		if err := w.note(f); err != nil {
			if w.ctx.Err() != nil {
				return err
			}
			w.complain(f, err)
		}
	}
	for path := range w.seen {
		if !here[path] {
			delete(w.seen, path)
			delete(w.done, path)
		}
	}
	return nil
}

// complain says once what is wrong with a note: the others go on, and this one when it is changed.
func (w *noteWatcher) complain(f noteFile, err error) {
	if key := f.path + "\x00" + err.Error(); !w.told[key] {
		w.told[key] = true
		w.errorf("%s: %v", f.shown, err)
	}
}

// note runs what may be run of a note that is new or changed.
func (w *noteWatcher) note(f noteFile) error {
	n, err := f.read()
	if err != nil {
		return err
	}
	approved, err := w.approvedBlocks()
	if err != nil {
		return err
	}
	done := w.done[f.path]
	first := done == nil
	now := map[string]bool{} // a block that was away is a new one when it comes back
	var list []int
	for i, b := range n.Blocks {
		if !b.Runnable {
			continue
		}
		may := approved.has(b.CodeHash) || b.Auto && w.auto // and again before it is run
		switch {
		case done[b.CodeHash], first && b.Result != nil:
			now[b.CodeHash] = true
		case may:
			list = append(list, i)
		case !w.told[f.path+"\x00"+b.CodeHash]:
			w.told[f.path+"\x00"+b.CodeHash] = true
			w.errorf("%s:%d: not run, since it is not approved (silk note approve %s --line %d)", f.shown, b.Line+1, f.shown, b.Line+1)
		}
	}
	for _, i := range list {
		now[n.Blocks[i].CodeHash] = true
	}
	w.done[f.path] = now
	if len(list) == 0 {
		return nil
	}
	if err := f.writable(); err != nil {
		return err
	}
	r := &noteRunner{app: w.app, file: f, flags: w.flags, engine: w.engine, now: n}
	r.may = func(b note.Block) string {
		if approved.has(b.CodeHash) || b.Auto && w.auto {
			return ""
		}
		return "it is not approved"
	}
	if r.attachments, err = f.attachments(w.flags.attachments, w.config.attachments); err != nil {
		return err
	}
	return r.all(list)
}
