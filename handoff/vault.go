package handoff

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/api"
)

// folders are those of the receivers in a vault.
var folders = map[string]string{CodeExplainer: "Code_Explainer", WidowWeaver: "Widow_Weaver"}

// NotePath is the path in a vault, with slashes, of the note that the vault sink makes of c.
func NotePath(c api.HandoffContent) string { return notePath(c, c.Receiver) }

// Vaults are the directories of the vaults in which hand-offs to a receiver become notes.
func (o *Outbox) Vaults(receiver string) (dirs []string) {
	for _, s := range o.sinks {
		if s.Vault != "" && s.takes(receiver) {
			dirs = append(dirs, s.Vault)
		}
	}
	return dirs
}

// notePath is NotePath for another receiver of the same run.
func notePath(c api.HandoffContent, receiver string) string {
	at := time.UnixMilli(c.CreatedAtMs).UTC().Format("2006-01-02 15.04.05")
	return path.Join(folders[receiver], at+" "+plainName(c.Outcome.Kind, 16)+" "+plainName(c.Name, maxName)+" "+plainName(c.Run, 26)+".md")
}

// maxName bounds the part of a file's name that is not ours, in bytes: with the rest it is below 255, the most of all file systems
// that there are, also if encryption makes it longer by half.
const maxName = 48

// plainName is text as a part of the name of a file that every system takes and no link or tag of Obsidian ends in: letters, digits
// and a few signs. It is never empty, does not begin or end with a dot or a space, and has neither separators, nor what cannot be seen
// or turns the reading direction, nor .. in it.
func plainName(text string, most int) string {
	var b strings.Builder
	last := rune(0)
	for _, r := range text {
		switch {
		case r == utf8.RuneError, !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-+=", r), unseen(r):
			r = '-'
		}
		if (r == '-' || r == '.') && r == last {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		b.WriteRune(r)
		last = r
	}
	if name := strings.Trim(b.String(), "-. "); name != "" {
		return name
	}
	return "code"
}

// unseen are letters that fonts do not draw: Hangul fillers (Unicode, Other_Default_Ignorable_Code_Point).
func unseen(r rune) bool { return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) }

// writeNote makes the note of c in a vault. One that is there already is left as it is: it was made by an attempt before, and may
// have been worked on since. Nothing outside of the vault is touched, wherever links in it lead.
func writeNote(vault string, c api.HandoffContent) (err error) {
	root, err := os.OpenRoot(vault)
	if err != nil {
		return fmt.Errorf("open vault: %w", err)
	}
	defer root.Close() // it was only looked at
	info, err := root.Stat(".")
	if err != nil {
		return fmt.Errorf("open vault: %w", err)
	}
	name := NotePath(c)
	folder, file := path.Split(name)
	folder = strings.TrimSuffix(folder, "/")
	switch err := root.Mkdir(folder, info.Mode().Perm()); {
	case err == nil:
		if err := giveAway(root, folder, info); err != nil {
			return fmt.Errorf("make folder %s: %w", folder, err)
		}
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("make folder %s: %w", folder, err)
	}
	dir, err := root.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("open folder %s: %w", folder, err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := place(dir, file, ".silk-"+plainName(c.ID, 26)+".tmp", render(c), info); err != nil {
		return fmt.Errorf("write note %s: %w", name, err)
	}
	return nil
}

// place makes a file with a content, whole or not at all, unless there is one of its name. temporary begins with a dot, so that Obsidian
// does not see it. owner is the directory that the file is to be like.
func place(dir *os.Root, name, temporary string, content []byte, owner fs.FileInfo) (err error) {
	if err := dir.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an attempt that was killed, be it after its link
		return err
	}
	if _, err := dir.Lstat(name); err == nil {
		return nil
	}
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, owner.Mode().Perm()&0o666)
	if err != nil {
		return err
	}
	defer func() {
		if gone := dir.Remove(temporary); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := giveAway(dir, temporary, owner); err != nil {
		return err
	}
	err = dir.Link(temporary, name) // which replaces nothing
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil { // a file system without links
		if _, there := dir.Lstat(name); there == nil {
			return nil
		}
		err = dir.Rename(temporary, name)
	}
	if err != nil {
		return err
	}
	syncDir(dir)
	return nil
}

// syncDir makes the names in dir durable, where the system can.
func syncDir(dir *os.Root) {
	d, err := dir.Open(".")
	if err != nil {
		return
	}
	_ = d.Sync()
	_ = d.Close()
}
