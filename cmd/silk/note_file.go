//go:build server || !linux || !amd64

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/internal/lockfile"
	"github.com/silk-sandbox/silk/note"
)

// noteFile is a note on this host's disk.
type noteFile struct {
	shown string // as the user named it
	path  string // without links
	vault string // the folder with its pictures

	patience time.Duration // until another silk lets go of its folder; 0: notePatience
}

// errNoteChanged says that a note is not what it was when it was read.
var errNoteChanged = errors.New("the note was changed meanwhile")

// openNote finds a note and its vault: the nearest folder above with .obsidian, else its own.
func openNote(name string) (noteFile, error) {
	file, info, err := locate(name)
	if err != nil {
		return noteFile{}, err
	}
	switch {
	case info.IsDir():
		return noteFile{}, usagef("%s is a directory; name a note in it", name)
	case !info.Mode().IsRegular() || !isNote(file):
		return noteFile{}, usagef("%s is no note: its name ends with .md", name)
	case info.Size() > note.MaxBytes:
		return noteFile{}, usagef("%s is larger than %s", name, sizeText(note.MaxBytes))
	}
	if file, err = filepath.EvalSymlinks(file); err != nil {
		return noteFile{}, err
	}
	return noteFile{shown: name, path: file, vault: vaultOf(file)}, nil
}

func isNote(name string) bool { return strings.EqualFold(filepath.Ext(name), ".md") }

// vaultDir is the folder of Obsidian's own files, which every vault has.
const vaultDir = ".obsidian"

func vaultOf(file string) string {
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(filepath.Join(dir, vaultDir)); err == nil && info.IsDir() {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return filepath.Dir(file)
		}
	}
}

func (f noteFile) read() (*note.Note, error) {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("read note: %w", err)
	}
	return note.Parse(text), nil
}

// notePatience is how long a note is waited for that another silk writes: each result takes some milliseconds.
const notePatience = 10 * time.Second

// errNoteHeld says that a note's folder is locked, by another silk or by something else.
var errNoteHeld = errors.New("another program has locked the note's folder")

// alone lets no other silk of this host write notes in the folder of this one while change does. Editors do not ask for that lock,
// so write looks too. Where the file system has no such locks, nobody waits for anybody.
func (f noteFile) alone(ctx context.Context, change func() error) (err error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), cmp.Or(f.patience, notePatience), errNoteHeld)
	defer cancel()
	lock, err := lockfile.Directory(ctx, filepath.Dir(f.path))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return change()
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, lock.Leave()) }()
	return change()
}

// write replaces the note's text if it is still was, at once and whole. It is called in alone.
func (f noteFile) write(was, text []byte) error {
	if bytes.Equal(was, text) {
		return nil
	}
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("write note: %w", err)
	}
	write := func(w io.Writer) error {
		if out, ok := w.(*os.File); ok {
			keepOwner(out, info)
		}
		_, err := w.Write(text)
		return err
	}
	return atomicfile.WriteIf(f.path, info.Mode().Perm(), write, func() error {
		now, err := os.ReadFile(f.path)
		if err == nil && !bytes.Equal(now, was) {
			err = errNoteChanged
		}
		return err
	})
}

// writable says whether the note's own permissions let anybody change it: a new file in its place would pass them over.
func (f noteFile) writable() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("look at note: %w", err)
	}
	if info.Mode().Perm()&0o222 == 0 {
		return usagef("%s is read-only, and results are put into it; chmod u+w it, or see them with --dry-run", f.shown)
	}
	return nil
}

// inVault is the note's path in its vault, with slashes.
func (f noteFile) inVault() string {
	rel, err := filepath.Rel(f.vault, f.path)
	if err != nil {
		return filepath.Base(f.path)
	}
	return filepath.ToSlash(rel)
}

// beside writes a new file next to the note, and returns its name. One of that name that is there is kept.
func (f noteFile) beside(run string, text []byte) (string, error) {
	base := strings.TrimSuffix(filepath.Base(f.path), filepath.Ext(f.path))
	name := filepath.Join(filepath.Dir(f.path), base+" (silk "+or(run, "result")+").md")
	for i := 2; ; i++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, atomicfile.Write(name, text, 0o644)
		}
		name = filepath.Join(filepath.Dir(f.path), fmt.Sprintf("%s (silk %s, %d).md", base, or(run, "result"), i))
	}
}

// defaultAttachments is the folder for pictures where nobody says another one.
const defaultAttachments = "attachments"

// attachments is the folder of a vault for pictures: what the user says, the configuration, Obsidian's own setting.
func (f noteFile) attachments(named, configured string) (string, error) {
	for _, from := range []struct{ folder, what string }{{named, "--attachments"}, {configured, "notes: attachments: in the configuration"}} {
		if from.folder != "" {
			if err := note.CheckFolder(from.folder); err != nil {
				return "", usagef("%s: %v", from.what, err)
			}
			return from.folder, nil
		}
	}
	var settings struct {
		Folder string `json:"attachmentFolderPath"`
	}
	text, err := os.ReadFile(filepath.Join(f.vault, vaultDir, "app.json"))
	if err == nil && json.Unmarshal(text, &settings) == nil && note.CheckFolder(settings.Folder) == nil { // "./x" is a folder of each note's, which no path in the vault names
		return settings.Folder, nil
	}
	return defaultAttachments, nil
}

// errPictureHeld says that a picture is an artifact of a run under hold.
var errPictureHeld = errors.New("a picture of a run that is held has its name (silk record holds)")

// putImage writes a picture into the vault, at once and whole. Nothing is written through a link that leads out of the vault. held are
// the hashes of pictures that stay: one in place of which data should come is an errPictureHeld.
func (f noteFile) putImage(at string, data []byte, held map[string]bool) (err error) {
	root, err := os.OpenRoot(f.vault)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if stays, err := pictureHeld(root, at, held); err != nil {
		return err
	} else if stays {
		return errPictureHeld
	}
	if err := root.MkdirAll(path.Dir(at), 0o755); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	part := path.Join(path.Dir(at), "."+path.Base(at)+"-part")
	if err := root.WriteFile(part, data, 0o644); err != nil {
		err = fmt.Errorf("write picture: %w", errors.Join(err, root.Remove(part)))
		_ = root.Remove(path.Dir(at)) // which fails if something is in it
		return err
	}
	return root.Rename(part, at)
}

// pictureHeld says whether the file at a place in the vault has one of these hashes.
func pictureHeld(root *os.Root, at string, held map[string]bool) (bool, error) {
	if len(held) == 0 {
		return false, nil
	}
	sum, err := fileSHA256(at, fileIn(root))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoFile) { // none that silk has written
		return false, nil
	}
	return held[sum], err
}

// dropImages removes the pictures of results that are gone, and their folders if nothing else is in them. One that any note or canvas
// of the vault still names stays: notes are copied. So does one whose hash is among held.
func (f noteFile) dropImages(images []string, held map[string]bool) (err error) {
	if len(images) == 0 {
		return nil
	}
	gone := slices.Clone(images)
	err = filesIn(f.vault, func(file string, _ fs.DirEntry) error {
		if ext := strings.ToLower(filepath.Ext(file)); ext != ".md" && ext != ".canvas" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		gone = slices.DeleteFunc(gone, func(at string) bool {
			return bytes.Contains(text, []byte(at)) || bytes.Contains(text, []byte("[["+path.Base(at))) // the short form of a link
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for pictures: %w", err)
	}
	root, err := os.OpenRoot(f.vault)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, at := range gone {
		if stays, err := pictureHeld(root, at, held); err != nil {
			return fmt.Errorf("remove picture: %w", err)
		} else if stays {
			continue
		}
		if err := root.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove picture: %w", err)
		}
		_ = root.Remove(path.Dir(at)) // which fails if something is in it
	}
	return nil
}

// notesIn finds the notes of a folder, or the one that is named. Hidden folders are Obsidian's and git's.
func notesIn(name string) ([]noteFile, error) {
	dir, info, err := locate(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		f, err := openNote(name)
		return []noteFile{f}, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	var list []noteFile
	err = filesIn(dir, func(file string, entry fs.DirEntry) error {
		if !isNote(file) {
			return nil
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if info, err := entry.Info(); err != nil || info.Size() > note.MaxBytes {
			return nil // gone, or no note that anybody reads
		}
		list = append(list, noteFile{shown: filepath.Join(name, rel), path: file, vault: vaultOf(file)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for notes: %w", err)
	}
	return list, nil
}

// filesIn visits the files of a folder. Hidden ones, links, and what goes away meanwhile are left out.
func filesIn(dir string, visit func(file string, entry fs.DirEntry) error) error {
	return filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && file != dir:
			return nil
		case err != nil:
			return err
		case entry.IsDir() && file != dir && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.Type().IsRegular() && !strings.HasPrefix(entry.Name(), "."):
			return visit(file, entry)
		}
		return nil
	})
}

// chosen are the blocks that the flags mean.
func (f *noteFlags) chosen(n *note.Note, name string) ([]int, error) {
	given := 0
	for _, g := range []bool{f.block != 0, f.line != 0, f.all} {
		if g {
			given++
		}
	}
	if given > 1 {
		return nil, usagef("--block, --line and --all are one too many; give one of them")
	}
	if n.Fault != "" {
		return nil, usagef("%s cannot be read as a note: %s", name, n.Fault)
	}
	var runnable []int
	for i, b := range n.Blocks {
		if b.Runnable {
			runnable = append(runnable, i)
		}
	}
	switch {
	case f.all:
		return runnable, nil
	case f.block != 0:
		if f.block < 1 || f.block > len(n.Blocks) {
			return nil, missingf("%s has no block %d; silk note ls %s lists its %d", name, f.block, name, len(n.Blocks))
		}
		return []int{f.block - 1}, nil
	case f.line != 0:
		i, ok := n.At(f.line - 1)
		if !ok {
			return nil, missingf("there is no block at line %d of %s; silk note ls %s lists them", f.line, name, name)
		}
		return []int{i}, nil
	case len(runnable) == 1:
		return runnable, nil
	case len(runnable) == 0:
		return nil, missingf("%s has no block that can be run; silk note ls %s says why", name, name)
	}
	return nil, usagef("%s has %d blocks that can be run; choose with --block, --line or --all", name, len(runnable))
}

// runnable refuses blocks that cannot be run.
func runnableBlocks(n *note.Note, list []int, name string) error {
	i := slices.IndexFunc(list, func(i int) bool { return !n.Blocks[i].Runnable })
	if i < 0 {
		return nil
	}
	b := n.Blocks[list[i]]
	return usagef("%s:%d: the block cannot be run: %s", name, b.Line+1, b.Reason)
}
